"""Distributions of the parameters of views against torchvision."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor
from torchvision import transforms
from torchvision.transforms.autoaugment import AutoAugment, AutoAugmentPolicy

from images.pictures import SIZE, seeded
from resultant.images.augment import (
    NAMES,
    POLICY,
    ClassificationView,
    ContrastiveView,
    View,
    magnitude,
)

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
