"""Class prior of a loss, and the logit-adjusted cross-entropy of a classifier in joint training."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from resultant._core import validation
from resultant._core.arrays import require_labels, shape_of
from resultant._core.modes import no_autocast
from resultant.losses.batch import by_view, compute_dtype
from resultant.losses.module import WideModule


class LogitAdjustedCrossEntropy(WideModule):
    r"""Cross-entropy of ``logits`` + :math:`\gamma\log\pi_c`, in at least float32.

    ``loss(logits, y)`` of logits [N, C] or [V, N, C] of V views and labels ``y`` [N] is the mean
    over views and samples. Classes without a count are checked on the CPU.

    Args:
        class_counts: Number of training samples per class [C]; their shares are :math:`\pi_c`.
        prior: Strength :math:`\gamma` of the prior.

    Example:
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
        return self.mean_entropy(views, y.unsqueeze(-1).expand(-1, len(views)))

    def mean_entropy(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Average the cross-entropies of logits [V, ..., N, C] at labels [N, V, ...] over N, V."""
        with no_autocast(logits):
            scores = compute_dtype(logits).movedim(-2, 0)
            return cross_entropy(scores, self.log_prior, labels).mean((0, 1))


def cross_entropy(scores: Tensor, offset: Tensor, labels: Tensor) -> Tensor:
    """Return the cross-entropies [...] of ``scores`` [..., C] + ``offset`` [C] at labels [...]."""
    logits = (scores + offset.to(scores)).flatten(0, -2)
    entropies = functional.cross_entropy(logits, labels.reshape(-1), reduction="none")
    return entropies.view(labels.shape)


def require_counts(counts: Tensor | Sequence[float], num_classes: int | None = None) -> Tensor:
    """Return class counts [C] in float64 on the CPU; raise unless they are counts of C classes."""
    try:
        n = torch.as_tensor(counts, dtype=torch.float64, device="cpu").detach()
    except (TypeError, ValueError, RuntimeError):
        got = f"{type(counts).__name__}: pass a list or tensor of numbers, in the order of classes"
        raise ValueError(f"expected class_counts [C], got {got}") from None
    if n.dim() != 1 or not len(n):
        raise ValueError(f"expected class_counts [C] of one class or more, got {shape_of(n)}")
    if num_classes not in (None, len(n)):
        raise ValueError(f"expected class_counts [{num_classes}], one per class, got {len(n)}")
    if validation.should_validate(None, n):
        validation.require_in_range("class_counts", n, 0.0, rule=">= 0 and finite")
        name, rule = "the sum of class_counts", "> 0 and finite"
        validation.require_in_range(name, n.sum(), 0.0, rule=rule, open_low=True)
    return n


def log_prior_of(
    counts: Tensor | Sequence[float] | None, prior: float, num_classes: int | None = None
) -> Tensor:
    r"""Return :math:`\gamma\log\pi_c` [C] in float64, of equal shares without counts."""
    n = require_counts([1.0] * (num_classes or 0) if counts is None else counts, num_classes)
    gamma = validation.finite_number("prior", prior)
    if gamma < 0 and not n.all():
        c = int((n == 0).nonzero()[0])
        rule = f"expected class_counts > 0 for a negative prior ({gamma:g})"
        raise ValueError(f"{rule}, got 0 of class {c}: leave the class out, or use prior >= 0")
    return gamma * (n / n.sum()).log() if gamma else torch.zeros_like(n)


def require_counted(y: Tensor, log_prior: Tensor) -> None:
    """Raise if a label has a class of count zero, whose log prior is infinite."""
    if validation.should_validate(None, y):
        bad = log_prior.isinf()[y]
        if bad.any():
            got = f"class {int(y[bad][0])}, whose count is zero"
            raise ValueError(f"expected labels of classes that class_counts has, got {got}")
