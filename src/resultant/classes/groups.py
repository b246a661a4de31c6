"""Groups of classes by how many training samples they have (sec:frozen-states)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from resultant._core import validation
from resultant._core.arrays import shape_of

HEAD, MEDIUM, TAIL = 0, 1, 2
GROUPS = ("head", "medium", "tail")

# So many classes are grouped by their ranks.
RANKED = 10


def shot_groups(counts: Tensor, ranked: bool | None = None) -> Tensor:
    """The group [C] int64 of each class by its training count: HEAD above 100, MEDIUM from 20 to
    100, TAIL below 20 (sec:boundary-selection).

    ``ranked``, by default where C is `RANKED`, groups by frequency rank in its place: the first and
    the last third of the ranks, rounded down, are head and tail (3, 4 and 3 of ten classes). The
    paper says that it ranks ten classes but not where it cuts. Classes of one count are not parted:
    they are MEDIUM where a cut would go through them.
    """
    if not isinstance(counts, Tensor) or counts.dim() != 1:
        raise ValueError(f"expected counts [C], got {shape_of(counts)}")
    validation.require_in_range("counts", counts.double(), 0.0, rule=">= 0 and finite")
    C = len(counts)
    if ranked is None:
        ranked = C == RANKED
    if not ranked:
        return torch.where(counts > 100, HEAD, torch.where(counts >= 20, MEDIUM, TAIL))
    third, falling = C // 3, counts.sort(descending=True).values
    groups = torch.full_like(counts, MEDIUM, dtype=torch.int64)
    if third:
        groups[counts > falling[third]] = HEAD
        groups[counts < falling[C - third - 1]] = TAIL
    return groups


def group_rule(num_classes: int) -> str:
    """What `shot_groups` goes by, in a few words."""
    if num_classes != RANKED:
        return "head has more than 100 training rows a class, tail fewer than 20"
    third = RANKED // 3
    return f"head is the {third} largest of {RANKED} classes, tail the {third} smallest"


def one_size(counts: Tensor) -> bool:
    """Whether there are no groups of the classes: all have the same training count, or, where ranks
    are what they would be grouped by, the largest has less than twice that of the smallest."""
    if len(counts) == RANKED and counts.max() < 2 * counts.min():
        return True
    return bool((counts == counts[:1]).all())


def group_masks(counts: Tensor | Sequence[int]) -> dict[str, Tensor]:
    """The classes of each of the `shot_groups` of training ``counts`` [C]: a mask [C] by name; none
    where all classes are of `one_size`."""
    counts = torch.as_tensor(counts)
    if counts.dim() != 1 or not len(counts) or counts.is_floating_point() or counts.is_complex():
        raise ValueError(f"expected counts [C] of integers, got {shape_of(counts)} {counts.dtype}")
    if (counts < 0).any():
        c = int((counts < 0).nonzero()[0])
        raise ValueError(f"expected counts >= 0, got {int(counts[c])} at class {c}")
    if one_size(counts):
        return {}
    groups = shot_groups(counts)
    return {name: groups == g for g, name in enumerate(GROUPS)}
