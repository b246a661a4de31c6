"""The kernels of views are within one level of Pillow, in Triton's interpreter and on a GPU."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from images.photos import FILL, photographs, seeded
from programs import run_interpreted
from resultant.images import photo_views, rendering
from resultant.images.augment import FILTERS, POLICY, ClassificationView, ContrastiveView, magnitude
from resultant.images.photo_views import CODE, OPERATIONS, PhotoView, normalize
from resultant.networks.stacked_resnet import normalized_patches

MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.25, 0.3)
LEVELS = (1.3, 0.6, 1.4, -0.07, 0.0, 1.7, 0.0, 0.0, 0.0, 3.0, 140.0, 60.0, -21.5, 0.21, -0.27)
VALUES = dict(zip(OPERATIONS[1:], (*LEVELS, -4.6, 3.3), strict=True))
# Operations of the policy, at the last of their levels.
STEPS = {name: level for pair in POLICY for name, _, level in pair}
# A level of the normalized channel with the smallest deviation, and the last digits of normalizing.
LEVEL, ROUNDING = 1.001 / (255 * 0.2), 2e-6


def by_kernel(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function that computes views by the kernel, also on CPU tensors."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rendering, "uses_kernel", lambda device: True)
        return function(*arguments)


def rendered(device: str, size: int, parameters: Tensor) -> tuple[Tensor, Tensor]:
    """Return the views of photographs by the kernel and by Pillow, normalized."""
    n, there = len(parameters), torch.device(device)
    pixels, offsets, sizes = photographs(n)
    views = by_kernel(rendering.Rendering, n, size, MEAN, STD, there, FILL)
    out = torch.full((n, size, size, 3), torch.nan, device=device).permute(0, 3, 1, 2)
    arguments = (a.to(device) for a in (pixels, offsets, sizes.int()))
    views(*arguments, views.plan(parameters), out)
    expected = rendering.levels(pixels, offsets, sizes, parameters, size, FILL)
    return out.cpu(), normalize(expected, MEAN, STD)


def check_photographs(device: str, size: int, repeats: int) -> None:
    """Check that crops are equal, and each operation, with both filters, within one level."""
    n = len(VALUES) * repeats
    _, _, sizes = photographs(n)
    drawn = PhotoView(size=size, p_jitter=0.0, p_grey=0.0).draw(sizes, seeded(5))
    for parameters in (drawn, photo_views.evaluation_parameters(sizes, size, size + 8)):
        got, expected = rendered(device, size, parameters)
        torch.testing.assert_close(got, expected, rtol=0, atol=ROUNDING)
    for k, (name, value) in enumerate(list(VALUES.items()) * repeats):
        drawn[k, 9:12] = torch.tensor([CODE[name], value, k % 2])
    got, expected = rendered(device, size, drawn)
    torch.testing.assert_close(got, expected, rtol=0, atol=LEVEL)
    assert ((got - expected).abs() > ROUNDING).double().mean() < 1e-3


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
            parameters[: len(STEPS), 9:15] = torch.zeros(6).double()
            for k, (name, level) in enumerate(STEPS.items()):
                value = magnitude(name, level, 1 - 2 * (k % 2), size)
                step = [CODE[name], value, FILTERS.get(name, photo_views.BILINEAR)]
                parameters[k, 9:12] = torch.tensor(step)
        got = by_kernel(view, images.to(device), parameters).cpu()
        expected = view(images, parameters)
        assert got.shape == expected.shape and got.dtype == torch.uint8
        assert (got.int() - expected.int()).abs().max() <= 1
        assert (got != expected).double().mean() < 0.02


def check_patches(device: str, dtype: torch.dtype = torch.float32) -> None:
    from resultant.networks.kernels.patches import normalized_patches as kernel

    for groups, n, size in ((1, 3, 32), (3, 2, 8)):
        levels = torch.randint(256, (groups, n, 3, size, size), generator=seeded(5))
        expected = normalized_patches(levels.to(torch.uint8), dtype)
        got = kernel(levels.to(torch.uint8).to(device), dtype)
        assert got.shape == expected.shape and got.stride() == expected.stride()
        torch.testing.assert_close(got.cpu(), expected, rtol=0, atol=1e-6)


CHECKS = (
    "check_photographs('cpu', 24, 3)",
    "check_small_images('cpu', 14)",
    "check_patches('cpu')",
)


@pytest.mark.slow
@pytest.mark.parametrize("check", CHECKS)
def test_interpreted(check: str) -> None:
    run_interpreted(f"from images import test_kernels as t; t.{check}")


@pytest.mark.gpu
@pytest.mark.parametrize(("n", "size"), [(2000, 24), (300, 64), (40, 224)])
def test_photographs(n: int, size: int) -> None:
    check_photographs("cuda", size, 20)
    _, _, sizes = photographs(n)
    for view in (photo_views.contrastive_view(size), photo_views.classification_view(size)):
        got, expected = rendered("cuda", size, view.draw(sizes, seeded(5)))
        assert ((got - expected).abs() > ROUNDING).double().mean() < 1e-3


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
