"""Stores with some rows of another store."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from resultant.features.store import FeatureStore
from resultant.features.subsets import held_out


def test_held_out_rows_per_class(tmp_path: Path) -> None:
    counts = [2, 3, 10, 40]
    y = torch.arange(4).repeat_interleave(torch.tensor(counts))[torch.randperm(55)]
    x = torch.arange(55.0)[:, None] + 1
    whole = FeatureStore("memory", {"train/z": x.expand(-1, 3).clone(), "train/labels": y})
    result = held_out(whole, 0.2, seed=3)
    assert result.label_counts("test").tolist() == [0, 1, 2, 8]
    assert result.label_counts().tolist() == [2, 2, 8, 32]
    rows = torch.cat([result["train/z"][:, 0], result["test/z"][:, 0]])
    assert torch.equal(rows.sort().values, x[:, 0])
    for split in ("train", "test"):
        assert torch.equal(y[result[f"{split}/z"][:, 0].long() - 1], result[f"{split}/labels"])
    again, other = held_out(whole, 0.2, seed=3), held_out(whole, 0.2, seed=4)
    assert torch.equal(again["test/z"], result["test/z"])
    assert not torch.equal(other["test/z"], result["test/z"])
    with pytest.raises(ValueError, match="to have one split"):
        held_out(result)
    with pytest.raises(ValueError, match=r"expected a share in \(0, 1\), got 1.5"):
        held_out(whole, 1.5)
    # The error names a number that works.
    two = FeatureStore("memory", {"train/z": x[:12].clone(), "train/labels": torch.arange(12) // 2})
    for share, least in ((0.2, 3), (0.1, 6)):
        rule = f"expected {least} rows or more in some class of memory, or a test split, got 2 at"
        with pytest.raises(ValueError, match=rule):
            held_out(two, share)
        y = torch.arange(12).clamp(max=12 - least)
        store = FeatureStore("memory", {"train/z": x[:12].clone(), "train/labels": y})
        assert held_out(store, share).label_counts("test").sum() == 1
