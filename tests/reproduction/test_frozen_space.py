"""The fitted space: statistics, divisions of rows, all questions, also on a GPU; and refusals."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from frozen_data import COUNTS, TAU, C, P, features, fitted, rows, small_space, unbiased_length
from resultant._core import memory
from resultant.classes.groups import GROUPS
from resultant.features.store import FeatureStore, write_store
from resultant.vmf.estimators import concentration, mean_resultant
from resultant_reproduction.frozen.space import FrozenSpace, load_space


def test_state_is_that_of_unit_rows(small: FrozenSpace) -> None:
    """Their length does not matter."""
    x, y = rows(small.train[:]), small.labels.numpy()
    for c in (0, 9, C - 1):
        mu, kappa = fitted(x[y == c])
        np.testing.assert_allclose(small.state.mu[c].numpy(), mu, atol=1e-13)
        assert float(small.state.kappa[c]) == pytest.approx(kappa, rel=1e-8)
    assert torch.equal(small.counts, COUNTS)
    assert small.summary().groups == {"head": 8, "medium": 8, "tail": 8}
    prior = COUNTS.double() / COUNTS.sum()
    torch.testing.assert_close(small.log_prior, prior.log())


def test_gains_against_definition(small: FrozenSpace) -> None:
    result = small.gains()
    g = result.gain.numpy()
    assert result.mean == pytest.approx(g.mean())
    assert result.spread == pytest.approx(g.std() / g.mean())
    assert result.ratio == pytest.approx(g.max() / g.min())
    ranks: Any = spearmanr(g, COUNTS)
    assert result.rank_correlation == pytest.approx(ranks.statistic)
    assert result.groups["tail"] == pytest.approx(g[16:].mean())
    x, y = small.test[:1], torch.zeros(1, dtype=torch.int64)
    alone = FrozenSpace.fit(x, y, x, y).gains()
    assert alone.uncorrected == (0,) and alone.corrected_spread is None


@pytest.mark.parametrize(("estimator", "share"), [("mle", None), ("proco", None), ("mle", 0.5)])
def test_corrected_gains_against_definition(estimator: str, share: float | None) -> None:
    """U is the mean cosine of two different fitted rows; a class of one row has none."""
    counts = torch.tensor([40, 12, 5, 2, 1, 7, 1])
    (x, y), test = features(counts), features(torch.full((7,), 2), seed=1)
    # Two rows that point apart have a negative U.
    x[y == 3] = torch.stack([x[y == 3][0], -x[y == 3][0] + 0.1])
    space = FrozenSpace.fit(x, y, *test, estimator=estimator, fitting_share=share)
    result, A = space.gains(), np.full(7, np.nan)
    if space.fitting is not None:
        x, y = x[space.fitting], y[space.fitting]
    for c in counts.gt(1).nonzero()[:, 0].tolist():
        A[c], _ = unbiased_length(rows(x[y == c]))
        assert (A[c] == 0) == (c == 3)
    if estimator == "proco":
        A = mean_resultant(P, concentration(P, torch.as_tensor(A).nan_to_num(), "proco")).numpy()
        A[[4, 6]] = np.nan
    g = A / TAU
    np.testing.assert_allclose(result.corrected_gain.numpy(), g, rtol=1e-9, atol=1e-9)
    known = g[~np.isnan(g)]
    assert result.uncorrected == (4, 6)
    assert result.corrected_spread == pytest.approx(known.std() / known.mean())
    ranks: Any = spearmanr(known, counts[counts > 1])
    assert result.corrected_rank_correlation == pytest.approx(ranks.statistic)


@pytest.mark.slow
def test_fit_does_not_depend_on_chunks(
    small: FrozenSpace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(memory, "ROW_BYTES", 7 * 8 * P)
    again = small_space()
    torch.testing.assert_close(again.state.kappa, small.state.kappa, rtol=1e-11, atol=0)
    arrays = {"train/x": small.train[:].half(), "train/labels": small.labels}
    arrays |= {"test/x": small.test[:].half(), "test/labels": small.test_labels}
    write_store(tmp_path / "f.safetensors", arrays)
    stored = load_space(FeatureStore.open(tmp_path / "f.safetensors"), "x")
    assert stored.name == "x" and stored.train[:].dtype == torch.float16
    torch.testing.assert_close(stored.state.kappa, small.state.kappa, rtol=3e-3, atol=0)


def test_rows_of_one_identity_stay_together() -> None:
    identities = torch.arange(int(COUNTS.sum())) // 2 % 300
    split = small_space(fitting_share=0.8, identities=identities)
    x, y, fitting = split.train, split.labels, split.fitting
    assert fitting is not None and split.calibration is not None
    assert len(split.calibration) == int((~fitting).sum()) == split.summary().calibration
    for c in range(C):
        names = identities[y == c]
        inside = set(names[fitting[y == c]].tolist())
        assert not inside & set(names[~fitting[y == c]].tolist())
        assert len(inside) == math.ceil(0.8 * len(names.unique()))
    _, kappa = fitted(rows(x[fitting & (y == 2)]))
    assert float(split.state.kappa[2]) == pytest.approx(kappa, rel=1e-8)
    assert torch.equal(split.counts, COUNTS), "the prior is that of all training rows"
    # Of one row a class would have a resultant of one.
    least = small_space(fitting_share=1e-6).fitting
    assert least is not None and torch.bincount(y[least]).eq(2).all()
    other, again = (small_space(fitting_share=0.8, seed=1).fitting for _ in "ab")
    assert other is not None and again is not None
    assert torch.equal(other, again) and not torch.equal(other, fitting)


def test_classes_of_one_size_or_group_have_no_groups() -> None:
    """Two classes may both be head; ten classes are grouped by rank."""
    ten, two = ([12] * 10, [199, *[100] * 9], [200, *[100] * 9]), ([130, 300], [30, 300])
    for counts, names in zip((*ten, *two), ((), (), GROUPS, (), GROUPS), strict=True):
        eye = torch.eye(len(counts))
        y = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
        space = FrozenSpace.fit(eye[y] + 0.1, y, eye, y.unique())
        assert space.group_names == names and tuple(space.summary().groups) == names
        gains = space.gains()
        assert tuple(gains.groups) == names and (gains.group is None) == (not names)


X, Y = features(torch.tensor([4, 4, 4]))
Q, W = features(torch.tensor([2, 2, 2]), seed=1)


def fit(x: Any = X, y: Any = Y, q: Any = Q, w: Any = W, **options: Any) -> FrozenSpace:
    return FrozenSpace.fit(x, y, q, w, **options)


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: fit(w=torch.tensor([0, 1, 9, 3, 3, 2])), "classes seen .*, got classes 3, 9 of 3"),
    (lambda: fit(y=2 * Y, w=W + (W > 1)), r"got none of 2: 1, 3 \(queries ask for 1, 3\)"),
    (lambda: fit(q=Q[:, :3]), "train and test of one dimension, got 12 and 3"),
    (lambda: fit(y=Y[:5]), r"expected labels \[12\]"),
    (lambda: fit(device="gpu"), "expected a device to compute on, got 'gpu'"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_refused(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["train", "test"])
def test_rows_without_direction_are_refused(
    name: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the fit, whatever the column: none is the first row of a piece."""
    monkeypatch.setattr(memory, "ROW_BYTES", 2 * 8 * P)
    clean = {"train": X.to(dtype), "test": Q.to(dtype)}
    fit(clean["train"], q=clean["test"])
    for at, value in (((3, 0), math.nan), ((3, 5), math.inf), ((3, 5), -math.inf), ((3,), 0.0)):
        bad = clean[name].clone()
        bad[at] = value
        both = clean | {name: bad}
        what = "a zero vector" if value == 0 else str(value)
        message = f"expected {name} finite and not zero, got {what} in row 3$"
        with pytest.raises(ValueError, match=message):
            fit(both["train"], q=both["test"])
