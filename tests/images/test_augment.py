"""Views of small images against torchvision and PIL."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor

from images.pictures import GREY, SIZE, Picture, affine, levels, pictures, sample, seeded, tv
from resultant.images.augment import (
    NAMES,
    POLICY,
    ClassificationView,
    ContrastiveView,
    View,
    magnitude,
)

BICUBIC = Image.Resampling.BICUBIC


def contrastive(picture: Picture, row: dict[str, float], view: ContrastiveView) -> Picture:
    """Compute the view with torchvision, from a row of parameters."""
    i, j, h, w = (int(row[k]) for k in ("top", "left", "height", "width"))
    p = tv.resized_crop(picture, i, j, h, w, [view.size] * 2, tv.InterpolationMode.BILINEAR)
    if row["flip"]:
        p = tv.hflip(p)
    adjust = {
        "brightness": tv.adjust_brightness,
        "contrast": tv.adjust_contrast,
        "saturation": tv.adjust_saturation,
        "hue": tv.adjust_hue,
    }
    if row["jitter"]:
        for name in sorted(adjust, key=lambda name: row[f"{name}_order"]):
            if getattr(view, name):
                p = adjust[name](p, row[name])
    return tv.rgb_to_grayscale(p, 3) if row["grey"] else p


RECIPE: dict[str, Callable[[Picture, float], Picture]] = {
    "shear_y": affine(lambda m: (1, 0, 0, m, 1, 0), resample=BICUBIC),
    "translate_x": affine(lambda m: (1, 0, m * SIZE, 0, 1, 0)),
    "translate_y": affine(lambda m: (1, 0, 0, 0, 1, m * SIZE)),
    "rotate": lambda p, m: p.rotate(m, fillcolor=GREY),
    "brightness": lambda p, m: ImageEnhance.Brightness(p).enhance(1 + m),
    "color": lambda p, m: ImageEnhance.Color(p).enhance(1 + m),
    "contrast": lambda p, m: ImageEnhance.Contrast(p).enhance(1 + m),
    "sharpness": lambda p, m: ImageEnhance.Sharpness(p).enhance(1 + m),
    "posterize": lambda p, m: ImageOps.posterize(p, int(m)),
    "solarize": lambda p, m: ImageOps.solarize(p, m),  # pyright: ignore[reportArgumentType]
    "autocontrast": lambda p, m: ImageOps.autocontrast(p),
    "equalize": lambda p, m: ImageOps.equalize(p),
    "invert": lambda p, m: ImageOps.invert(p),
}
RANGES: dict[str, np.ndarray] = {
    "shear_y": np.linspace(0, 0.3, 10),
    "translate_x": np.linspace(0, 150 / 331, 10),
    "translate_y": np.linspace(0, 150 / 331, 10),
    "rotate": np.linspace(0, 30, 10),
    "posterize": np.round(np.linspace(8, 4, 10)),
    "solarize": np.linspace(256, 0, 10),
    **{name: np.linspace(0, 0.9, 10) for name in ("brightness", "color", "contrast", "sharpness")},
    **{name: np.zeros(10) for name in ("autocontrast", "equalize", "invert")},
}
UNSIGNED = ("rotate", "posterize", "solarize", "autocontrast", "equalize", "invert")


def recipe_magnitude(name: str, level: int, sign: int) -> float:
    return float(RANGES[name][level]) * (1 if name in UNSIGNED else sign)


STEPS = sorted({(name, level) for pair in POLICY for name, _, level in pair})


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("name", "level"), STEPS)
def test_policy_step_equals_the_recipe(name: str, level: int, sign: int) -> None:
    """The magnitudes of the recipe are float64, ours float32: a shear by a fraction of 30 that
    reaches an integer level may be truncated to the level below."""
    view, images = ClassificationView(padding=0, cutout=0), sample()
    parameters = torch.zeros(len(images), len(view.columns))
    parameters[:, 3], parameters[:, 5] = NAMES.index(name), -1
    parameters[:, 4] = magnitude(name, level, sign, SIZE)
    expected = [RECIPE[name](p, recipe_magnitude(name, level, sign)) for p in pictures(images)]
    most = 1 if name == "shear_y" else 0
    difference = view(images, parameters).int() - levels(expected).int()
    assert difference.abs().max() <= most


def rows_of(view: View, parameters: Tensor) -> list[dict[str, float]]:
    return [dict(zip(view.columns, row, strict=True)) for row in parameters.tolist()]


@pytest.mark.slow
@pytest.mark.parametrize(
    "view",
    [
        ContrastiveView(),
        ContrastiveView(p_jitter=1.0, p_grey=0.0, brightness=1.5, contrast=0.9, hue=0.5),
        ContrastiveView(p_jitter=1.0, hue=0.0),
        ContrastiveView(size=16, scale=(0.5, 0.9)),
    ],
)
def test_contrastive_view(view: ContrastiveView) -> None:
    images = sample(400, view.size)
    parameters = view.draw(len(images), seeded(7))
    rows = rows_of(view, parameters)
    expected = [contrastive(p, row, view) for p, row in zip(pictures(images), rows, strict=True)]
    out = view(images, parameters)
    assert torch.equal(out, levels(expected))


def test_classification_view() -> None:
    view = ClassificationView()
    images = sample(600)
    parameters = view.draw(len(images), seeded(8))
    expected = []
    for p, row in zip(pictures(images), rows_of(view, parameters), strict=True):
        cut = tv.crop(tv.pad(p, [4]), int(row["top"]), int(row["left"]), SIZE, SIZE)
        cut = tv.hflip(cut) if row["flip"] else cut
        for step in ("first", "second"):
            if row[step] >= 0:
                name, m = NAMES[int(row[step])], row[f"{step}_magnitude"]
                if name.startswith("translate"):
                    m /= SIZE
                elif name in ("brightness", "color", "contrast", "sharpness"):
                    m -= 1
                cut = RECIPE[name](cut, m)
        a = np.array(cut)
        i, j = int(row["row"]), int(row["column"])
        a[max(0, i - 8) : i + 8, max(0, j - 8) : j + 8] = 0
        expected.append(Image.fromarray(a))
    out = view(images, parameters)
    assert torch.equal(out, levels(expected))
