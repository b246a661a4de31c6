"""Rows: in chunks that fit a budget, and their directions."""

import pytest
import torch

from resultant._core import memory
from resultant._core.arrays import directions


@pytest.mark.parametrize(("rows", "lengths"), [(0, []), (5, [5]), (23, [10, 10, 3])])
def test_slices_cover_all_rows_once(rows: int, lengths: list[int]) -> None:
    index = torch.arange(rows)
    parts = [index[part] for part in memory.row_slices(rows, 8, 80)]
    assert [len(part) for part in parts] == lengths
    assert torch.equal(torch.cat([index[:0], *parts]), index)


def test_rows_per_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """At least one row; rows of no bytes count as one byte each; another device has its budget."""
    monkeypatch.setattr(memory, "DEVICE_BYTES", 800)
    monkeypatch.setattr(memory, "DEVICE_ROWS", 50)
    cpu, cuda = torch.device("cpu"), torch.device("cuda")
    cases = [(81, cpu, 1), (0, None, 80), (8, cpu, 10), (8, cuda, 50), (100, cuda, 8)]
    for size, device, expected in cases:
        assert memory.rows_per_chunk(size, 80, device) == expected


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_directions_of_any_length(scale: float) -> None:
    """A row of zeros is unchanged, and a row that is not finite has no finite length."""
    z = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x = z * scale
    x[1], x[2, 0] = 0, torch.inf
    units, length = directions(x)
    expected = z / z.norm(dim=1, keepdim=True)
    torch.testing.assert_close(units[[0, 3, 4]], expected[[0, 3, 4]])
    assert length[1] == 0 and not units[1].any() and not length[2].isfinite()
