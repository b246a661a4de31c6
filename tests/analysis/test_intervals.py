"""Intervals of the page: simulated coverage of what is promised, and p-values that agree."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from resultant.analysis.metrics import Estimate, mean, paired_gain, share, unpaired_gain

RUNS = 1000
# Four standard errors of a simulated share of .95.
NOISE = 4 * (0.95 * 0.05 / RUNS) ** 0.5

Draw = Callable[[np.random.Generator, int], tuple[Any, float]]


def even(n: int) -> Tensor:
    return torch.full((n,), 1 / n, dtype=torch.float64)


def accuracy(p: float) -> Draw:
    return lambda rng, n: (share(torch.tensor(rng.random(n) < p), even(n)), p)


def balanced(rng: np.random.Generator, n: int) -> tuple[Estimate, float]:
    """Four classes, the first of which has three quarters of the rows."""
    p, y = np.array([0.95, 0.8, 0.7, 0.6]), np.maximum(np.arange(n) % 12 - 8, 0)
    weights = 1 / np.bincount(y)[y] / 4
    return share(torch.tensor(rng.random(n) < p[y]), torch.tensor(weights)), p.mean()


def losses(rng: np.random.Generator, n: int) -> tuple[Estimate, float]:
    """Small for nine rows of ten, large for one."""
    values = np.where(rng.random(n) < 0.9, rng.exponential(0.1, n), 1 + rng.exponential(2, n))
    return mean(torch.tensor(values), even(n)), 0.9 * 0.1 + 0.1 * 3


def paired(better: float, worse: float) -> Draw:
    def draw(rng: np.random.Generator, n: int) -> tuple[Any, float]:
        u = torch.tensor(rng.random(n))
        both = (u >= better + worse) & (u < 0.95)
        after, before = both | (u < better), both | ((u >= better) & (u < better + worse))
        return paired_gain(before, after), better - worse

    return draw


def copied(draw: Callable[[np.random.Generator, int, Tensor], tuple[Any, float]]) -> Draw:
    """Every row has up to three copies, which are no more evidence than the row."""
    return lambda rng, n: draw(rng, n, torch.arange(n).repeat_interleave(1 + torch.arange(n) % 4))


def copied_accuracy(rng: np.random.Generator, n: int, of: Tensor) -> tuple[Any, float]:
    return share(torch.tensor(rng.random(n) < 0.8)[of], even(len(of)), of), 0.8


def copied_losses(rng: np.random.Generator, n: int, of: Tensor) -> tuple[Any, float]:
    return mean(torch.tensor(rng.exponential(0.5, n))[of], even(len(of)), of), 0.5


def copied_pairs(rng: np.random.Generator, n: int, of: Tensor) -> tuple[Any, float]:
    before, after = (torch.tensor(rng.random(n) < p)[of] for p in (0.7, 0.8))
    return paired_gain(before, after, copies=of), 0.1


def copied_samples(rng: np.random.Generator, n: int, of: Tensor) -> tuple[Any, float]:
    hits = [torch.tensor(rng.random(n) < p)[of] for p in (0.7, 0.8)]
    return unpaired_gain(hits, [even(len(of))] * 2, [of] * 2), 0.1


def unpaired(a: float, b: float) -> Draw:
    def draw(rng: np.random.Generator, n: int) -> tuple[Any, float]:
        hits = [torch.tensor(rng.random(n) < p) for p in (a, b)]
        return unpaired_gain(hits, [even(n)] * 2, [None] * 2), b - a

    return draw


CASES = {
    "accuracy": accuracy(0.9),
    "balanced": balanced,
    "log-loss": losses,
    "paired, one side": paired(0.1, 0.0),
    "paired": paired(0.15, 0.05),
    "paired, equal": paired(0.1, 0.1),
    "unpaired": unpaired(0.8, 0.9),
}
COPIED = {
    "copies, accuracy": copied(copied_accuracy),
    "copies, log-loss": copied(copied_losses),
    "copies, paired": copied(copied_pairs),
    "copies, unpaired": copied(copied_samples),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "rows"),
    [*((name, n) for name in CASES for n in (36, 200)), *((c, 36) for c in COPIED)],
)
def test_coverage(name: str, rows: int) -> None:
    """93 to 97 %, but for the noise of the simulation."""
    rng, runs = np.random.default_rng(0), RUNS if "unpaired" not in name else RUNS // 4
    noise = NOISE * (RUNS / runs) ** 0.5
    found = [(CASES | COPIED)[name](rng, rows) for _ in range(runs)]
    inside = np.mean([e.low <= truth <= e.high for e, truth in found])
    assert 0.93 - noise <= inside <= 0.97 + noise


@pytest.mark.parametrize("rows", [36, 600])
def test_intervals_have_a_width_and_agree_with_p(rows: int) -> None:
    """Also where no row is predicted differently, and where all are predicted correctly."""
    ones = torch.ones(rows, dtype=torch.bool)
    same = paired_gain(ones, ones)
    assert same.low < 0 < same.high and same.verdict == "tie" and same.p_value > 0.9
    assert share(ones, even(rows)).low < 1
    rng = np.random.default_rng(0)
    for gain in (0.0, 0.05, 0.1, 0.2):
        for draw in (paired(0.05 + gain, 0.05), unpaired(0.7, 0.7 + gain)):
            d, _ = draw(rng, rows)
            assert (d.verdict != "tie") == (d.p_value < 0.05)
