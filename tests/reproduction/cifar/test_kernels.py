"""Kernels in the interpreter of Triton, and those of small images and patches on a GPU, against
Pillow and torch."""

import pytest
import torch
from torch import Tensor

from images.photos import seeded
from images.test_kernels import by_kernel
from programs import run_interpreted
from resultant.images import photo_views
from resultant.images.photo_views import CODE
from resultant_reproduction.cifar.network import normalized_patches
from resultant_reproduction.cifar.views import (
    FILTERS,
    POLICY,
    ClassificationView,
    ContrastiveView,
    magnitude,
)

# Operations of the policy, at the last of their levels.
STEPS = {name: level for pair in POLICY for name, _, level in pair}


def small_images(n: int, size: int = 32) -> Tensor:
    """Return smooth images with noise, a constant one and a black one."""
    coarse = torch.rand(n, 3, 4, 4, generator=seeded(1)) * 255
    fine = torch.nn.functional.interpolate(coarse, size, mode="bilinear")
    x = fine + 20 * torch.randn(fine.shape, generator=seeded(2))
    x[0], x[1] = 77, 0
    return x.clamp(0, 255).to(torch.uint8)


def check_small_images(device: str, n: int, size: int = 32) -> None:
    """Check crops, flips, jitter, squares, and every operation of the policy, one per view."""
    for view in (ContrastiveView(size=size, p_jitter=0.9), ClassificationView(size=size)):
        images, parameters = small_images(n, size), view.draw(torch.full((n, 2), size), seeded(5))
        if isinstance(view, ClassificationView):
            parameters[: len(STEPS), 5:11] = torch.zeros(6).double()
            for k, (name, level) in enumerate(STEPS.items()):
                value = magnitude(name, level, 1 - 2 * (k % 2), size)
                step = [CODE[name], value, FILTERS.get(name, photo_views.BILINEAR)]
                parameters[k, 5:8] = torch.tensor(step)
        got = by_kernel(view, images.to(device), parameters).cpu()
        expected = view(images, parameters)
        assert got.shape == expected.shape and got.dtype == torch.uint8
        assert (got.int() - expected.int()).abs().max() <= 1
        assert (got != expected).double().mean() < 0.02


def check_patches(device: str, dtype: torch.dtype = torch.float32) -> None:
    from resultant_reproduction.cifar.kernels.patches import normalized_patches as kernel

    for groups, n, size in ((1, 3, 32), (3, 2, 8)):
        levels = torch.randint(256, (groups, n, 3, size, size), generator=seeded(5))
        expected = normalized_patches(levels.to(torch.uint8), dtype)
        got = kernel(levels.to(torch.uint8).to(device), dtype)
        assert got.shape == expected.shape and got.stride() == expected.stride()
        torch.testing.assert_close(got.cpu(), expected, rtol=0, atol=1e-6)


# All kernels but those of the fused block, which has none for a CPU, in one child.
CHECKS = """
import torch
from reproduction.cifar import test_blocks, test_kernels, test_network
from resultant_reproduction.cifar import network
from resultant_reproduction.cifar.kernels import inference, norm

test_kernels.check_small_images("cpu", 14, 8)
test_kernels.check_patches("cpu")

# Few rows and programs, so that a program takes several steps and the last one is not full.
for norm.ROWS, norm.PROGRAMS, shape in ((256, 512, (2, 9, 1)), (32, 3, (6, 7, 5))):
    for shortcut in test_blocks.SHORTCUTS:
        for residual in (False, True):
            test_blocks.check("cpu", torch.float32, 2e-6, residual, shortcut, shape)

# One block of each kind of convolution for inference: 2 of 5 per stage.
calls, convolve, network.BLOCKS = [], inference.convolve, 2
network._infers = lambda x: x.dtype is torch.float32
inference.convolve = lambda *args: calls.append(args) or convolve(*args)
test_network.check_network("cpu", 2, 8)
assert len(calls) == 12
"""


@pytest.mark.slow
def test_interpreted() -> None:
    run_interpreted(CHECKS)


@pytest.mark.gpu
def test_small_images() -> None:
    check_small_images("cuda", 600)
    check_small_images("cuda", 600, 8)
    check_patches("cuda")


@pytest.mark.gpu
def test_more_patches_than_32_bits_number() -> None:
    """The patches of the last of 6144 images of 12 seeds are the same as alone."""
    levels = torch.randint(256, (12, 3 * 2048, 3, 32, 32), dtype=torch.uint8, device="cuda")
    every = normalized_patches(levels, torch.bfloat16)
    assert every.numel() > 2**31
    assert torch.equal(every[-2:], normalized_patches(levels[:, -2:], torch.bfloat16))
