"""Views of small images against torchvision and PIL."""

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
from torchvision import transforms
from torchvision.transforms.autoaugment import AutoAugment, AutoAugmentPolicy

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


LEAST_P = 1e-3


def p_value(result: Any) -> float:
    return float(result.pvalue)


def column(view: View, parameters: Tensor, name: str) -> np.ndarray:
    return parameters[:, view.columns.index(name)].numpy()


@pytest.mark.parametrize("ratio", [(3.0, 4.0), (0.2, 0.3), (1.0, 1.0)])
def test_crop_that_never_fits(ratio: tuple[float, float]) -> None:
    view = ContrastiveView(scale=(1.0, 1.0), ratio=ratio)
    drawn = view.draw(5, seeded())[:, :4]
    image = torch.empty(3, SIZE, SIZE)
    expected = transforms.RandomResizedCrop.get_params(image, [1.0, 1.0], list(ratio))
    assert drawn.tolist() == [list(expected)] * 5


@pytest.mark.slow
def test_flags_and_factors() -> None:
    view = ContrastiveView(brightness=0.4, contrast=0.3, saturation=1.5, hue=0.1)
    n = 20_000
    drawn = view.draw(n, seeded(11))
    for name, p in (("flip", 0.5), ("jitter", 0.8), ("grey", 0.2)):
        values = column(view, drawn, name)
        assert set(values) == {0.0, 1.0}
        assert stats.binomtest(int(values.sum()), n, p).pvalue > LEAST_P
    jitter: Any = transforms.ColorJitter(0.4, 0.3, 1.5, 0.1)
    torch.manual_seed(12)
    theirs = [
        jitter.get_params(jitter.brightness, jitter.contrast, jitter.saturation, jitter.hue)
        for _ in range(4000)
    ]
    factors = [[row[k] for row in theirs] for k in range(1, 5)]
    for name, values in zip(("brightness", "contrast", "saturation", "hue"), factors, strict=True):
        p = p_value(stats.ks_2samp(column(view, drawn, name), values))
        assert p > LEAST_P, f"{name}: p = {p:.1e}"
    order = drawn[:, 11:].int().tolist()
    orders = Counter(tuple(np.argsort(row)) for row in order)
    theirs_orders = Counter(tuple(row[0].tolist()) for row in theirs)
    permutations = list(itertools.permutations(range(4)))
    table = [[counter[order] for order in permutations] for counter in (orders, theirs_orders)]
    assert sum(table[0]) == n
    assert p_value(stats.chi2_contingency(table)) > LEAST_P
    assert p_value(stats.chisquare(table[0])) > LEAST_P


def torchvision_policy() -> list[Any]:
    snake = {"TranslateX": "translate_x", "TranslateY": "translate_y", "ShearY": "shear_y"}
    pairs = AutoAugment(AutoAugmentPolicy.CIFAR10).policies
    return [[(snake.get(n, n.lower()), p, level) for n, p, level in pair] for pair in pairs]


def test_policy_equals_torchvision() -> None:
    for ours, theirs in zip(POLICY, torchvision_policy(), strict=True):
        for (name, p, level), (other, q, at) in zip(ours, theirs, strict=True):
            assert (name, p) == (other, q)
            assert at in (None, level)


def test_steps_are_drawn_with_their_probabilities() -> None:
    view = ClassificationView()
    n = 60_000
    drawn = view.draw(n, seeded(13))

    def seen(name: str | None, m: float) -> tuple[str | None, float]:
        return name, round(m, 4) if name else 0.0

    expected: Counter[tuple[Any, ...]] = Counter()
    for pair in torchvision_policy():
        sides = []
        for name, p, level in pair:
            some = [
                (seen(name, magnitude(name, level or 0, sign, SIZE)), p / 2) for sign in (1, -1)
            ]
            sides.append([*some, (seen(None, 0.0), 1 - p)])
        for (a, p), (b, q) in itertools.product(*sides):
            expected[a, b] += p * q / 25
    assert sum(expected.values()) == pytest.approx(1)
    counted = Counter(
        (seen(NAMES[int(a)] if a >= 0 else None, m), seen(NAMES[int(b)] if b >= 0 else None, k))
        for a, m, b, k in drawn[:, 3:7].tolist()
    )
    cells = [cell for cell, p in expected.items() if p]
    assert set(counted) <= set(cells)
    observed = [counted[cell] for cell in cells]
    assert stats.chisquare(observed, [n * expected[cell] for cell in cells]).pvalue > LEAST_P


def test_positions_of_crop_and_square_are_uniform() -> None:
    view = ClassificationView()
    drawn = view.draw(20_000, seeded(14))
    for name, count in (("top", 9), ("left", 9), ("flip", 2), ("row", SIZE), ("column", SIZE)):
        values = column(view, drawn, name).astype(int)
        counts = np.bincount(values, minlength=count)
        assert len(counts) == count
        assert stats.chisquare(counts).pvalue > LEAST_P, name


@pytest.mark.parametrize("length", [0, 1, 15, 16])
def test_square_has_its_side(length: int) -> None:
    parameters = torch.full((1, 9), 16.0)
    white = torch.ones(1, 3, SIZE, SIZE, dtype=torch.uint8)
    black = ClassificationView(cutout=length).erase(white, parameters) == 0
    assert black[0, 0].any(0).sum() == black[0, 0].any(1).sum() == length
