"""Convolutions for inference against torch, in Triton's interpreter and on a GPU."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from programs import run_interpreted
from resultant.networks.norm import channels_last
from resultant.networks.stacked_resnet import StackedResNet32, patches

CHECK = "from networks import test_inference_kernel as test; test.check('cpu', 3)"
NETWORK = """
import torch
from networks import test_inference_kernel as test
from resultant.networks import stacked_resnet
from resultant.networks.kernels import inference

calls = []
# One block of each kind: 2 of 5 per stage.
stacked_resnet.BLOCKS = 2
stacked_resnet._infers = lambda x: x.dtype is torch.float32
convolve = inference.convolve
inference.convolve = lambda *args: calls.append(args) or convolve(*args)
test.check_network("cpu", 2, 8)
assert len(calls) == 12
"""


def check(device: str, images: int) -> None:
    from resultant.networks.kernels.inference import convolve

    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    for runs, i, o, size, stride, has_residual in (
        (1, 16, 16, 7, 1, False),
        (3, 16, 16, 8, 1, True),
        (3, 16, 32, 8, 2, False),
        (2, 32, 64, 7, 2, True),
        (2, 64, 64, 4, 1, True),
    ):
        high = (size - 1) // stride + 1
        x, weight = channels_last(normal(images, runs * i, size, size)), normal(runs, o, i, 3, 3)
        scale, shift = normal(2, runs, o)
        other = channels_last(normal(images, runs * o, high, high)) if has_residual else None
        lines = [a.double().view(1, -1, 1, 1) for a in (scale, shift)]
        convolved = F.conv2d(x.double(), weight.flatten(0, 1).double(), None, stride, 1, 1, runs)
        expected = F.relu(convolved * lines[0] + lines[1] + (0 if other is None else other))
        residual = None if other is None else other.to(device)
        x, weight, scale, shift = (a.to(device) for a in (x, weight, scale, shift))
        out = convolve(x, weight, scale, shift, residual, stride).cpu()
        assert out.is_contiguous(memory_format=torch.channels_last)
        assert out.shape == expected.shape
        # The sums have 9 i terms of either sign.
        torch.testing.assert_close(
            out.double(), expected, rtol=0, atol=1e-6 * float(expected.max())
        )


def check_network(device: str, images: int, size: int) -> None:
    """The features agree with float64 more closely than those of TF32 would."""
    network = StackedResNet32([0, 0, 1, 1], num_classes=10)
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(2, images, 3, size, size, generator=generator)
    for _ in range(2):
        network(patches(x))  # norms that are not the identity
    network.eval()
    with torch.no_grad():
        expected = network.double()(patches(x.double()))
        outputs = network.float().to(device)(patches(x.to(device)))
    for a, b in zip(outputs, expected, strict=True):
        assert a.dtype is torch.float32
        assert (a.cpu() - b).norm() < 5e-6 * b.norm()


@pytest.mark.slow
def test_interpreted() -> None:
    run_interpreted(CHECK)


@pytest.mark.slow
def test_network_interpreted() -> None:
    run_interpreted(NETWORK)


@pytest.mark.gpu
def test_gpu() -> None:
    check("cuda", 37)


@pytest.mark.gpu
def test_network_gpu() -> None:
    check_network("cuda", 40, 32)
