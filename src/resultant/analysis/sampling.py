"""Rows of a class, of a random sample, and of the fitted part."""

from __future__ import annotations

import torch
from torch import Tensor

from resultant._core.arrays import shape_of


def sample_rows(number: int, size: int, seed: int) -> Tensor:
    """Draw ``size`` of ``number`` rows, or all, in ascending order."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randperm(number, generator=generator)[:size].sort().values


def class_rows(labels: Tensor, num_classes: int) -> tuple[Tensor, ...]:
    """The rows of each class, in order."""
    size = torch.bincount(labels, minlength=num_classes)
    return labels.argsort(stable=True).split(size.tolist())


def rank_in_class(labels: Tensor) -> Tensor:
    """The number of earlier rows of the same class, [N] int64."""
    order, size = labels.argsort(stable=True), torch.bincount(labels)
    rank = torch.empty_like(labels)
    rank[order] = torch.arange(len(labels)) - (size.cumsum(0) - size)[labels[order]]
    return rank


def owners(labels: Tensor, identities: Tensor) -> Tensor:
    """Number the pairs of label and identity from zero, [N] int64."""
    _, dense = identities.cpu().unique(return_inverse=True)
    return (labels * (int(dense.max()) + 1) + dense).unique(return_inverse=True)[1]


def split(labels: Tensor, identities: Tensor | None, share: float, seed: int) -> Tensor:
    """The fitted rows, [N] bool: a share of the identities of each class, at least two."""
    if not 0 < share < 1:
        raise ValueError(f"expected fitting_share in (0, 1), got {share!r}")
    if identities is not None and identities.shape != labels.shape:
        raise ValueError(f"expected identities [{len(labels)}], got {shape_of(identities)}")
    if identities is None:
        owner, number = labels, torch.arange(len(labels))
    else:
        number = owners(labels, identities)
        owner = torch.empty(int(number.max()) + 1, dtype=torch.int64)
        owner[number] = labels
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(owner), generator=generator)
    # A single row would have a resultant of one.
    fitted = (share * torch.bincount(owner)).ceil().clamp_min(2)[owner[order]]
    chosen = torch.empty(len(owner), dtype=torch.bool)
    chosen[order] = rank_in_class(owner[order]) < fitted
    return chosen[number]
