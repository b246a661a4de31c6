"""Classes of one size have no head, medium and tail, in whatever order their labels are."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from resultant.analysis import Analysis, FrozenSpace, analyze_space
from resultant.classes.groups import group_masks
from resultant.images.longtail import long_tail_counts


def ten_classes(seed: int = 0) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    centres = functional.normalize(torch.randn(10, 8, generator=generator), dim=1)
    arrays = {}
    for split in ("train", "test"):
        y = torch.arange(10).repeat_interleave(12)
        arrays[f"{split}/labels"] = y
        noise = 0.4 * (1 + 0.1 * y[:, None]) * torch.randn(120, 8, generator=generator)
        arrays[f"{split}/features"] = centres[y] + noise
    return arrays


@cache
def equal() -> Analysis:
    arrays = ten_classes()
    names = ("train/features", "train/labels", "test/features", "test/labels")
    return analyze_space(FrozenSpace.fit(*(arrays[n] for n in names)))


@pytest.mark.slow
def test_no_groups_of_an_analysis() -> None:
    a = equal()
    assert a.space.groups == {} and a.gains is not None and a.gains.group is None
    assert a.gains.groups == {} and a.grid is not None
    assert a.grid.point("native").groups == {}


def test_one_group_is_no_group() -> None:
    """Two classes of 130 and 300 rows are both head."""
    y = (torch.arange(430) >= 130).long()
    z = torch.eye(2)[y] + 0.1
    assert FrozenSpace.fit(z, y, z[:4], y[:4]).group_names == ()
    few = FrozenSpace.fit(z[100:], y[100:], z[:4], y[:4])
    assert few.group_names == ("head", "medium", "tail")


def test_ranks_of_about_one_size_are_no_groups() -> None:
    """Ten classes are grouped by rank; other numbers of classes by their rows."""
    near = [146, 145, 144, 143, 142, 141, 140, 139, 139, 146]
    assert group_masks(near) == {} == group_masks([199, *[100] * 9])
    assert group_masks([200, *[100] * 9])["medium"].sum() == 9
    assert group_masks(near[:9])["head"].all()
    cifar = group_masks(long_tail_counts(5000, 10, 10))
    assert [int(mask.sum()) for mask in cifar.values()] == [3, 4, 3]
