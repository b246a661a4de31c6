"""The kernels of views are within one level of Pillow, in Triton's interpreter and on a GPU."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from images.photos import FILL, photographs, seeded
from programs import run_interpreted
from resultant.images import photo_views, rendering
from resultant.images.photo_views import CODE, OPERATIONS, PhotoView, normalize

MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.25, 0.3)
LEVELS = (1.3, 0.6, 1.4, -0.07, 0.0, 1.7, 0.0, 0.0, 0.0, 3.0, 140.0, 60.0, -21.5, 0.21, -0.27)
VALUES = dict(zip(OPERATIONS[1:], (*LEVELS, -4.6, 3.3), strict=True))
# A level of the normalized channel with the smallest deviation, and the last digits of normalizing.
LEVEL, ROUNDING = 1.001 / (255 * 0.2), 2e-6


def by_kernel(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function that computes views by the kernel, also on CPU tensors."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rendering, "uses_kernel", lambda device: True)
        return function(*arguments)


def rendered(
    device: str, size: int, parameters: Tensor, interpolation: str = "bilinear"
) -> tuple[Tensor, Tensor]:
    """Return the views of photographs by the kernel and by Pillow, normalized."""
    n, there = len(parameters), torch.device(device)
    pixels, offsets, sizes = photographs(n)
    views = by_kernel(rendering.Rendering, n, size, MEAN, STD, there, FILL, interpolation)
    out = torch.full((n, size, size, 3), torch.nan, device=device).permute(0, 3, 1, 2)
    arguments = (a.to(device) for a in (pixels, offsets, sizes.int()))
    views(*arguments, views.plan(parameters), out)
    resizing = rendering.resizing(interpolation)
    expected = rendering.levels(pixels, offsets, sizes, parameters, size, FILL, resizing)
    return out.cpu(), normalize(expected, MEAN, STD)


def check_photographs(device: str, size: int, repeats: int) -> None:
    """Check that crops are equal, and each operation, with both filters, within one level."""
    n = len(VALUES) * repeats
    _, _, sizes = photographs(n)
    drawn = PhotoView(size=size, p_jitter=0.0, p_grey=0.0).draw(sizes, seeded(5))
    for interpolation in ("bilinear", "bicubic"):
        got, expected = rendered(device, size, drawn, interpolation)
        torch.testing.assert_close(got, expected, rtol=0, atol=ROUNDING)
    for k, (name, value) in enumerate(list(VALUES.items()) * repeats):
        drawn[k, 5:8] = torch.tensor([CODE[name], value, k % 2])
    got, expected = rendered(device, size, drawn)
    torch.testing.assert_close(got, expected, rtol=0, atol=LEVEL)
    assert ((got - expected).abs() > ROUNDING).double().mean() < 1e-3


@pytest.mark.slow
def test_interpreted() -> None:
    run_interpreted("from images import test_kernels as t; t.check_photographs('cpu', 24, 3)")


@pytest.mark.gpu
@pytest.mark.parametrize(("n", "size"), [(2000, 24), (300, 64), (40, 224)])
def test_photographs(n: int, size: int) -> None:
    check_photographs("cuda", size, 20)
    _, _, sizes = photographs(n)
    for view in (photo_views.contrastive_view(size), photo_views.classification_view(size)):
        got, expected = rendered("cuda", size, view.draw(sizes, seeded(5)))
        assert ((got - expected).abs() > ROUNDING).double().mean() < 1e-3
