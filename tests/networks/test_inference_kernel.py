"""Convolutions for inference against torch, in Triton's interpreter and on a GPU."""

from __future__ import annotations

import pytest
import torch

from programs import run_interpreted
from resultant.networks.stacked_resnet import StackedResNet32, patches

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
def test_network_interpreted() -> None:
    run_interpreted(NETWORK)


@pytest.mark.gpu
def test_network_gpu() -> None:
    check_network("cuda", 40, 32)
