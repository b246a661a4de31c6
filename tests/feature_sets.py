"""A small feature set in memory."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from resultant.analysis.data import FeatureSet, Split
from small_features import COUNTS, small_features


def rows_of(split: Split) -> Tensor:
    assert isinstance(split.x, Tensor)
    return split.x


def small_set(val: bool = False, noise: float = 0.6, **options: Any) -> FeatureSet:
    """Six classes in a long tail."""
    arrays = small_features(dim=16, noise=noise)
    splits = {
        name: Split(name, arrays[f"{name}/projection"], arrays[f"{name}/labels"])
        for name in ("train", "test")
    }
    if val:
        other = small_features(seed=1, dim=16, noise=0.6)
        splits["val"] = Split("val", rows_of(splits["test"]) + 0.01, other["test/labels"])
    names = tuple(map(str, range(len(COUNTS))))
    return FeatureSet("memory", "projection", names, **splits, **options)
