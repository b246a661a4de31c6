"""Queries of fitted classes: rows to scores, scores to labels and probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from resultant._core.arrays import directions
from resultant._core.validation import finite_number
from resultant.classes.metric import Metric
from resultant.classes.realization import Realization
from resultant.classes.statistics import ClassState, ClassStatistics
from resultant.classifiers.inputs import (
    Array,
    as_numpy,
    features,
    is_auto,
    returned,
    returned_labels,
)
from resultant.classifiers.packing import packed, unpacked
from resultant.classifiers.rows import Rows, row_chunks


class ScoredClassifier(ClassifierMixin, BaseEstimator):
    """Classifier by the scores of fitted classes."""

    scale: Any
    classes_: np.ndarray  # labels of the classes [C]
    class_prior_: np.ndarray  # share of each class in the weight [C]
    statistics_: ClassStatistics  # sums of the classes, in the metric
    state_: ClassState  # fitted classes, all C of them, in the metric
    n_features_in_: int  # number of features p
    metric_: Metric | None = None  # metric of the rows, or None
    scale_: float | None = None  # fitted factor of the scores, or None

    def __getstate__(self) -> dict[str, Any]:
        return {name: packed(value) for name, value in super().__getstate__().items()}  # type: ignore[union-attr]

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({name: unpacked(value) for name, value in state.items()})

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _realization(self, dtype: torch.dtype) -> Realization:
        """Return the scores of the classes that have weight, as functions of their cosines."""
        raise NotImplementedError

    def _scale(self) -> float:
        """Return the factor of the scores."""
        if is_auto(self.scale):
            return self.scale_ or 1.0
        scale = finite_number("scale", self.scale)
        if scale <= 0:
            raise ValueError(f"expected scale > 0, got {scale:g}")
        return self.scale_ or scale

    def _units(self, rows: Tensor, metric: Metric | None, dtype: torch.dtype) -> Tensor:
        x = directions(rows)[0].to(dtype)
        return x if metric is None else metric.transform(x)

    @torch.no_grad()
    def directions(self, X: Any) -> Array:
        """Return unit vectors [N, p] of rows in the metric, which ``state_`` scores: arguments of
        `class_scores`, `certificate` and other functions of fitted classes."""
        queries, rows = self._query(X)
        metric = self._metric_in(rows.dtype)
        parts = [self._units(rows[at], metric, rows.dtype) for at in row_chunks(rows, 1)]
        return returned(torch.cat(parts).to(queries.device), X)

    def _metric_in(self, dtype: torch.dtype) -> Metric | None:
        return None if self.metric_ is None else self.metric_.to(dtype=dtype)

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

    def _query(self, X: Any) -> tuple[Rows, Rows]:
        """Return the rows on their own device, and on the device of the classes."""
        check_is_fitted(self, "statistics_")
        rows = features(self, X, reset=False)
        return rows, rows.to(self.statistics_.device)

    @torch.no_grad()
    def _scores(self, X: Any) -> Tensor:
        """Return the scores [N, C] on the device of the rows."""
        queries, rows = self._query(X)
        realization, present = self._realization(rows.dtype), self._present
        metric = self._metric_in(rows.dtype)
        scores = torch.full(
            (len(rows), len(present)), -torch.inf, dtype=rows.dtype, device=rows.device
        )
        columns = present.nonzero().squeeze(-1)
        for part in row_chunks(rows, len(realization.mu)):
            of_rows = realization(self._units(rows[part], metric, rows.dtype))
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

    def predict(self, X: Any) -> Array:
        """Return the labels of the largest scores [N]; among equal scores the first class."""
        return returned_labels(self._scores(X).argmax(-1), self.classes_, X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy of `predict`, weighted by ``sample_weight`` [N]."""
        weights = None if sample_weight is None else as_numpy(sample_weight)
        return float(accuracy_score(as_numpy(y), as_numpy(self.predict(X)), sample_weight=weights))
