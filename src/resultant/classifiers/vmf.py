r"""scikit-learn classifiers on the unit sphere: one direction and one concentration a class.

A row x is taken to its direction z = x/|x|. A class is fitted from sums (`ClassStatistics`), so
that fitting is one pass over the rows, `partial_fit` is another of the same, and sample weights
are weights in the sums. A query is scored by its cosines with the class directions alone.

- A row of zeros has no direction: its cosine with every class is zero. In a fit it counts for its
  class and adds nothing to the sum, like a direction of which nothing is known.
- One feature leaves two directions, which is no sphere here: p >= 2.
- A class without weight (named in ``classes`` of `partial_fit`, or of weight zero) has score
  -inf and probability zero, and has no part in the mean gain.
- Rows are NumPy arrays, or whatever scikit-learn takes for one, or torch tensors. Scores,
  probabilities and log marginals of a tensor are tensors on its device; labels are always NumPy.
  float32 and float64 are kept; tensors of half precision are taken to float32.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from numbers import Real
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import (
    assert_all_finite,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)
from torch import Tensor

from resultant._core import chunks
from resultant._core.arrays import directions
from resultant._core.device import require_device
from resultant.classes.realization import Realization, realize
from resultant.classes.rule import Rule
from resultant.classes.statistics import ClassState, ClassStatistics
from resultant.score.limits import require_comparable
from resultant.vmf.distribution import log_normalizer

Array = np.ndarray | Tensor


class DirectionClassifier(ClassifierMixin, BaseEstimator):
    """What the classifiers here share: rows to directions, sums to classes, scores to labels.

    Fitted: ``classes_`` [C], ``statistics_``, ``state_`` (of all C classes), ``class_prior_`` [C]
    the shares of the weight, ``n_features_in_``.
    """

    temperature: Any
    estimator: str = "mle"
    device: torch.device | str | None
    classes_: np.ndarray
    class_prior_: np.ndarray
    statistics_: ClassStatistics
    state_: ClassState
    n_features_in_: int

    def _rule(self, dtype: torch.dtype) -> Realization:
        """The scores of the classes that have weight, as functions of their cosines."""
        raise NotImplementedError

    def _sample(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        *,
        classes: np.ndarray | None = None,
        reset: bool = True,
        least: int = 1,
    ) -> tuple[Tensor, Tensor, Tensor, np.ndarray]:
        """A labelled sample where it is to be summed: X [N, p], indices into the classes [N],
        weights [N] float64 and the classes, found in y where they are not given.

        ``reset``: a first sample, which says the number of features and the device.
        """
        rows = features(self, X, reset=reset, least=least)
        require_temperatures(self.temperature, rows.dtype)
        labels = _of_one_kind("y", column_or_1d(as_numpy(y), warn=True))
        check_consistent_length(rows, labels)
        assert_all_finite(labels, input_name="y")
        check_classification_targets(labels)
        weights = _weights(sample_weight, len(rows))
        known = unique_labels(labels) if classes is None else classes
        strange = ~np.isin(labels, known)
        if strange.any():
            i = int(strange.argmax())
            rule = f"expected labels among the classes {known.tolist()}"
            raise ValueError(f"{rule}, got {labels[i : i + 1].tolist()[0]!r} at index {i}")
        device = self.device if reset else self.statistics_.device
        device = rows.device if device is None else require_device(device)
        index = torch.as_tensor(np.searchsorted(known, labels), dtype=torch.int64, device=device)
        return rows.to(device), index, torch.as_tensor(weights, device=device), known

    def _settle(
        self, statistics: ClassStatistics, classes: np.ndarray, dtype: torch.dtype = torch.float64
    ) -> Self:
        self.classes_, self.statistics_ = classes, statistics
        self.state_ = statistics.state(self.estimator)
        self.class_prior_ = (statistics.weight / statistics.weight.sum()).cpu().numpy()
        self._rule(dtype)  # refuses parameters that cannot be realized
        return self

    @property
    def _present(self) -> Tensor:
        return self.statistics_.weight > 0

    def _log_prior(self) -> Tensor:
        """log pi [C'] of the classes that have weight."""
        weight = self.statistics_.weight[self._present]
        return (weight / weight.sum()).log()

    def _present_state(self) -> ClassState:
        s, at = self.state_, self._present
        return ClassState(s.mu[at], s.kappa[at], s.count[at], validate_args=False)

    def _query(self, X: Any) -> tuple[Tensor, Tensor]:
        """The rows where they came, and where the classes are."""
        check_is_fitted(self, "statistics_")
        rows = features(self, X, reset=False)
        return rows, rows.to(self.statistics_.device)

    @torch.no_grad()
    def _scores(self, X: Any) -> Tensor:
        """The scores [N, C] of rows, where the rows are."""
        given, rows = self._query(X)
        rule, present = self._rule(rows.dtype), self._present
        scores = rows.new_full((len(rows), len(present)), -torch.inf)
        columns = present.nonzero().squeeze(-1)
        for part in row_chunks(rows, len(present)):
            scores[part, columns] = rule(directions(rows[part])[0].to(rows.dtype))
        return scores.to(given.device)

    def decision_function(self, X: Any) -> Array:
        """The scores [N, C] with the prior; for two classes the second minus the first, [N]."""
        scores = self._scores(X)
        return returned(scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores, X)

    def predict_log_proba(self, X: Any) -> Array:
        """The logarithms of `predict_proba` [N, C]."""
        return returned(self._scores(X).log_softmax(-1), X)

    def predict_proba(self, X: Any) -> Array:
        """The softmax of the scores with the prior, [N, C]."""
        return returned(self._scores(X).softmax(-1), X)

    def predict(self, X: Any) -> np.ndarray:
        """The classes of the largest scores [N]; the first of equals."""
        best = self._scores(X).argmax(-1).cpu().numpy()
        return self.classes_[best]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of the rows (of their weight) that `predict` gets right."""
        weights = None if sample_weight is None else as_numpy(sample_weight)
        return float(accuracy_score(as_numpy(y), self.predict(X), sample_weight=weights))


class _Incremental(DirectionClassifier):
    """Fitted in one pass over the rows, or in several."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to rows ``X`` [N, p], labels ``y`` [N] and weights [N] >= 0 (one each)."""
        rows, index, weights, classes = self._sample(X, y, sample_weight)
        empty = ClassStatistics(len(classes), rows.shape[1], device=rows.device)
        return self._settle(add_rows(empty, rows, index, weights), classes, rows.dtype)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Add rows to those seen before. All ``classes`` are named at the first call."""
        first = not hasattr(self, "statistics_")
        named = None
        if classes is not None:
            named = unique_labels(_of_one_kind("classes", np.asarray(as_numpy(classes))))
        known = named if first else self.classes_
        if known is None:
            raise ValueError("expected classes at the first call of partial_fit, got None")
        if named is not None and not np.array_equal(named, known):
            rule = f"expected the classes of the first call, {known.tolist()}"
            raise ValueError(f"{rule}, got {named.tolist()}")
        rows, index, weights, known = self._sample(X, y, sample_weight, classes=known, reset=first)
        if first:
            before = ClassStatistics(len(known), rows.shape[1], device=rows.device)
        else:
            before = self.statistics_.to(rows.device)
        return self._settle(add_rows(before, rows, index, weights), known, rows.dtype)


class VMFScores(DirectionClassifier):
    """Classifiers by the vMF scores of `resultant.classes.gain.class_scores`."""

    def _chosen(self) -> dict[str, Any]:
        """temperature, realization, beta and prior."""
        raise NotImplementedError

    def _rule(self, dtype: torch.dtype) -> Realization:
        chosen = self._chosen()
        prior = finite_number("prior", chosen["prior"])
        require_temperatures(chosen["temperature"], dtype)
        return realize(
            self._present_state(),
            Rule(
                chosen["temperature"],
                chosen["realization"],
                chosen["beta"],
                offset=prior * self._log_prior() if prior else None,
            ),
            dtype=dtype,
            validate_args=True,
        )

    @torch.no_grad()
    def log_marginal(self, X: Any) -> Array:
        r"""The log density [N] of directions under the fitted mixture,
        :math:`\log\sum_c\pi_c f(z;\mu_c,\kappa_c)` with the vMF density f of eq:main-exact.

        Low where a query is like no class: a score of what is out of distribution. It depends on
        the fit alone, not on temperature, realization, beta or prior. Computed in float64.
        """
        given, rows = self._query(X)
        state = self._present_state()
        floor = self._log_prior() - log_normalizer(state.dim, state.kappa, validate_args=False)
        density = rows.new_empty(len(rows))
        for part in row_chunks(rows, state.num_classes):
            rho = directions(rows[part])[0] @ state.mu.T
            density[part] = torch.addcmul(floor, state.kappa, rho).logsumexp(-1).to(rows.dtype)
        return returned(density.to(given.device), X)


class VMFClassifier(VMFScores, _Incremental):
    r"""Classes as vMF laws on the sphere, scored by the exact score of ProCo with a chosen gain.

    The score of class c is that of `resultant.classes.gain.class_scores`, plus
    :math:`\gamma\log\pi_c` with the share :math:`\pi_c` of the class in the sample.

    - ``temperature``: tau of the score, at least 7.6e-6 for rows in float32, 1.4e-14 in float64;
    - ``realization``: ``native``, ``temperature``, ``preserve``, ``angular`` or ``cosine``;
    - ``beta``: 0 equalizes the gains, 1 keeps them (eq:target-gain);
    - ``estimator`` of kappa: ``mle``, ``proco`` or ``banerjee``;
    - ``prior``: the coefficient gamma (sec:prior-dependent-frozen), 0 for a uniform prior;
    - ``device``: where sums and scores are computed; that of X (the CPU for NumPy) if None.

    Only ``estimator`` and ``device`` bear on the fit: the others may be set after it.
    """

    def __init__(
        self,
        temperature: float = 0.1,
        realization: str = "angular",
        beta: float = 0.0,
        estimator: str = "mle",
        prior: float = 0.0,
        device: torch.device | str | None = None,
    ) -> None:
        self.temperature = temperature
        self.realization = realization
        self.beta = beta
        self.estimator = estimator
        self.prior = prior
        self.device = device

    def _chosen(self) -> dict[str, Any]:
        names = ("temperature", "realization", "beta", "prior")
        return {name: getattr(self, name) for name in names}


class CosinePrototypeClassifier(_Incremental):
    r"""The nearest class direction: scores :math:`\rho_c/\tau+\gamma\log\pi_c`.

    ``temperature`` scales the probabilities alone where ``prior`` is zero. With
    :math:`1/\tau=\bar g` this is the ``cosine`` realization of `VMFClassifier`.
    """

    def __init__(
        self,
        temperature: float = 0.1,
        prior: float = 0.0,
        device: torch.device | str | None = None,
    ) -> None:
        self.temperature = temperature
        self.prior = prior
        self.device = device

    def _rule(self, dtype: torch.dtype) -> Realization:
        prior = finite_number("prior", self.prior)
        temperature = finite_number("temperature", self.temperature)
        require_comparable("temperature", temperature, dtype)
        state = self._present_state().to(dtype=dtype)
        slope = torch.full_like(state.kappa[0], 1 / temperature)
        shift = (prior * self._log_prior()).to(dtype) if prior else None
        return Realization(state.mu, state.kappa, None, slope, shift)


def features(estimator: BaseEstimator, X: Any, *, reset: bool, least: int = 1) -> Tensor:
    """X [N, p] as a tensor of float32 or float64, finite, with ``least`` rows or more.

    ``reset``: of a fit, with p >= 2. Otherwise p is that of the fit.
    """
    narrowest = 2 if reset else 1
    if not isinstance(X, Tensor):
        X = validate_data(
            estimator,
            X,
            reset=reset,
            dtype=[np.float64, np.float32],
            order="C",
            ensure_min_samples=least,
            ensure_min_features=narrowest,
        )
        return torch.from_numpy(X if X.flags.writeable else X.copy())
    if X.dim() != 2 or len(X) < least or X.shape[1] < narrowest:
        rule = f"expected X [N, p] with N >= {least} and p >= {narrowest}"
        raise ValueError(f"{rule}, got shape {tuple(X.shape)}")
    if X.dtype == torch.bool or X.is_complex():
        raise ValueError(f"expected X of real numbers, got {X.dtype}")
    given: Any = X
    validate_data(estimator, given, reset=reset, skip_check_array=True)  # the number of features
    if X.dtype not in (torch.float32, torch.float64):
        X = X.to(torch.float32 if X.is_floating_point() else torch.float64)
    finite = X.isfinite().all(-1)
    if not finite.all():
        raise ValueError(
            f"expected X finite, got NaN or infinity in row {int(finite.int().argmin())}"
        )
    return X.detach()


def add_rows(statistics: ClassStatistics, X: Tensor, y: Tensor, w: Tensor) -> ClassStatistics:
    """Add rows [N, p] of any length with labels [N] and weights [N]; returns the statistics."""
    for part in row_chunks(X, 1):
        (x, length), own, weights = directions(X[part]), y[part], w[part]
        some = length > 0
        statistics.update(x[some], own[some], weights[some], validate_args=False)
        none = own[~some]
        statistics.count.index_add_(0, none, torch.ones_like(none))
        statistics.weight.index_add_(0, none, weights[~some])
    return statistics


def row_chunks(X: Tensor, num_classes: int) -> Iterator[slice]:
    """Rows of X [N, p] in chunks whose float64 features and scores fit `MATRIX_BYTES` each."""
    return chunks.row_slices(len(X), 8 * max(X.shape[1], num_classes), chunks.MATRIX_BYTES)


def as_numpy(a: Any) -> Any:
    """A tensor as an array; anything else as it is."""
    return a.detach().cpu().numpy() if isinstance(a, Tensor) else a


def returned(a: Tensor, X: Any) -> Array:
    """A tensor where X is one, an array otherwise."""
    return a if isinstance(X, Tensor) else a.cpu().numpy()


def _weights(sample_weight: Any, length: int) -> np.ndarray:
    """Weights [N] >= 0 in float64; one each if None, and all alike if a number."""
    weights = np.asarray(1.0 if sample_weight is None else as_numpy(sample_weight), np.float64)
    if weights.ndim == 0:
        weights = np.full(length, weights)
    if weights.shape != (length,):
        raise ValueError(f"expected sample_weight [{length}], got shape {weights.shape}")
    bad = ~((weights >= 0) & np.isfinite(weights))
    if bad.any():
        i = int(bad.argmax())
        raise ValueError(f"expected sample_weight >= 0 and finite, got {weights[i]:g} at index {i}")
    if not weights.any():
        raise ValueError("expected a sample_weight above zero, got all of them zero")
    return weights


def require_temperatures(given: Any, dtype: torch.dtype) -> None:
    """Raise unless a ``temperature``, or each of several, is one for scores in ``dtype``."""
    several = isinstance(given, list | tuple) or getattr(given, "ndim", 0) > 0
    for tau in given if several else (given,):
        number = tau if isinstance(tau, Tensor) else finite_number("temperature", tau)
        require_comparable("temperature", number, dtype)


def _of_one_kind(name: str, labels: np.ndarray) -> np.ndarray:
    """Labels that can be sorted: raises where there are strings and others."""
    strings = [isinstance(a, str) for a in labels] if labels.dtype.kind == "O" else []
    if any(strings) and not all(strings):
        i = strings.index(False)
        rule = f"expected {name} to be all strings, or all integers"
        raise ValueError(f"{rule}, got {labels[i]!r} at index {i}")
    return labels


def finite_number(name: str, value: Any) -> float:
    """A parameter that is a finite number."""
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise ValueError(f"expected {name} to be a finite number, got {value!r}")
    return float(value)
