"""How far probabilities can be trusted, and whether what is foreign is told from what is known."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from torch import Tensor


def inner_edges(bins: int) -> np.ndarray:
    """Where bins of equal width of [0, 1] meet; a value there is of the lower one."""
    return np.linspace(0, 1, bins + 1)[1:-1]


def expected_calibration_error(probabilities: Any, labels: Any, bins: int = 15) -> float:
    r"""The top-label calibration error :math:`\sum_b (n_b/N)|acc_b-conf_b|` of probabilities
    [N, C] and labels [N], column indices.

    The bins are ``bins`` intervals of equal width of the largest probability, closed above; in
    each the share of hits is compared with the mean of the largest probability.
    """
    p, y = _probabilities(probabilities, labels)
    if isinstance(bins, bool) or not isinstance(bins, numbers.Integral) or bins < 1:
        raise ValueError(f"expected bins to be an integer >= 1, got {bins!r}")
    confidence, hit = p.max(1), p.argmax(1) == y
    at = np.searchsorted(inner_edges(int(bins)), confidence, side="left")
    gaps = np.bincount(at, weights=hit - confidence, minlength=int(bins))
    return float(np.abs(gaps).sum() / len(y))


def negative_log_likelihood(probabilities: Any, labels: Any) -> float:
    """The mean of -log p [N] at the labels [N], column indices of probabilities [N, C]; infinite
    where a label has probability zero."""
    p, y = _probabilities(probabilities, labels)
    with np.errstate(divide="ignore"):
        return float(-np.log(p[np.arange(len(y)), y]).mean())


def ood_auroc(known: Any, foreign: Any) -> float:
    """The probability that a known query has a larger score [N] than a foreign one [M], ties
    counted half: the area under the ROC curve. The score is ``VMFClassifier.log_marginal``."""
    from sklearn.metrics import roc_auc_score

    scores = [_array(name, a) for name, a in (("known", known), ("foreign", foreign))]
    for name, a in zip(("known", "foreign"), scores, strict=True):
        if a.ndim != 1 or not len(a):
            raise ValueError(f"expected {name} [N] of one score or more, got shape {a.shape}")
    truth = np.repeat([1, 0], [len(a) for a in scores])
    return float(roc_auc_score(truth, np.concatenate(scores)))


def evaluate(classifier: Any, X: Any, y: Any, foreign: Any = None) -> dict[str, float]:
    """``accuracy``, ``nll`` and ``ece`` of a fitted classifier on rows X [N, p] with labels y [N];
    with ``foreign`` rows [M, p] the ``auroc`` of its log marginal.

    Labels that the classifier does not know are refused: they have no probability.
    """
    labels, classes = _labels(y), classifier.classes_
    strange = ~np.isin(labels, classes)
    if strange.any():
        i = int(strange.argmax())
        rule = f"expected labels among the {len(classes)} classes of the classifier"
        raise ValueError(f"{rule}, got {labels[i : i + 1].tolist()[0]!r} at index {i}")
    index = np.searchsorted(classes, labels)
    log_p = _array("log probabilities", classifier.predict_log_proba(X))
    found = {
        "accuracy": float((log_p.argmax(1) == index).mean()),
        "nll": float(-log_p[np.arange(len(index)), index].mean()),
        "ece": expected_calibration_error(np.exp(log_p), index),
    }
    if foreign is not None:
        found["auroc"] = ood_auroc(classifier.log_marginal(X), classifier.log_marginal(foreign))
    return found


def _probabilities(probabilities: Any, labels: Any) -> tuple[np.ndarray, np.ndarray]:
    p, y = _array("probabilities", probabilities), _labels(labels)
    if p.ndim != 2 or y.shape != p.shape[:1] or not p.size:
        rule = "expected probabilities [N, C] and labels [N], N >= 1"
        raise ValueError(f"{rule}, got shapes {p.shape} and {y.shape}")
    if y.dtype.kind not in "iu" or y.min() < 0 or y.max() >= p.shape[1]:
        rule = f"expected labels to be integers in [0, {p.shape[1]})"
        raise ValueError(f"{rule}, got {y.dtype} from {y.min()} to {y.max()}")
    off = np.abs(p.sum(1) - 1)
    # Sums of C numbers that were rounded to their dtype.
    if not (p.min() >= 0 and off.max() <= 1e-3):
        i = int(np.argmax(np.where(np.isnan(off), np.inf, off)))
        rule = "expected probabilities >= 0 with rows that sum to one"
        raise ValueError(f"{rule}, got the least {p.min():g} and the sum {p[i].sum():g} in row {i}")
    return p, y


def _array(name: str, a: Any) -> np.ndarray:
    a = np.asarray(a.detach().double().cpu() if isinstance(a, Tensor) else a)
    if a.dtype.kind not in "iuf":
        raise ValueError(f"expected {name} to be numbers, got {a.dtype}")
    return a.astype(np.float64)


def _labels(labels: Any) -> np.ndarray:
    return np.asarray(labels.detach().cpu() if isinstance(labels, Tensor) else labels)
