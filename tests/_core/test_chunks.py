"""Rows in chunks that fit a budget."""

from __future__ import annotations

import pytest
import torch

from resultant._core import chunks


@pytest.mark.parametrize(("rows", "lengths"), [(0, []), (5, [5]), (23, [10, 10, 3])])
def test_slices_cover_all_rows_once(rows: int, lengths: list[int]) -> None:
    index = torch.arange(rows)
    parts = [index[part] for part in chunks.row_slices(rows, 8, 80)]
    assert [len(part) for part in parts] == lengths
    assert torch.equal(torch.cat([index[:0], *parts]), index)


def test_at_least_one_row() -> None:
    """Also for rows beyond the budget; rows of no bytes count as one byte each."""
    assert chunks.rows_per_chunk(81, 80) == 1
    assert chunks.rows_per_chunk(0, 80) == 80


def test_budget_of_other_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "DEVICE_BYTES", 800)
    monkeypatch.setattr(chunks, "DEVICE_ROWS", 50)
    cpu, cuda = torch.device("cpu"), torch.device("cuda")
    assert [chunks.rows_per_chunk(8, 80, device) for device in (cpu, cuda)] == [10, 50]
    assert chunks.rows_per_chunk(100, 80, cuda) == 8


def test_features_in_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "FEATURE_BYTES", 8 * 4 * 3)
    z = torch.zeros(7, 4, dtype=torch.float16)
    assert [len(z[rows]) for rows in chunks.feature_slices(z)] == [3, 3, 1]
