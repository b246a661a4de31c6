"""Groups of classes by training count: head, medium and tail (sec:frozen-states)."""

from collections.abc import Sequence

import torch
from torch import Tensor

from resultant._core import validation
from resultant._core.arrays import shape_of

HEAD, MEDIUM, TAIL = 0, 1, 2
GROUPS = ("head", "medium", "tail")

# Number of classes that are grouped by rank.
RANKED = 10


def shot_groups(counts: Tensor) -> Tensor:
    """Return the group [C] of each class (sec:boundary-selection): HEAD above 100 samples, TAIL
    below 20, else MEDIUM; of ten classes 3, 4 and 3 by rank, MEDIUM where a cut would part ties."""
    validation.require_in_range("counts", counts.double(), 0.0, rule=">= 0 and finite")
    if len(counts) != RANKED:
        return torch.where(counts > 100, HEAD, torch.where(counts >= 20, MEDIUM, TAIL))
    third, falling = RANKED // 3, counts.sort(descending=True).values
    groups = torch.full_like(counts, MEDIUM, dtype=torch.int64)
    groups[counts > falling[third]] = HEAD
    groups[counts < falling[-third - 1]] = TAIL
    return groups


def one_size(counts: Tensor) -> bool:
    """Return True if classes form no groups: counts that are equal or, by rank, nearly so."""
    nearly = len(counts) == RANKED and counts.max() < 2 * counts.min()
    return bool(nearly or (counts == counts[:1]).all())


def group_masks(counts: Tensor | Sequence[int]) -> dict[str, Tensor]:
    """Return a mask [C] per name of the `shot_groups`; none where classes are of `one_size`."""
    counts = torch.as_tensor(counts)
    if counts.dim() != 1 or not len(counts) or counts.is_floating_point() or counts.is_complex():
        raise ValueError(f"expected counts [C] of integers, got {shape_of(counts)} {counts.dtype}")
    groups = shot_groups(counts)
    return {} if one_size(counts) else {name: groups == g for g, name in enumerate(GROUPS)}
