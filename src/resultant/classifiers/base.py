r"""Shared base of the classifiers: rows to directions, sums to classes, scores to labels.

A row x is reduced to its direction z = x/|x|. Classes are fitted from sums (`ClassStatistics`):
fitting is one pass over the rows, `partial_fit` continues the pass, and sample weights are weights
in the sums. A query is scored by its cosines with the class directions alone.

- A row of zeros has no direction, and no rows are no sample: both are refused.
- One feature leaves two directions, which is no sphere here: p >= 2.
- A class without weight (named in ``classes`` of `partial_fit`, or of weight zero) has score -inf
  and probability zero, and takes no part in the mean gain.
- Rows are NumPy arrays, anything that scikit-learn takes for an array, or torch tensors. Scores,
  probabilities and log marginals of a tensor are tensors on its device; labels are always NumPy.
  float32 and float64 are kept; tensors of half precision are computed in float32.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path
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

from resultant._core.arrays import directions
from resultant._core.device import require_device
from resultant._core.validation import finite_number
from resultant.classes.realization import Realization
from resultant.classes.statistics import ClassState, ClassStatistics
from resultant.classifiers.left_out import add_rows
from resultant.classifiers.rows import row_chunks
from resultant.classifiers.saving import load_classifier, save_classifier
from resultant.score.limits import require_comparable

Array = np.ndarray | Tensor

# The temperature that is chosen by cross-validation.
AUTO = "auto"


class DirectionClassifier(ClassifierMixin, BaseEstimator):
    """Classifier of directions by class scores.

    Attributes:
        classes_: Labels of the classes [C].
        statistics_: Sums of the classes.
        state_: Fitted classes, all C of them.
        class_prior_: Share of each class in the weight [C].
        n_features_in_: Number of features p.
    """

    temperature: Any
    scale: float = 1.0
    estimator: str = "mle"
    device: torch.device | str | None
    classes_: np.ndarray
    class_prior_: np.ndarray
    statistics_: ClassStatistics
    state_: ClassState
    n_features_in_: int

    def _realization(self, dtype: torch.dtype) -> Realization:
        """Return the scores of the classes that have weight, as functions of their cosines."""
        raise NotImplementedError

    def _scale(self) -> float:
        """Return the factor of the scores."""
        scale = finite_number("scale", self.scale)
        if scale <= 0:
            raise ValueError(f"expected scale > 0, got {scale:g}")
        return scale

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
        """Check a labelled sample and move it to the device of the sums.

        Args:
            X: Rows [N, p], at least ``least`` of them.
            y: Labels [N].
            sample_weight: Weights [N], a number, or None.
            classes: Labels of the classes, by default those in y.
            reset: True for a first sample, which fixes the number of features and the device.

        Returns:
            Rows [N, p], class indices [N], weights [N] in float64, and labels of the classes.
        """
        rows = features(self, X, reset=reset, least=least)
        require_temperatures(self.temperature, rows.dtype)
        labels = _sortable("y", column_or_1d(as_numpy(y), warn=True))
        check_consistent_length(rows, labels)
        assert_all_finite(labels, input_name="y")
        check_classification_targets(labels)
        weights = sample_weights(sample_weight, len(rows))
        if classes is None:
            classes = np.asarray(unique_labels(labels))
        unknown = ~np.isin(labels, classes)
        if unknown.any():
            i = int(unknown.argmax())
            rule = f"expected labels among the classes {classes.tolist()}"
            raise ValueError(f"{rule}, got {labels[i : i + 1].tolist()[0]!r} at index {i}")
        device = self.device if reset else self.statistics_.device
        device = rows.device if device is None else require_device(device)
        index = torch.as_tensor(np.searchsorted(classes, labels), dtype=torch.int64, device=device)
        return rows.to(device), index, torch.as_tensor(weights, device=device), classes

    def _finish(
        self, statistics: ClassStatistics, classes: np.ndarray, dtype: torch.dtype = torch.float64
    ) -> Self:
        """Set the fitted attributes; raise if the parameters cannot be realized."""
        self.classes_, self.statistics_ = classes, statistics
        self.state_ = statistics.state(self.estimator)
        self.class_prior_ = (statistics.weight / statistics.weight.sum()).cpu().numpy()
        self._realization(dtype)
        self._scale()
        return self

    @property
    def _present(self) -> Tensor:
        return self.statistics_.weight > 0

    def _log_prior(self) -> Tensor:
        """Return log pi of the classes that have weight."""
        weight = self.statistics_.weight[self._present]
        return (weight / weight.sum()).log()

    def _present_state(self) -> ClassState:
        s, at = self.state_, self._present
        return ClassState(s.mu[at], s.kappa[at], s.count[at], validate_args=False)

    def _query(self, X: Any) -> tuple[Tensor, Tensor]:
        """Return the rows on their own device, and on the device of the classes."""
        check_is_fitted(self, "statistics_")
        rows = features(self, X, reset=False)
        return rows, rows.to(self.statistics_.device)

    @torch.no_grad()
    def _scores(self, X: Any) -> Tensor:
        """Return the scores [N, C] on the device of the rows."""
        queries, rows = self._query(X)
        realization, present = self._realization(rows.dtype), self._present
        scores = rows.new_full((len(rows), len(present)), -torch.inf)
        columns = present.nonzero().squeeze(-1)
        for part in row_chunks(rows, len(realization.mu)):
            of_rows = realization(directions(rows[part])[0].to(rows.dtype))
            scores[part, columns] = self._of_classes(of_rows)
        if (scale := self._scale()) != 1:
            scores *= scale
        return scores.to(queries.device)

    def _of_classes(self, scores: Tensor) -> Tensor:
        """Return the scores of the classes that have weight from those of `_realization`."""
        return scores

    def decision_function(self, X: Any) -> Array:
        """Return the scores with prior and scale [N, C]; for two classes their difference [N]."""
        scores = self._scores(X)
        return returned(scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores, X)

    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithms of `predict_proba` [N, C]."""
        return returned(self._scores(X).log_softmax(-1), X)

    def predict_proba(self, X: Any) -> Array:
        """Return the softmax of the scores with prior and scale [N, C]."""
        return returned(self._scores(X).softmax(-1), X)

    def predict(self, X: Any) -> np.ndarray:
        """Return the labels of the largest scores [N]; among equal scores the first class."""
        best = self._scores(X).argmax(-1).cpu().numpy()
        return self.classes_[best]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy of `predict`, weighted by ``sample_weight`` [N]."""
        weights = None if sample_weight is None else as_numpy(sample_weight)
        return float(accuracy_score(as_numpy(y), self.predict(X), sample_weight=weights))


class IncrementalClassifier(DirectionClassifier):
    """Classifier fitted in one pass over the rows, or in several."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the classes.

        Args:
            X: Rows [N, p] of any length.
            y: Labels [N].
            sample_weight: Weights [N] >= 0, one per row by default.

        Returns:
            This classifier.
        """
        rows, index, weights, classes = self._sample(X, y, sample_weight)
        statistics = ClassStatistics(len(classes), rows.shape[1], device=rows.device)
        add_rows(statistics, rows, index, weights)
        self._choose(rows, index, weights, statistics)
        return self._finish(statistics, classes, rows.dtype)

    def _choose(self, X: Tensor, y: Tensor, w: Tensor, statistics: ClassStatistics) -> None:
        """Choose parameters that are left to the data, and fit what sums do not hold."""

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Add rows to the rows of earlier calls; the first call names all ``classes``."""
        if self.temperature == AUTO:
            raise ValueError('expected a number as temperature in partial_fit, got "auto"')
        first = not hasattr(self, "statistics_")
        named = None
        if classes is not None:
            named = np.asarray(unique_labels(_sortable("classes", np.asarray(as_numpy(classes)))))
        expected = named if first else self.classes_
        if expected is None:
            raise ValueError("expected classes at the first call of partial_fit, got None")
        if named is not None and not np.array_equal(named, expected):
            rule = f"expected the classes of the first call, {expected.tolist()}"
            raise ValueError(f"{rule}, got {named.tolist()}")
        rows, index, weights, _ = self._sample(X, y, sample_weight, classes=expected, reset=first)
        if first:
            before = ClassStatistics(len(expected), rows.shape[1], device=rows.device)
        else:
            before = self.statistics_.to(rows.device)
        return self._finish(add_rows(before, rows, index, weights), expected, rows.dtype)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted classifier as a safetensors file, atomically.

        Args:
            path: File to write.

        Raises:
            ValueError: If labels or parameters are no strings or numbers.
        """
        check_is_fitted(self, "statistics_")
        save_classifier(self, Path(path))

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, device: torch.device | str | None = None
    ) -> Self:
        """Read a classifier that `save` wrote.

        Args:
            path: File to read.
            device: Device of the sums, by default the CPU.

        Returns:
            The classifier, which continues as the one that was saved.

        Raises:
            ValueError: If the file is not that of such a classifier.
        """
        return load_classifier(cls, Path(path), device)


def features(estimator: BaseEstimator, X: Any, *, reset: bool, least: int = 1) -> Tensor:
    """Return X [N, p] as a finite tensor of float32 or float64 with ``least`` rows or more.

    With ``reset``, in a fit, p >= 2; otherwise p is that of the fit.
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
        with warnings.catch_warnings():
            # Rows are never written to. A copy of a mapped file would fill the memory.
            warnings.filterwarnings("ignore", "The given NumPy array is not writable")
            rows = torch.from_numpy(X)
        _require_directions(rows)
        return rows
    if X.dim() != 2 or len(X) < least or X.shape[1] < narrowest:
        rule = f"expected X [N, p] with N >= {least} and p >= {narrowest}"
        raise ValueError(f"{rule}, got shape {tuple(X.shape)}")
    if X.dtype == torch.bool or X.is_complex():
        raise ValueError(f"expected X of real numbers, got {X.dtype}")
    # Checks the number of features alone.
    validate_data(estimator, X, reset=reset, skip_check_array=True)  # type: ignore[arg-type]
    if X.dtype not in (torch.float32, torch.float64):
        X = X.to(torch.float32 if X.is_floating_point() else torch.float64)
    _require_directions(X)
    return X.detach()


def _require_directions(X: Tensor) -> None:
    """Raise unless all rows are finite and not zero."""
    for part in row_chunks(X, 1):
        least, most = X[part].aminmax(dim=1)
        largest = torch.maximum(-least, most)
        bad = ~((largest > 0) & largest.isfinite())
        if bad.any():
            i = int(bad.int().argmax())
            got = "a row of zeros" if float(largest[i]) == 0 else "NaN or infinity"
            rule = "expected X finite, without rows of zeros, which have no direction"
            raise ValueError(f"{rule}, got {got} in row {part.start + i}")


def as_numpy(a: Any) -> Any:
    """Return a tensor as an array, and anything else unchanged."""
    return a.detach().cpu().numpy() if isinstance(a, Tensor) else a


def returned(a: Tensor, X: Any) -> Array:
    """Return a tensor for a tensor X, an array otherwise."""
    return a if isinstance(X, Tensor) else a.cpu().numpy()


def require_temperatures(temperature: Any, dtype: torch.dtype) -> None:
    """Raise unless scores in ``dtype`` can be compared at one temperature, or at several."""
    if isinstance(temperature, str) and temperature == AUTO:
        return
    several = isinstance(temperature, list | tuple) or getattr(temperature, "ndim", 0) > 0
    for tau in temperature if several else (temperature,):
        number = tau if isinstance(tau, Tensor) else finite_number("temperature", tau)
        require_comparable("temperature", number, dtype)


def sample_weights(sample_weight: Any, length: int) -> np.ndarray:
    """Return weights [N] >= 0 in float64 from weights, one number, or None."""
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


def _sortable(name: str, labels: np.ndarray) -> np.ndarray:
    """Return the labels; raise if strings and other objects are mixed."""
    strings = [isinstance(a, str) for a in labels] if labels.dtype.kind == "O" else []
    if any(strings) and not all(strings):
        i = strings.index(False)
        rule = f"expected {name} to be all strings, or all integers"
        raise ValueError(f"{rule}, got {labels[i]!r} at index {i}")
    return labels
