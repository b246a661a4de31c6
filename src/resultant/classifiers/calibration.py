"""Calibration of probabilities: the error, a fitted scale of the scores, and a curve per class."""

import warnings
from typing import Any, Self

import numpy as np
import torch
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from torch import Tensor

from resultant._core import validation

# The score of a class that takes no part.
ABSENT = -1e30

# Limits of the scale, and the last relative step: the error is about its square.
SCALES = (1e-6, 1e6)
ACCURACY = 3e-2


def expected_calibration_error(probabilities: Any, labels: Any, bins: int = 15) -> float:
    r"""Compute the top-label calibration error :math:`\sum_b (n_b/N)|acc_b-conf_b|`, over bins of
    equal width of the largest probability, closed above.

    Args:
        probabilities, labels: Probabilities [N, C], and column indices [N] of the labels.
        bins: Number of bins.

    Returns:
        The error, between 0 and 1.

    Raises:
        ValueError: For other shapes, rows that are not probabilities, and other labels.

    Example:
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
    return calibration_error(*confidence_bins(p.max(1), p.argmax(1) == y, bins))


def confidence_bins(
    confidence: np.ndarray, hits: np.ndarray, bins: int = 15
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows, mean confidence and accuracy [bins] of predictions [N]; NaN in an empty bin."""
    edges = np.linspace(0, 1, bins + 1)[1:-1]
    bin_of = np.searchsorted(edges, confidence, side="left")
    count = np.bincount(bin_of, minlength=bins)
    with np.errstate(invalid="ignore"):
        means = (np.bincount(bin_of, a, bins) / count for a in (confidence, hits))
        return count, next(means), next(means)


def calibration_error(count: np.ndarray, confidence: np.ndarray, accuracy: np.ndarray) -> float:
    """Return the mean gap between accuracy and confidence over the rows of `confidence_bins`."""
    return float(np.nansum(count * np.abs(accuracy - confidence)) / count.sum())


def _array(a: Any) -> np.ndarray:
    if isinstance(a, Tensor):
        # NumPy has no bfloat16.
        return (a.detach().double() if a.is_floating_point() else a).cpu().numpy()
    return np.asarray(a)


@torch.no_grad()
def fit_scale(
    scores: Tensor, labels: Tensor, weights: Tensor | None = None, *, number: float | None = None
) -> float:
    """Fit the factor s with which softmax(s * scores) has the least cross-entropy, by Newton's
    method; a fraction 1/(M + 1) of each row counts for all classes alike: s is finite."""
    M = len(scores)
    w = scores.new_full((M,), 1 / M) if weights is None else (weights / weights.sum()).to(scores)
    # Differences to the largest score; exp never overflows, and 0 * -1e30 is no NaN.
    d = (scores - scores.amax(1, keepdim=True)).clamp_min_(ABSENT)
    smooth = 1 / ((M if number is None else number) + 1)
    own = d.gather(1, labels[:, None])[:, 0]
    present = d > ABSENT
    everyone = torch.where(present, d, 0.0).sum(1) / present.sum(1)
    target = float(w @ ((1 - smooth) * own + smooth * everyone))
    if target >= 0:
        return 1.0
    low, high = SCALES
    s = 1 / max(-float(w @ everyone), low)
    for _ in range(60):
        e = (d * s).exp_()
        total = e.sum(1)
        e *= d
        mean = e.sum(1) / total
        e *= d
        slope = float(w @ mean) - target
        curvature = float(w @ (e.sum(1) / total - mean.square()))
        low, high = (s, high) if slope < 0 else (low, s)
        step = s - slope / curvature if curvature > 0 else 0.0
        # Newton's step in s may leave the interval; the middle in log s never does.
        new = step if low < step < high else (low * high) ** 0.5
        if abs(new - s) <= ACCURACY * s:
            return min(max(new, SCALES[0]), SCALES[1])
        s = new
    return s


def log_losses(scores: Tensor, labels: Tensor, scale: float = 1.0) -> Tensor:
    """Compute cross-entropies [M] in float64 of softmax(scale * scores)."""
    d = scores - scores.amax(1, keepdim=True)
    total = (d * scale).exp_().sum(1)
    return total.log().double() - scale * d.gather(1, labels[:, None])[:, 0].double()


class _Scored(ClassifierMixin, BaseEstimator):
    """Scores as an estimator: rows are the scores themselves."""

    def __init__(self, classes: Any = None) -> None:
        self.classes = self.classes_ = classes

    def fit(self, X: Any, y: Any) -> Self:
        return self

    def predict(self, X: Any) -> np.ndarray:
        raise NotImplementedError("scores are calibrated, and predict nothing here")

    def decision_function(self, X: Any) -> np.ndarray:
        return X[:, 0] if X.shape[1] == 1 else X


def fit_calibration(s: Tensor, y: Tensor, w: Tensor, method: Any) -> dict[str, Any]:
    """Fit scikit-learn's calibration of each class to scores [N, C], classes [N] and weights [N]:
    slope and shift of a sigmoid, or knots. Scores of classes that were not fitted are -inf."""
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.frozen import FrozenEstimator

    known = _known(s)
    kept = known[y] & (w > 0)
    rows = torch.bincount(y[kept], minlength=s.shape[1])
    if missing := (known & (rows == 0)).nonzero()[:, 0].tolist():
        rule = f"expected rows of every fitted class for method {method!r}"
        raise ValueError(f"{rule}, got none of class number {missing[0]}; use method='scale'")
    if len(rows[known]) < 2:
        raise ValueError(f"expected two fitted classes or more for method {method!r}, got one")
    values = _columns(s[kept][:, known])
    values = values[:, None] if values.ndim == 1 else values
    label, weight = (a[kept].cpu().numpy() for a in (y, w))
    model: Any = CalibratedClassifierCV(FrozenEstimator(_Scored(np.unique(label))), method=method)
    with warnings.catch_warnings():
        # A frozen estimator needs neither weights nor folds.
        warnings.filterwarnings("ignore", "Since FrozenEstimator does not appear to accept")
        warnings.filterwarnings("ignore", "The least populated class in y has only")
        model.fit(values, label, sample_weight=weight)
    names = ("a_", "b_") if method == "sigmoid" else ("X_thresholds_", "y_thresholds_")
    curves = model.calibrated_classifiers_[0].calibrators
    curves = [[np.asarray(getattr(curve, name)).tolist() for name in names] for curve in curves]
    return {"method": method, "curves": curves}


def calibrated(scores: Tensor, calibration: dict[str, Any]) -> Tensor:
    """Return the logarithms [N, C] of calibrated probabilities, as `CalibratedClassifierCV`."""
    known, curves = _known(scores), calibration["curves"]
    s = _columns(scores[:, known])
    s = s[:, None] if s.ndim == 1 else s
    if calibration["method"] == "sigmoid":
        columns = [expit(-(a * s[:, c] + b)) for c, (a, b) in enumerate(curves)]
    else:
        columns = [np.interp(s[:, c], *knots) for c, knots in enumerate(curves)]
    p = np.stack([1 - columns[0], *columns] if len(columns) == 1 else columns, 1)
    total = p.sum(1, keepdims=True)
    # Where no class is possible, all are alike.
    p = np.where(total > 0, p, 1.0) / np.where(total > 0, total, p.shape[1])
    # Classes that were not fitted keep a probability of zero.
    every = scores.new_zeros(scores.shape)
    every[:, known] = torch.from_numpy(p).to(scores)
    return every.log()


def _known(scores: Tensor) -> Tensor:
    """Return the classes [C] that were fitted, as a mask."""
    return ~scores.isneginf().all(0) if len(scores) else torch.ones_like(scores[:0].any(0))


def _columns(scores: Tensor) -> np.ndarray:
    """Return scores [N, C] in float64, of two classes their difference [N]."""
    s = scores.double().cpu().numpy()
    return s[:, 1] - s[:, 0] if s.shape[1] == 2 else s
