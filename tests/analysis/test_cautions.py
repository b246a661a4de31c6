"""Warnings about the rows of a space."""

from __future__ import annotations

import pytest
import torch

from frozen_data import C, features
from resultant.analysis import FrozenSpace
from resultant.analysis.cautions import cautions, row_hashes, seen_before


def kinds(space: FrozenSpace) -> set[str]:
    return {caution.kind for caution in cautions(space)}


def test_plain_rows_have_no_warnings(small: FrozenSpace) -> None:
    assert kinds(small) == set()


def test_duplicates_across_a_split() -> None:
    x, y = features(torch.full((C,), 10))
    q, t = features(torch.full((C,), 3), seed=1)
    q[5], t[5] = x[7], y[7]
    space = FrozenSpace.fit(x, y, q, t, val=x[:2], val_labels=y[:2])
    texts = [c.text for c in cautions(space) if c.kind == "duplicates"]
    assert texts[0].startswith(f"1 of {3 * C} held-out row is also among the training rows")
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
        ("uncentered", lambda x, y: (x + 3, y, x + 3.01, y)),
        ("sorted", lambda x, y: (x[y.argsort()], y.sort().values, x + 0.01, y)),
    ],
)
def test_each_check(kind: str, make) -> None:
    x, y = features(torch.full((C,), 10))
    assert kind in kinds(FrozenSpace.fit(*make(x, y)))


def test_two_classes() -> None:
    x, y = features(torch.full((2,), 40))
    assert "two-classes" in kinds(FrozenSpace.fit(x, y, x + 0.01, y))


def test_rows_that_the_network_has_seen() -> None:
    assert seen_before(0.9, 0.5, "train")[0].kind == "seen"
    assert seen_before(0.9, 0.5, "val") == () and seen_before(0.6, 0.55, "train") == ()
