"""Expected calibration error of predicted probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from resultant._core import validation


def expected_calibration_error(probabilities: Any, labels: Any, bins: int = 15) -> float:
    r"""Compute the top-label calibration error :math:`\sum_b (n_b/N)|acc_b-conf_b|`.

    Rows are sorted into bins of equal width by their largest probability. Each bin compares the
    accuracy with the mean of the largest probability.

    Args:
        probabilities: Probabilities [N, C], an array or tensor.
        labels: Labels [N], column indices of the probabilities.
        bins: Number of bins, closed above.

    Returns:
        The error, between 0 and 1.

    Raises:
        ValueError: For other shapes, for rows that are not probabilities, for labels that are not
            column indices, and for fewer than one bin.

    Example:
        >>> from resultant import expected_calibration_error
        >>> round(expected_calibration_error([[0.8, 0.2], [0.6, 0.4]], [0, 1]), 6)
        0.4
    """
    p, y = _array(probabilities), _array(labels)
    if p.ndim != 2 or y.shape != p.shape[:1] or not p.size or p.dtype.kind not in "iuf":
        rule = "expected probabilities [N, C] and labels [N], N >= 1"
        raise ValueError(f"{rule}, got shapes {p.shape} ({p.dtype}) and {y.shape}")
    if y.dtype.kind not in "iu" or y.min() < 0 or y.max() >= p.shape[1]:
        rule = f"expected labels to be integers in [0, {p.shape[1]})"
        raise ValueError(f"{rule}, got {y.dtype} from {y.min()} to {y.max()}")
    p = p.astype(np.float64)
    excess = np.abs(p.sum(1) - 1)
    # Sums of C numbers that were rounded to their dtype.
    if not (p.min() >= 0 and excess.max() <= 1e-3):
        i = int(np.argmax(np.where(np.isnan(excess), np.inf, excess)))
        rule = "expected probabilities >= 0 with rows that sum to one"
        raise ValueError(f"{rule}, got the least {p.min():g} and the sum {p[i].sum():g} in row {i}")
    bins = validation.integer("bins", bins, 1)
    confidence, hit = p.max(1), p.argmax(1) == y
    edges = np.linspace(0, 1, bins + 1)[1:-1]
    bin_of = np.searchsorted(edges, confidence, side="left")
    gaps = np.bincount(bin_of, weights=hit - confidence, minlength=bins)
    return float(np.abs(gaps).sum() / len(y))


def _array(a: Any) -> np.ndarray:
    if isinstance(a, Tensor):
        # NumPy has no bfloat16.
        return (a.detach().double() if a.is_floating_point() else a).cpu().numpy()
    return np.asarray(a)
