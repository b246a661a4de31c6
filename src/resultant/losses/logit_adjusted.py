"""Logit-adjusted cross-entropy, for the classifier of joint training."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from resultant._core import validation
from resultant._core.arrays import require_labels, shape_of
from resultant.losses._batch import by_view, compute_dtype, cross_entropy, labels_by_view
from resultant.losses.bank import WideModule
from resultant.losses.prior import log_prior_of, require_counted


class LogitAdjustedCrossEntropy(WideModule):
    r"""Cross-entropy of ``logits`` + :math:`\gamma\log\pi_c`, in at least float32.

    ``loss(logits, y)`` takes logits [N, C] or, for V views, [V, N, C], and labels ``y`` [N] of
    every view. The loss is the mean over views and samples.

    Args:
        class_counts: Number of training samples per class [C]; their shares are :math:`\pi_c`.
        prior: Strength :math:`\gamma` of the prior.

    Raises:
        ValueError: For counts or a prior out of range, for logits or labels of other shapes and, on
            the CPU, for labels of classes without a count.

    Example:
        >>> import torch
        >>> from resultant import LogitAdjustedCrossEntropy
        >>> loss = LogitAdjustedCrossEntropy([3, 1])
        >>> round(float(loss(torch.zeros(2, 2), torch.tensor([0, 1]))), 4)
        0.837
    """

    log_prior: Tensor

    def __init__(self, class_counts: Tensor | Sequence[float], prior: float = 1.0) -> None:
        super().__init__()
        self.register_buffer("log_prior", log_prior_of(class_counts, prior), persistent=False)

    def forward(self, logits: Tensor, y: Tensor) -> Tensor:
        C = self.log_prior.shape[-1]
        if not isinstance(logits, Tensor) or logits.dim() not in (2, 3) or logits.shape[-1] != C:
            got = shape_of(logits)
            raise ValueError(f"expected logits [N, {C}] or [V, N, {C}], got {got}")
        if logits.dtype not in validation.COMPUTE_DTYPE:
            raise ValueError(f"expected logits of a floating dtype, got {logits.dtype}")
        require_labels(y, logits.shape[-2], C, logits.device, None)
        require_counted(y, self.log_prior)
        views = by_view(logits)
        return self.mean_entropy(views, labels_by_view(y, len(views)))

    def mean_entropy(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Average the cross-entropies of logits [V, ..., N, C] at labels [N, V, ...] over N, V."""
        with torch.autocast(logits.device.type, enabled=False):
            scores = compute_dtype(logits).movedim(-2, 0)
            return cross_entropy(scores, self.log_prior, labels).mean((0, 1))
