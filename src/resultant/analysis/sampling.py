"""Random rows: a sample, a sample of each class, and the fitted part."""

from __future__ import annotations

import torch
from torch import Tensor

from resultant._core.arrays import shape_of
from resultant.classifiers.validation import shuffled_ranks


def sample_rows(number: int, size: int, seed: int) -> Tensor:
    """Draw ``size`` of ``number`` rows, or all, in ascending order."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randperm(number, generator=generator)[:size].sort().values


def stratified(labels: Tensor, number: float) -> Tensor:
    """Draw about ``number`` rows, each class in proportion but with two rows or more, in order."""
    if number >= len(labels):
        return torch.arange(len(labels))
    kept = (number / len(labels) * torch.bincount(labels).double()).ceil().clamp_min(2)
    return (shuffled_ranks(labels) < kept[labels]).nonzero().squeeze(1)


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


def identity_ranks(
    labels: Tensor, identities: Tensor | None, seed: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Number the identities of each class in random order; without identities, the rows."""
    if identities is None:
        number, own = torch.arange(len(labels)), labels
    else:
        number = owners(labels, identities)
        own = torch.empty(int(number.max()) + 1, dtype=torch.int64)
        own[number] = labels
    return shuffled_ranks(own, seed), own, number


def split(labels: Tensor, identities: Tensor | None, share: float, seed: int) -> Tensor:
    """The fitted rows, [N] bool: a share of the identities of each class, at least two."""
    if not 0 < share < 1:
        raise ValueError(f"expected fitting_share in (0, 1), got {share!r}")
    if identities is not None and identities.shape != labels.shape:
        raise ValueError(f"expected identities [{len(labels)}], got {shape_of(identities)}")
    rank, own, number = identity_ranks(labels, identities, seed)
    # A single row would have a resultant of one.
    return (rank < (share * torch.bincount(own)).ceil().clamp_min(2)[own])[number]
