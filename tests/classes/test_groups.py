"""Groups of classes by training count and by rank."""

from __future__ import annotations

import torch

from resultant.classes.groups import HEAD, MEDIUM, TAIL, group_masks, shot_groups


def test_shot_groups() -> None:
    counts = torch.tensor([500, 101, 100, 50, 20, 19, 0])
    assert shot_groups(counts).tolist() == [HEAD] * 2 + [MEDIUM] * 3 + [TAIL] * 2
    ten = torch.tensor([50, 5000, 83, 2997, 1796, 1077, 645, 387, 232, 139])
    groups = shot_groups(ten)
    assert [int((groups == g).sum()) for g in (HEAD, MEDIUM, TAIL)] == [3, 4, 3]
    assert set(ten[groups == HEAD].tolist()) == {5000, 2997, 1796}
    assert set(ten[groups == TAIL].tolist()) == {139, 83, 50}
    # Classes of equal count stay together.
    assert shot_groups(torch.full((10,), 30)).tolist() == [MEDIUM] * 10
    assert shot_groups(torch.tensor([9, 9, 9, 9, 5, 4, 3, 2, 1, 1])).tolist() == [1] * 7 + [2] * 3


def test_masks_of_groups() -> None:
    counts = [500, 50, 5, 600]
    masks = group_masks(counts)
    assert {name: mask.tolist() for name, mask in masks.items()} == {
        "head": [True, False, False, True],
        "medium": [False, True, False, False],
        "tail": [False, False, True, False],
    }
    assert group_masks([30, 30, 30]) == {}
