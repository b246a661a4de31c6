"""Long-tailed subsets against the published recipe with the global generator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from resultant.images.longtail import long_tail_counts, long_tail_indices

SIZES = {
    (10, 10): 20_431,
    (10, 50): 13_996,
    (10, 100): 12_406,
    (100, 10): 19_573,
    (100, 50): 12_608,
    (100, 100): 10_847,
}


def balanced(num_classes: int, n: int = 50_000) -> np.ndarray:
    return np.random.default_rng(3).permutation(np.repeat(np.arange(num_classes), n // num_classes))


@pytest.mark.parametrize(("num_classes", "imbalance"), SIZES)
def test_subsets_are_those_of_the_global_generator(num_classes: int, imbalance: int) -> None:
    y = balanced(num_classes)
    np.random.seed(0)  # noqa: NPY002
    expected, size = [], len(y) / num_classes
    for c in range(num_classes):
        members = np.where(y == c)[0]
        np.random.shuffle(members)  # noqa: NPY002
        expected += members[: int(size * (1 / imbalance) ** (c / (num_classes - 1.0)))].tolist()
    np.random.seed(7)  # noqa: NPY002
    kept = long_tail_indices(torch.from_numpy(y), num_classes, imbalance)
    after = np.random.rand()  # noqa: NPY002
    assert after == np.random.RandomState(7).rand()
    assert kept.dtype == torch.int64 and kept.tolist() == expected
    assert len(kept) == SIZES[num_classes, imbalance]
    counts = long_tail_counts(50_000 // num_classes, num_classes, imbalance)
    assert (np.bincount(y[kept.numpy()]) == counts.numpy()).all()


def test_subsets_are_nested_and_seeded() -> None:
    y = balanced(10, 1000)
    sets = [set(long_tail_indices(y, 10, f).tolist()) for f in (100, 50, 10, 1)]
    assert sets[0] < sets[1] < sets[2] < sets[3] == set(range(1000))
    assert set(long_tail_indices(y, 10, 10, seed=1).tolist()) != sets[2]
    # Unequal classes are cut to the smallest.
    assert long_tail_counts(5, 1, 10).tolist() == [5]
    labels = np.array([0] * 9 + [1] * 4 + [2] * 6)
    kept = labels[long_tail_indices(labels, 3, 4.0).numpy()]
    assert np.bincount(kept).tolist() == [4, 2, 1]


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (long_tail_counts, (0, 10, 10), "n_max to be an integer >= 1, got 0"),
        (long_tail_counts, (10, 10, "10"), r"imbalance in \[1, 10\], .* got '10'"),
        (long_tail_counts, (10, 10, float("nan")), "imbalance in .* got nan"),
        (long_tail_counts, (10, 10, 11), "imbalance in .* leaves an image per class, got 11"),
        (long_tail_indices, ([0, 1, 2], 2, 2), r"labels in \[0, 2\), got 2 at index 2"),
        (long_tail_indices, ([0, 0], 2, 2), "images of every class, got none of 1"),
        (long_tail_indices, ([0.0, 1.0], 2, 2), "of integers"),
    ],
)
def test_refused(function: Callable[..., Any], arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        function(*arguments)
