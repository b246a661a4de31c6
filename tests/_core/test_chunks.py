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


def test_rows_per_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """At least one row; rows of no bytes count as one byte each; another device has its budget."""
    monkeypatch.setattr(chunks, "DEVICE_BYTES", 800)
    monkeypatch.setattr(chunks, "DEVICE_ROWS", 50)
    cpu, cuda = torch.device("cpu"), torch.device("cuda")
    cases = [(81, cpu, 1), (0, None, 80), (8, cpu, 10), (8, cuda, 50), (100, cuda, 8)]
    for size, device, expected in cases:
        assert chunks.rows_per_chunk(size, 80, device) == expected
