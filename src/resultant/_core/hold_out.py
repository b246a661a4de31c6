"""Rows held out of each class, the same for features and images."""

from __future__ import annotations

import math

import torch
from torch import Tensor

# Rows of a class that are never held out: one row has no concentration.
KEPT = 2


def held_out_rows(labels: Tensor, share: float, seed: int = 0) -> Tensor:
    """Draw a mask [N] of a share of the rows of each class; two rows are always kept."""
    if not 0 < share < 1:
        raise ValueError(f"expected a share in (0, 1), got {share}")
    # Sorted by class, within a class at random.
    order = torch.rand(len(labels), generator=torch.Generator().manual_seed(seed)).argsort()
    order = order[labels[order].argsort(stable=True)]
    counts = torch.bincount(labels)
    first = counts.cumsum(0) - counts
    rank = torch.arange(len(labels)) - first[labels[order]]
    number = torch.minimum((share * counts).round().long(), counts - KEPT)
    mask = torch.zeros(len(labels), dtype=torch.bool)
    mask[order] = rank < number[labels[order]]
    if not mask.any():
        least = max(KEPT + 1, math.floor(0.5 / share) + 1)
        got = f"{int(counts.max()) if len(counts) else 0} at the most"
        raise ValueError(f"expected {least} rows or more in some class, got {got}")
    return mask
