"""Rows held out of each class."""

from __future__ import annotations

import pytest
import torch

from resultant._core.hold_out import held_out_rows


def test_numbers_per_class() -> None:
    """The rounded share of every class, but for two rows that stay."""
    counts = torch.tensor([1, 2, 3, 4, 10, 0, 101])
    labels = torch.arange(7).repeat_interleave(counts)
    labels = labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(3))]
    for share in (0.2, 0.5, 0.9):
        mask = held_out_rows(labels, share)
        number = torch.bincount(labels[mask], minlength=7)
        assert number.tolist() == [max(0, min(round(share * n), n - 2)) for n in counts.tolist()]
    assert torch.equal(held_out_rows(labels, 0.5), held_out_rows(labels, 0.5, seed=0))
    assert not torch.equal(held_out_rows(labels, 0.5), held_out_rows(labels, 0.5, seed=1))


@pytest.mark.parametrize(
    ("labels", "share", "message"),
    [
        ([0, 0, 1, 1], 0.5, "expected 3 rows or more in some class, got 2 at the most"),
        ([0, 0, 0], 0.1, "expected 6 rows or more in some class, got 3 at the most"),
        ([0, 0, 0], 1.0, r"expected a share in \(0, 1\), got 1.0"),
    ],
)
def test_refused(labels: list[int], share: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        held_out_rows(torch.tensor(labels), share)
