"""Which rows: of a class, of a sample, of the part that is fitted."""

from __future__ import annotations

import torch
from torch import Tensor

from resultant._core.arrays import shape_of


def sample_rows(number: int, wanted: int, seed: int) -> Tensor:
    """``wanted`` of ``number`` rows, or all, drawn without a look at them, in order."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randperm(number, generator=generator)[:wanted].sort().values


def class_rows(labels: Tensor, num_classes: int) -> tuple[Tensor, ...]:
    """The rows of each class, in order."""
    size = torch.bincount(labels, minlength=num_classes)
    return labels.argsort(stable=True).split(size.tolist())


def rank_in_class(labels: Tensor) -> Tensor:
    """How many rows of the same class stand before each, [N] int64."""
    order, size = labels.argsort(stable=True), torch.bincount(labels)
    rank = torch.empty_like(labels)
    rank[order] = torch.arange(len(labels)) - (size.cumsum(0) - size)[labels[order]]
    return rank


def owners(labels: Tensor, identities: Tensor) -> Tensor:
    """A number from zero on for each pair of label and identity, [N] int64."""
    _, dense = identities.cpu().unique(return_inverse=True)
    return (labels * (int(dense.max()) + 1) + dense).unique(return_inverse=True)[1]


def split(labels: Tensor, identities: Tensor | None, share: float, seed: int) -> Tensor:
    """Which rows are fitted, [N] bool: a share of the identities of each class, two or more."""
    if not 0 < share < 1:
        raise ValueError(f"expected fitting_share in (0, 1), got {share!r}")
    if identities is not None and identities.shape != labels.shape:
        raise ValueError(f"expected identities [{len(labels)}], got {shape_of(identities)}")
    if identities is None:
        owner, place = labels, torch.arange(len(labels))
    else:
        place = owners(labels, identities)
        owner = torch.empty(int(place.max()) + 1, dtype=torch.int64)
        owner[place] = labels
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(owner), generator=generator)
    # One would have a resultant of one.
    wanted = (share * torch.bincount(owner)).ceil().clamp_min(2)[owner[order]]
    chosen = torch.empty(len(owner), dtype=torch.bool)
    chosen[order] = rank_in_class(owner[order]) < wanted
    return chosen[place]
