"""Views of small images for the classifier against torchvision, PIL and the recipe."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps
from scipy import stats
from torch import Tensor
from torchvision.transforms.autoaugment import AutoAugment, AutoAugmentPolicy

from images.photographs import LEAST_P, levels, seeded
from resultant._core.vision import vision_module
from resultant.images.augment import FILL, FILTERS, POLICY, ClassificationView, magnitude
from resultant.images.photo_views import BILINEAR, CODE, COLUMNS, OPERATIONS

tv, SIZE = vision_module("torchvision.transforms.functional"), 32
BICUBIC = Image.Resampling.BICUBIC
Picture = Image.Image


def sample(n: int = 60) -> Tensor:
    """Return smooth images with noise of all contrasts, noise, and images of one or two levels."""
    g = seeded(3)
    coarse = torch.rand(n, 3, 5, 5, generator=g)
    smooth = torch.nn.functional.interpolate(coarse, size=(SIZE, SIZE), mode="bicubic")
    noise = torch.randn(n, 3, SIZE, SIZE, generator=g) * torch.rand(n, 1, 1, 1, generator=g)
    shade = 0.2 + torch.rand(n, 1, 1, 1, generator=g)
    images = (255 * shade * smooth + 20 * noise).clamp(0, 255).to(torch.uint8)
    images[:6] = torch.randint(0, 256, (6, 3, SIZE, SIZE), generator=g, dtype=torch.uint8)
    images[6], images[7], images[8] = 0, 255, 77
    images[9] = torch.tensor([250, 3, 120], dtype=torch.uint8)[:, None, None]
    images[10] = 40
    images[10, :, SIZE // 2 :] = 41
    images[11] = smooth[11].mean(0).mul(255).clamp(0, 255).to(torch.uint8)
    return images


def pictures(images: Tensor) -> list[Picture]:
    return [Image.fromarray(a.permute(1, 2, 0).numpy()) for a in images]


def affine(entries: Callable[[float], tuple[float, ...]], **options: Any) -> Callable[..., Picture]:
    kind = Image.Transform.AFFINE
    return lambda p, m: p.transform(p.size, kind, entries(m), fillcolor=FILL, **options)


RECIPE: dict[str, Callable[[Picture, float], Picture]] = {
    "shear_y": affine(lambda m: (1, 0, 0, m, 1, 0), resample=BICUBIC),
    "translate_x": affine(lambda m: (1, 0, m * SIZE, 0, 1, 0)),
    "translate_y": affine(lambda m: (1, 0, 0, 0, 1, m * SIZE)),
    "rotate": lambda p, m: p.rotate(m, fillcolor=FILL),
    "brightness": lambda p, m: ImageEnhance.Brightness(p).enhance(1 + m),
    "saturation": lambda p, m: ImageEnhance.Color(p).enhance(1 + m),
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
    **{
        name: np.linspace(0, 0.9, 10)
        for name in ("brightness", "saturation", "contrast", "sharpness")
    },
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
    rows = view.draw(torch.full((len(images), 2), SIZE), seeded())
    rows[:, 8:15] = 0
    value = torch.tensor(magnitude(name, level, sign, SIZE)).float()
    rows[:, 9:12] = torch.tensor([CODE[name], value, FILTERS.get(name, BILINEAR)])
    expected = [RECIPE[name](p, recipe_magnitude(name, level, sign)) for p in pictures(images)]
    most = 1 if name == "shear_y" else 0
    assert (view(images, rows).int() - levels(expected).int()).abs().max() <= most


def test_classification_view() -> None:
    view, images = ClassificationView(), sample(600)
    parameters = view.draw(torch.full((len(images), 2), SIZE), seeded(8))
    expected = []
    for p, (*numbers, i, j) in zip(pictures(images), parameters.tolist(), strict=True):
        row = dict(zip(COLUMNS, numbers, strict=True))
        cut = tv.crop(tv.pad(p, [4]), int(row["top"]) + 4, int(row["left"]) + 4, SIZE, SIZE)
        cut = tv.hflip(cut) if row["flip"] else cut
        for k in range(2):
            if row[f"code{k}"]:
                name, m = OPERATIONS[int(row[f"code{k}"])], row[f"value{k}"]
                if name.startswith("translate"):
                    m /= SIZE
                elif name in ("brightness", "saturation", "contrast", "sharpness"):
                    m -= 1
                cut = RECIPE[name](cut, m)
        a, i, j = np.array(cut), int(i), int(j)
        a[max(0, i - 8) : i + 8, max(0, j - 8) : j + 8] = 0
        expected.append(Image.fromarray(a))
    assert torch.equal(view(images, parameters), levels(expected))


def torchvision_policy() -> list[Any]:
    snake = {"TranslateX": "translate_x", "TranslateY": "translate_y", "ShearY": "shear_y"}
    snake["Color"] = "saturation"
    pairs = AutoAugment(AutoAugmentPolicy.CIFAR10).policies
    return [[(snake.get(n, n.lower()), p, level) for n, p, level in pair] for pair in pairs]


def test_policy_equals_torchvision() -> None:
    for ours, theirs in zip(POLICY, torchvision_policy(), strict=True):
        for (name, p, level), (other, q, at) in zip(ours, theirs, strict=True):
            assert (name, p) == (other, q)
            assert at in (None, level)


def test_steps_are_drawn_with_their_probabilities() -> None:
    n = 60_000
    drawn = ClassificationView().draw(torch.full((n, 2), SIZE), seeded(13))

    def seen(name: str, m: float) -> tuple[str, float]:
        return name, round(m, 4) if name != "none" else 0.0

    expected: Counter[tuple[Any, ...]] = Counter()
    for pair in torchvision_policy():
        sides = []
        for name, p, level in pair:
            some = [
                (seen(name, magnitude(name, level or 0, sign, SIZE)), p / 2) for sign in (1, -1)
            ]
            sides.append([*some, (seen("none", 0.0), 1 - p)])
        for (a, p), (b, q) in itertools.product(*sides):
            expected[a, b] += p * q / 25
    assert sum(expected.values()) == pytest.approx(1)
    counted = Counter(
        (seen(OPERATIONS[int(a)], m), seen(OPERATIONS[int(b)], k))
        for a, m, _, b, k, _ in drawn[:, 9:15].tolist()
    )
    cells = [cell for cell, p in expected.items() if p]
    assert set(counted) <= set(cells)
    observed = [counted[cell] for cell in cells]
    assert stats.chisquare(observed, [n * expected[cell] for cell in cells]).pvalue > LEAST_P


def test_positions_of_crop_and_square_are_uniform() -> None:
    drawn = ClassificationView().draw(torch.full((20_000, 2), SIZE), seeded(14))
    values = torch.cat((drawn[:, :2] + 4, drawn[:, [8, 30, 31]]), 1)
    for column, count in zip(values.T, (9, 9, 2, SIZE, SIZE), strict=True):
        counts = torch.bincount(column.long(), minlength=count).numpy()
        assert len(counts) == count
        assert stats.chisquare(counts).pvalue > LEAST_P


@pytest.mark.parametrize("length", [0, 1, 15, 16])
def test_square_has_its_side(length: int) -> None:
    white = torch.ones(1, 3, SIZE, SIZE, dtype=torch.uint8)
    black = ClassificationView(cutout=length).erase(white, torch.full((1, 2), 16.0)) == 0
    assert black[0, 0].any(0).sum() == black[0, 0].any(1).sum() == length
