"""Class prior of a loss."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from resultant._core import validation
from resultant._core.arrays import shape_of


def require_counts(counts: Tensor | Sequence[float], num_classes: int | None = None) -> Tensor:
    """Return class counts [C] in float64 on the CPU; raise unless they are counts of C classes."""
    n = torch.as_tensor(counts, dtype=torch.float64, device="cpu").detach()
    if n.dim() != 1 or not len(n):
        raise ValueError(f"expected class_counts [C] of one class or more, got {shape_of(n)}")
    if num_classes not in (None, len(n)):
        raise ValueError(f"expected class_counts [{num_classes}], one per class, got {len(n)}")
    validation.require_in_range("class_counts", n, 0.0, rule=">= 0 and finite")
    validation.require_in_range(
        "the sum of class_counts", n.sum(), 0.0, rule="> 0 and finite", open_low=True
    )
    return n


def log_prior_of(
    counts: Tensor | Sequence[float] | None, prior: float, num_classes: int | None = None
) -> Tensor:
    r"""Return :math:`\gamma\log\pi_c` [C] in float64; zero for gamma = 0 and any counts.

    Without counts the ``num_classes`` classes have equal shares.
    """
    if counts is None:
        assert num_classes is not None
        counts = torch.ones(num_classes, device="cpu")
    n = require_counts(counts, num_classes)
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
