"""Views of a batch: shapes and labels shared by the losses.

A loss of one run has the leading shape ``lead`` = (); a stack of R runs has (R,).
"""

from __future__ import annotations

import torch
from torch import Tensor

from resultant._core.arrays import require_labels, shape_of
from resultant._core.validation import COMPUTE_DTYPE


def compute_dtype(a: Tensor) -> Tensor:
    """Cast ``a`` to the dtype that losses compute in, at least float32."""
    return a.to(COMPUTE_DTYPE[a.dtype])


def by_view(a: Tensor, lead: tuple[int, ...]) -> Tensor:
    """Return ``a`` [*lead, N, k] or [V, *lead, N, k] as [V, *lead, N, k], also for N = 0."""
    return a if a.dim() > len(lead) + 2 else a.unsqueeze(0)


def labels_by_view(y: Tensor, views: int, lead: tuple[int, ...]) -> Tensor:
    """Expand labels ``y`` [N] or [*lead, N] to [N, V, *lead]."""
    first = y.movedim(-1, 0)
    shape = (len(first), views, *lead)
    return first.view(len(first), *(1,) * (len(shape) - y.dim()), *first.shape[1:]).expand(shape)


def require_view_labels(
    y: Tensor, number: int, num_classes: int, lead: tuple[int, ...], device: torch.device
) -> None:
    """Raise unless ``y`` [number] or [*lead, number] holds labels below ``num_classes``."""
    # Compared one by one: under torch.compile sizes may be symbols, which `in` does not find.
    if not isinstance(y, Tensor) or (y.shape != (number,) and y.shape != (*lead, number)):
        rule = f"expected y [{number}]"
        if lead:
            rule += f" or {[*lead, number]}"
        raise ValueError(f"{rule}, one per row of z, got {shape_of(y)}")
    require_labels(y.reshape(-1), y.numel(), num_classes, device, None)
