"""The kernels of views are within one level of Pillow, in Triton's interpreter and on a GPU."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from images.photographs import FILL, photographs
from programs import run_interpreted
from resultant.images import pillow_views
from resultant.images.augment import NAMES, POLICY, ClassificationView, ContrastiveView, magnitude
from resultant.images.drawing import normalize
from resultant.images.photo_plan import most_taps, plan
from resultant.images.photo_views import (
    CODE,
    OPERATIONS,
    PhotoView,
    classification_view,
    contrastive_view,
    evaluation_parameters,
)
from resultant.networks.stacked_resnet import patches

MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.25, 0.3)
VALUES = {
    "brightness": 1.3,
    "contrast": 0.6,
    "saturation": 1.4,
    "hue": -0.07,
    "grey": 0.0,
    "sharpness": 1.7,
    "autocontrast": 0.0,
    "equalize": 0.0,
    "invert": 0.0,
    "posterize": 3.0,
    "solarize": 140.0,
    "solarize_add": 60.0,
    "rotate": -21.5,
    "shear_x": 0.21,
    "shear_y": -0.27,
    "translate_x": -4.6,
    "translate_y": 3.3,
}
# A level of the normalized channel with the smallest deviation, and the last digits of normalizing.
LEVEL, ROUNDING = 1.001 / (255 * 0.2), 2e-6


def seeded(seed: int = 5) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def rendered(device: str, size: int, parameters: Tensor) -> tuple[Tensor, Tensor]:
    """Return the views of photographs by the kernel and by Pillow, normalized."""
    from resultant.images.photo_kernel import Renderer

    n = len(parameters)
    pixels, offsets, sizes = photographs(n)
    kernel = Renderer(n, size, MEAN, STD, FILL, torch.device(device))
    out = torch.full((n, size, size, 3), torch.nan, device=device).permute(0, 3, 1, 2)
    there, at, shapes = (a.to(device) for a in (pixels, offsets, sizes.int()))
    kernel(there, at, shapes, plan(parameters.to(device), size, most_taps(parameters)), out)
    expected = pillow_views.levels(pixels, offsets, sizes, parameters, size, FILL)
    return out.cpu(), normalize(expected, MEAN, STD)


def check_photographs(device: str, size: int) -> None:
    """Check every operation on a crop of its own, with both filters, and evaluation."""
    n = len(VALUES)
    _, _, sizes = photographs(n)
    drawn = PhotoView(size=size, p_jitter=0.0, p_grey=0.0).draw(sizes, seeded())
    for k, (name, value) in enumerate(VALUES.items()):
        drawn[k, 9:12] = torch.tensor([CODE[name], value, k % 2])
    for parameters in (drawn, evaluation_parameters(sizes, size, size + 8)):
        got, expected = rendered(device, size, parameters)
        torch.testing.assert_close(got, expected, rtol=0, atol=LEVEL)
        assert ((got - expected).abs() > ROUNDING).double().mean() < 0.02


def small_images(n: int, size: int = 32) -> Tensor:
    """Return smooth images with noise, a constant one and a black one."""
    coarse = torch.rand(n, 3, 4, 4, generator=seeded(1)) * 255
    fine = torch.nn.functional.interpolate(coarse, size, mode="bilinear")
    x = fine + 20 * torch.randn(fine.shape, generator=seeded(2))
    x[0], x[1] = 77, 0
    return x.clamp(0, 255).to(torch.uint8)


def check_classification(device: str) -> None:
    """Check padded crops, flips, squares, and every operation of the policy, one per view."""
    from resultant.images.photo_kernel import classification_views

    view, n = ClassificationView(), len(NAMES) + 1
    images, parameters = small_images(n), ClassificationView().draw(n, seeded())
    levels = {name: level for pair in POLICY for name, _, level in pair}
    for k, name in enumerate(NAMES):
        parameters[k, 3], parameters[k, 4] = k, magnitude(name, levels[name], 1 - 2 * (k % 2), 32)
    parameters[:, 5], parameters[-1, 3] = -1, -1
    got = classification_views(view, images.to(device), parameters).cpu()
    expected = view(images, parameters)
    assert got.shape == expected.shape and got.dtype == torch.uint8
    assert (got.int() - expected.int()).abs().max() <= 1
    assert (got != expected).double().mean() < 0.02


def check_contrastive(device: str, n: int, groups: int, size: int = 32) -> None:
    from resultant.images.view_kernel import PatchedViews

    view, x = ContrastiveView(size=size), small_images(6, size)
    generator = seeded(2)
    rows = torch.randint(len(x), (groups, 2 * n), generator=generator)
    drawn = view.draw(groups * 2 * n, generator).view(groups, 2 * n, -1)
    # At least one view is jittered and one is grey.
    drawn[:, 0, 5:7], drawn[:, 1, 5], drawn[:, 1, 6] = 1, 1, 0
    extra = torch.randint(256, (groups, n, 3, size, size), generator=generator).to(torch.uint8)
    views = view(x[rows.flatten()], drawn.flatten(0, 1)).unflatten(0, (groups, -1))
    # Augmented views, then with finished views, and finished views alone.
    for live, more in ((2 * n, None), (2 * n, extra), (0, extra)):
        every = views[:, :live] if more is None else torch.cat([views[:, :live], more], 1)
        expected = patches(normalize(every.flatten(0, 1)).unflatten(0, (groups, -1)))
        make = PatchedViews(view, x.to(device), torch.float32)
        chosen, parameters = (a[:, :live].to(device) for a in (rows, drawn))
        got = make(chosen, parameters, None if more is None else more.to(device))
        assert got.shape == expected.shape and got.stride() == expected.stride()
        # Levels are at least 0.019 apart. Pillow on ARM rounds a product and a sum once.
        assert ((got.cpu() - expected).abs() > 1e-6).double().mean() < 0.01


CHECKS = (
    "check_photographs('cpu', 24)",
    "check_classification('cpu')",
    "check_contrastive('cpu', 2, 1)",
)


@pytest.mark.slow
@pytest.mark.parametrize("check", CHECKS)
def test_interpreted(check: str) -> None:
    run_interpreted(f"from images import test_kernels as t; t.{check}")


@pytest.mark.gpu
@pytest.mark.parametrize(("n", "size"), [(2000, 24), (300, 64), (40, 224)])
def test_photographs(n: int, size: int) -> None:
    assert set(VALUES) == set(OPERATIONS[1:])
    check_photographs("cuda", size)
    _, _, sizes = photographs(n)
    for view in (contrastive_view(size), classification_view(size)):
        got, expected = rendered("cuda", size, view.draw(sizes, seeded()))
        assert ((got - expected).abs() > ROUNDING).double().mean() < 1e-3


@pytest.mark.gpu
def test_small_images() -> None:
    check_classification("cuda")
    check_contrastive("cuda", 256, 3, 8)
    check_contrastive("cuda", 256, 3)


@pytest.mark.gpu
def test_more_patches_than_32_bits_number() -> None:
    """The last of three views of 2048 images of 12 seeds are the same as alone."""
    from resultant.images.view_kernel import PatchedViews

    view, x, groups, n = ContrastiveView(), small_images(6).cuda(), 12, 3 * 2048
    generator = seeded(3)
    rows = torch.randint(len(x), (groups, n), generator=generator).cuda()
    drawn = view.draw(groups * n, generator).view(groups, n, -1).cuda()
    make = PatchedViews(view, x, torch.bfloat16)
    every = make(rows, drawn, None)
    assert every.numel() > 2**31
    for part in (slice(0, 2), slice(n - 2, n)):
        assert torch.equal(every[part], make(rows[:, part], drawn[:, part], None))
