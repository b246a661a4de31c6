"""Warnings about the rows of a space."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from frozen_data import C, features
from resultant.analysis import FrozenSpace, advise
from resultant.analysis.advice import Caution
from resultant.analysis.cautions import cautions, near_chance, row_hashes, seen_before
from resultant.analysis.choice import choosing_rows, gather_evidence


def found(space: FrozenSpace, names: list[str] | None = None) -> tuple[Caution, ...]:
    rows = choosing_rows(space, "accuracy")
    return cautions(space, gather_evidence(space, rows), rows.weights, names=names)


def kinds(space: FrozenSpace) -> set[str]:
    return {caution.kind for caution in found(space)}


def test_plain_rows_have_no_warnings(small: FrozenSpace) -> None:
    assert kinds(small) == set()


def test_duplicates_across_a_split() -> None:
    x, y = features(torch.full((C,), 10))
    q, t = features(torch.full((C,), 3), seed=1)
    q[5], t[5] = x[7], y[7]
    space = FrozenSpace.fit(x, y, q, t, val=x[:2], val_labels=y[:2])
    texts = [c.text for c in found(space) if c.kind == "duplicates"]
    assert texts[0].startswith(f"1 of {3 * C} held-out rows is also among the training rows")
    assert texts[1].startswith("2 of 2 val rows are also")


def test_hashes_are_of_values() -> None:
    x = torch.randn(50, 7)
    assert len(row_hashes(x).unique()) == 50
    assert (row_hashes(x.double()) == row_hashes(x)).all()
    assert row_hashes(torch.tensor([[0.0, 1.0]])) == row_hashes(torch.tensor([[-0.0, 1.0]]))


@pytest.mark.parametrize(
    ("kind", "make"),
    [
        ("few-rows", lambda x, y: (x, y, x[:20] + 0.01, y[:20])),
        ("few-per-class", lambda x, y: (x, y, x[:20] + 0.01, y[:20])),
        ("dominant", lambda x, y: (x, y, x[y == 0].repeat(9, 1) + 0.01, y[y == 0].repeat(9))),
        ("sorted", lambda x, y: (x[y.argsort()], y.sort().values, x + 0.01, y)),
    ],
)
def test_each_check(kind: str, make) -> None:
    x, y = features(torch.full((C,), 10))
    assert kind in kinds(FrozenSpace.fit(*make(x, y)))


@pytest.mark.parametrize(
    ("counts", "dominates"),
    [
        ((52, 48), False),
        ((79, 21), False),
        ((80, 20), True),
        ((6, 2, 2), False),
        ((51,) + 9 * (5,), True),
    ],
)
def test_a_class_dominates(counts: tuple[int, ...], dominates: bool) -> None:
    """Half of the rows, and four times the rows of the average other class."""
    x, y = features(torch.full((len(counts),), 10))
    q, t = features(torch.tensor(counts), seed=1)
    space, names = FrozenSpace.fit(x, y, q, t), ["cat", *map(str, counts[1:])]
    texts = [c.text for c in found(space, names) if c.kind == "dominant"]
    assert bool(texts) == dominates
    if dominates:
        assert texts[0].startswith(f"Class cat has {100 * counts[0] / sum(counts):.1f} % of")


def centered(space: FrozenSpace) -> float:
    """Accuracy of the nearest class direction of rows minus their mean, left out by folds."""
    rows = choosing_rows(space, "accuracy")
    assert rows.folds is not None
    z = torch.nn.functional.normalize(space.train[:].double(), dim=1)
    right = 0.0
    for fold in rows.folds.unique():
        kept = rows.folds != fold
        x = z - z[kept].mean(0)
        mu = torch.stack([x[kept & (space.labels == c)].mean(0) for c in range(C)])
        best = (x[~kept] @ torch.nn.functional.normalize(mu, dim=1).T).argmax(1)
        right += float((best == space.labels[~kept]).sum())
    return right / len(z)


def test_features_that_are_better_centred() -> None:
    """The rise of accuracy is that of a naive count; a common mean alone is no reason to warn."""
    x, y = features(torch.full((C,), 20))
    q, t = features(torch.full((C,), 5), seed=1)
    far = torch.zeros(x.shape[1])
    far[0] = 1.5
    assert "uncentered" not in kinds(FrozenSpace.fit(x, y, q, t))
    space = FrozenSpace.fit(x + far, y, q + far, t)
    (text,) = (c.text for c in found(space) if c.kind == "uncentered")
    nearest = gather_evidence(space, choosing_rows(space, "accuracy")).nearest
    assert f"{100 * (centered(space) - nearest):.1f} points more accurate" in text
    apart = torch.eye(C, x.shape[1])[y] + 0.01 * x + 1
    assert "uncentered" not in kinds(FrozenSpace.fit(apart, y, apart + 0.01, y))


def test_two_classes() -> None:
    x, y = features(torch.full((2,), 40))
    assert "two-classes" in kinds(FrozenSpace.fit(x, y, x + 0.01, y))


def test_rows_that_the_network_has_seen() -> None:
    assert seen_before(0.9, 0.5, "train")[0].kind == "seen"
    assert seen_before(0.9, 0.5, "val") == () and seen_before(0.6, 0.55, "train") == ()


def test_labels_without_a_relation_to_the_features() -> None:
    """Two thirds of the held-out rows are of one class, which is as good a guess as any rule."""
    x, y = torch.randn(90, 8, generator=torch.Generator().manual_seed(0)), torch.arange(90) % 3
    advice, _ = advise(FrozenSpace.fit(x[:60], y[:60], x[60:], y[60:] % 2), references="none")
    warning = next(w for w in advice.warnings if w.kind == "chance")
    assert "to predict class 0 always (66.7 %)" in warning.text
    best = max(advice.table, key=lambda row: row.accuracy)
    assert near_chance(replace(best, low=0.67), y[60:] % 2, None) == ()
