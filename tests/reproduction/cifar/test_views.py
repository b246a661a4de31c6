"""Views of small images against PIL, torchvision and the recipe, and the distributions of their
parameters."""

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps
from scipy import stats
from torch import Tensor
from torchvision.transforms.autoaugment import AutoAugment, AutoAugmentPolicy

from images import photos
from images.photos import BICUBIC, LEAST_P, Picture, levels, seeded
from images.test_views import SIZE, check_probabilities, equal_views
from resultant.images import photo_views
from resultant.images.photo_views import CODE, COLUMNS, OPERATIONS
from resultant.images.vision import vision_module
from resultant_reproduction.cifar import views as augment
from resultant_reproduction.cifar.views import (
    FILTERS,
    POLICY,
    ClassificationView,
    ContrastiveView,
    magnitude,
)

SMALL = 32
CONTRASTIVE: dict[str, Any] = {"p_jitter": 1.0, "p_grey": 0.0, "jitter": (1.5, 0.9, 0.4, 0.5)}


@pytest.mark.parametrize(
    "changes", [{}, CONTRASTIVE, {"p_jitter": 1.0, "jitter": (0.4, 0.4, 0.4, 0.0)}]
)
def test_contrastive_views(changes: dict[str, Any]) -> None:
    equal_views(ContrastiveView(size=SIZE, **changes))
    check_probabilities(ContrastiveView)


def sample(n: int = 60) -> Tensor:
    """Return smooth images with noise of all contrasts, noise, and some of one level or colour."""
    pixels, _, _ = photos.photographs(n, SMALL, SMALL + 1)
    images = pixels.view(n, SMALL, SMALL, 3).permute(0, 3, 1, 2).contiguous()
    images[-6:] = torch.randint(0, 256, (6, 3, SMALL, SMALL), generator=seeded(3)).byte()
    images[-7] = torch.tensor([250, 3, 120], dtype=torch.uint8)[:, None, None]
    images[-8] = images[-9].float().mean(0).byte()
    return images


def pictures(images: Tensor) -> list[Picture]:
    return [Image.fromarray(a.permute(1, 2, 0).numpy()) for a in images]


def affine(entries: Callable[[float], tuple[float, ...]], **options: Any) -> Callable[..., Picture]:
    kind = Image.Transform.AFFINE
    return lambda p, v: p.transform(p.size, kind, entries(v), fillcolor=augment.FILL, **options)


# Operations by their values: factors, pixels, degrees, bits or levels.
RECIPE: dict[str, Callable[[Picture, float], Picture]] = photos.colours() | {
    "shear_y": affine(lambda v: (1, 0, 0, v, 1, 0), resample=BICUBIC),
    "translate_x": affine(lambda v: (1, 0, v, 0, 1, 0)),
    "translate_y": affine(lambda v: (1, 0, 0, 0, 1, v)),
    "rotate": lambda p, v: p.rotate(v, fillcolor=augment.FILL),
    "solarize": lambda p, v: ImageOps.solarize(p, v),  # pyright: ignore[reportArgumentType]
}
# Values by level, of both signs, and of one; factors less 1.
SIGNED = {
    "shear_y": np.linspace(0, 0.3, 10),
    **dict.fromkeys(("translate_x", "translate_y"), SMALL * np.linspace(0, 150 / 331, 10)),
    **dict.fromkeys(("brightness", "saturation", "contrast", "sharpness"), np.linspace(0, 0.9, 10)),
}
UNSIGNED = {
    "rotate": np.linspace(0, 30, 10),
    "posterize": np.round(np.linspace(8, 4, 10)),
    "solarize": np.linspace(256, 0, 10),
    **dict.fromkeys(("autocontrast", "equalize", "invert"), np.zeros(10)),
}
STEPS = sorted({(name, level) for pair in POLICY for name, _, level in pair})


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("name", "level"), STEPS)
def test_policy_step_equals_the_recipe(name: str, level: int, sign: int) -> None:
    """The magnitudes of the recipe are float64, ours float32: a shear by a fraction of 30 that
    reaches an integer level may be truncated to the level below."""
    images = sample()
    rows = ClassificationView().draw(torch.full((len(images), 2), SMALL), seeded())[:, :26]
    rows[:, :2] = rows[:, 4:11] = 0
    value = torch.tensor(magnitude(name, level, sign, SMALL)).float()
    rows[:, 5:8] = torch.tensor([CODE[name], value, FILTERS.get(name, photo_views.BILINEAR)])
    own = sign * SIGNED[name][level] if name in SIGNED else UNSIGNED[name][level]
    own += name in ("brightness", "saturation", "contrast", "sharpness")
    expected = [RECIPE[name](p, float(own)) for p in pictures(images)]
    most = 1 if name == "shear_y" else 0
    assert (augment.small_views(images, rows).int() - levels(expected).int()).abs().max() <= most


def test_classification_view() -> None:
    tv = vision_module("torchvision.transforms.functional")
    view, images = ClassificationView(), sample(600)
    parameters = view.draw(torch.full((len(images), 2), SMALL), seeded(8))
    expected = []
    for p, (*numbers, i, j) in zip(pictures(images), parameters.tolist(), strict=True):
        row = dict(zip(COLUMNS, numbers, strict=True))
        cut = tv.crop(tv.pad(p, [4]), int(row["top"]) + 4, int(row["left"]) + 4, SMALL, SMALL)
        cut = tv.hflip(cut) if row["flip"] else cut
        for k in range(2):
            if row[f"code{k}"]:
                cut = RECIPE[OPERATIONS[int(row[f"code{k}"])]](cut, row[f"value{k}"])
        a, i, j = np.array(cut), int(i), int(j)
        a[max(0, i - 8) : i + 8, max(0, j - 8) : j + 8] = 0
        expected.append(Image.fromarray(a))
    assert torch.equal(view(images, parameters), levels(expected))


def torchvision_policy() -> list[Any]:
    snake = {"TranslateX": "translate_x", "TranslateY": "translate_y", "ShearY": "shear_y"}
    snake["Color"] = "saturation"
    pairs = AutoAugment(AutoAugmentPolicy.CIFAR10).policies
    return [[(snake.get(n, n.lower()), p, level) for n, p, level in pair] for pair in pairs]


def test_steps_are_drawn_with_their_probabilities() -> None:
    n = 60_000
    drawn = ClassificationView().draw(torch.full((n, 2), SMALL), seeded(13))

    def seen(name: str, m: float) -> tuple[str, float]:
        return name, round(m, 4) if name != "none" else 0.0

    expected: Counter[tuple[Any, ...]] = Counter()
    for pair in torchvision_policy():
        sides = []
        for name, p, level in pair:
            some = [
                (seen(name, magnitude(name, level or 0, sign, SMALL)), p / 2) for sign in (1, -1)
            ]
            sides.append([*some, (seen("none", 0.0), 1 - p)])
        for (a, p), (b, q) in itertools.product(*sides):
            expected[a, b] += p * q / 25
    assert sum(expected.values()) == pytest.approx(1)
    counted = Counter(
        (seen(OPERATIONS[int(a)], m), seen(OPERATIONS[int(b)], k))
        for a, m, _, b, k, _ in drawn[:, 5:11].tolist()
    )
    cells = [cell for cell, p in expected.items() if p]
    assert set(counted) <= set(cells)
    observed = [counted[cell] for cell in cells]
    assert stats.chisquare(observed, [n * expected[cell] for cell in cells]).pvalue > LEAST_P


def test_positions_of_crop_and_square_are_uniform() -> None:
    drawn = ClassificationView().draw(torch.full((20_000, 2), SMALL), seeded(14))
    values = torch.cat((drawn[:, :2] + 4, drawn[:, [4, 26, 27]]), 1)
    for drawn_column, count in zip(values.T, (9, 9, 2, SMALL, SMALL), strict=True):
        counts = torch.bincount(drawn_column.long(), minlength=count).numpy()
        assert len(counts) == count
        assert stats.chisquare(counts).pvalue > LEAST_P
