"""Identities of rows: numbers of strings, and rows in common."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from resultant.features import FeatureStore, match_rows


def ids(*values: int) -> torch.Tensor:
    return torch.tensor(values)


@pytest.mark.parametrize(
    ("a", "b", "kind", "rows"),
    [
        (ids(5, 6, 7), ids(5, 6, 7), "same", [(0, 0), (1, 1), (2, 2)]),
        (ids(5, 6, 7), ids(7, 5, 6), "reordered", [(0, 1), (1, 2), (2, 0)]),
        (ids(5, 6, 7), ids(9, 6), "overlap", [(1, 1)]),
        (ids(5, 6), ids(6, 5, 4), "overlap", [(0, 1), (1, 0)]),
        (ids(5, 6), ids(7, 8), "different", []),
        (ids(5, 5), ids(5, 6), "unknown", []),
        (ids(5, 5), ids(5, 5), "same", [(0, 0), (1, 1)]),
        (None, ids(5, 6), "unknown", []),
    ],
)
def test_rows_in_common(
    a: torch.Tensor | None, b: torch.Tensor, kind: str, rows: list[tuple[int, int]]
) -> None:
    match = match_rows(a, b)
    assert match.kind == kind
    assert list(zip(match.a.tolist(), match.b.tolist(), strict=True)) == rows


def test_strings_have_the_same_numbers_in_every_file(tmp_path: Path) -> None:
    x, names = np.eye(4), np.array(["d", "a", "c", "b"])
    np.savez(tmp_path / "a.npz", x=x, y=np.arange(4) % 2, ids=names)
    np.savez(tmp_path / "b.npz", x=x, y=np.arange(4) % 2, ids=names[::-1])
    a, b = (FeatureStore.open(tmp_path / f"{n}.npz")["train/identities"] for n in "ab")
    assert match_rows(a, b).kind == "reordered"
    assert torch.equal(a.flip(0), b)


def test_array_named_id_of_another_length_is_something_else(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.eye(4), y=np.arange(4) % 2, id=np.arange(3))
    store = FeatureStore.open(tmp_path / "a.npz")
    assert "train/identities" not in store and store.left_out == ("id",)


def test_identities_of_other_kinds_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.eye(4), y=np.arange(4) % 2, id=np.full((4, 2), "a"))
    with pytest.raises(
        ValueError, match=r"expected id of .* \[N\] integers or strings, got <U1 \(4, 2\)"
    ):
        FeatureStore.open(tmp_path / "a.npz", identities="id")
