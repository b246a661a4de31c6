"""The kernel of views has the levels of `photo_views.levels`, interpreted and on a GPU."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from images.photographs import FILL, photographs
from programs import run_interpreted
from resultant.images.augment import normalize
from resultant.images.photo_views import (
    CODE,
    OPERATIONS,
    STEPS,
    PhotoView,
    classification_view,
    contrastive_view,
    evaluation_parameters,
    levels,
    most_taps,
)

CHECK = "from images import test_photo_kernel as t; t.check_operations('cpu', {size})"
MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.25, 0.3)
# Every operation, three per view; the blur comes last, as it is not exact.
VALUES = {
    "brightness": 1.3,
    "hue": -0.07,
    "equalize": 0.0,
    "contrast": 0.6,
    "autocontrast": 0.0,
    "rotate": -21.5,
    "saturation": 1.4,
    "sharpness": 1.7,
    "shear_x": 0.21,
    "posterize": 3.0,
    "translate_y": 3.3,
    "solarize": 140.0,
    "invert": 0.0,
    "shear_y": -0.27,
    "grey": 0.0,
    "solarize_add": 60.0,
    "translate_x": -4.6,
    "blur": 0.8,
}


def check(device: str, size: int, n: int, drawn: list[Tensor]) -> None:
    from resultant.images.photo_kernel import Renderer, plan

    pixels, offsets, sizes = photographs(n)
    kernel = Renderer(n, size, MEAN, STD, FILL, torch.device(device))
    out = torch.empty(n, size, size, 3, device=device).permute(0, 3, 1, 2)
    there, at, shapes = (a.to(device) for a in (pixels, offsets, sizes.int()))
    for parameters in drawn:
        expected = normalize(levels(pixels, offsets, sizes, parameters, size, FILL), MEAN, STD)
        out.fill_(torch.nan)
        planned = plan(parameters.to(device), size, most_taps(parameters))
        kernel(there, at, shapes, planned, out)
        got = out.cpu()
        # Levels are at least 0.013 apart. The two passes of a blur are rounded to half precision
        # in between, which may move a pixel by a level.
        blurred = (parameters[:, 9:].unflatten(1, (STEPS, 3))[:, :, 0] == CODE["blur"]).any(1)
        torch.testing.assert_close(got[~blurred], expected[~blurred], rtol=0, atol=2e-6)
        most = 1.001 / (255 * min(STD))
        torch.testing.assert_close(got[blurred], expected[blurred], rtol=0, atol=most)
        assert ((got - expected).abs() > 2e-6).double().mean() < 0.02


def check_operations(device: str, size: int) -> None:
    """Check crops with every operation, and the view for evaluation."""
    _, _, sizes = photographs(6)
    drawn = PhotoView(size=size, p_jitter=0.0, p_grey=0.0).draw(sizes, seeded())
    steps = torch.tensor(
        [[CODE[name], value, k % 2] for k, (name, value) in enumerate(VALUES.items())]
    )
    drawn[:, 9:18] = steps.double().view(6, 9)
    check(device, size, 6, [drawn, evaluation_parameters(sizes, size, size + 8)])


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(5)


@pytest.mark.slow
def test_interpreted() -> None:
    run_interpreted(CHECK.format(size=24))


@pytest.mark.gpu
@pytest.mark.parametrize(("n", "size"), [(2000, 24), (300, 64), (40, 224)])
def test_gpu(n: int, size: int) -> None:
    assert set(VALUES) == set(OPERATIONS[1:])
    check_operations("cuda", size)
    _, _, sizes = photographs(n)
    views = contrastive_view(size), classification_view(size), PhotoView(size=size, p_blur=1.0)
    check("cuda", size, n, [view.draw(sizes, seeded()) for view in views])
