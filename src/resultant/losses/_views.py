"""Views of a batch: shapes and dtypes shared by the losses, and cross-entropies with a prior."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from resultant._core.validation import COMPUTE_DTYPE


def compute_dtype(a: Tensor) -> Tensor:
    """Cast ``a`` to the dtype that losses compute in, at least float32."""
    return a.to(COMPUTE_DTYPE[a.dtype])


def by_view(a: Tensor) -> Tensor:
    """Return ``a`` [N, k] or [V, N, k] as [V, N, k], also for N = 0."""
    return a if a.dim() == 3 else a.unsqueeze(0)


def labels_by_view(y: Tensor, views: int) -> Tensor:
    """Expand labels ``y`` [N] to [N, V]."""
    return y.unsqueeze(-1).expand(-1, views)


def cross_entropy(scores: Tensor, offset: Tensor, labels: Tensor) -> Tensor:
    """Return the cross-entropies [...] of ``scores`` [..., C] + ``offset`` [C] at labels [...]."""
    logits = (scores + offset.to(scores.dtype)).flatten(0, -2)
    entropies = functional.cross_entropy(logits, labels.reshape(-1), reduction="none")
    return entropies.view(labels.shape)
