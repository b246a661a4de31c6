r"""Shared base of the classifiers: rows to directions, sums to classes, scores to labels.

A row x is reduced to its direction z = x/|x|, and on request moved to a `Metric`. Classes are
fitted from sums (`ClassStatistics`): fitting is one pass over the rows, two with a metric;
`partial_fit` continues the pass, and sample weights are weights in the sums. A query is scored by
its cosines with the class directions alone.

- One feature leaves two directions, which is no sphere here: p >= 2.
- A class without weight (named in ``classes`` of `partial_fit`, or of weight zero) has score -inf
  and probability zero, and takes no part in the mean gain.
- Rows are NumPy arrays, SciPy's sparse matrices, anything that scikit-learn takes for an array, or
  torch tensors. Results for a tensor are tensors on its device, except labels that are strings.
  float32 and float64 are kept; tensors of half precision are computed in float32.
"""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import unique_labels
from sklearn.utils.validation import check_consistent_length, check_is_fitted
from torch import Tensor

from resultant._core.arrays import directions
from resultant._core.device import require_device
from resultant._core.validation import finite_number
from resultant.classes.metric import Metric, require_shrinkage
from resultant.classes.realization import Realization
from resultant.classes.statistics import ClassState, ClassStatistics
from resultant.classifiers import inputs
from resultant.classifiers.calibration import calibrated, fit_scale
from resultant.classifiers.files import SavedEstimator
from resultant.classifiers.inputs import Array, Rows, Sample, is_auto, returned, row_chunks
from resultant.classifiers.leave_one_out import left_out_fold
from resultant.classifiers.search import search_rules
from resultant.classifiers.validation import (
    SHRINKAGES,
    Validation,
    ValidationFold,
    draw_rows,
    stratified_splits,
)

# Rows times classes that fit the scale, and rows after which `partial_fit` forgets a scale.
SCALE_CELLS = 1 << 16
SCALE_ROWS = 1024

WITHIN = "within"


class DirectionClassifier(ClassifierMixin, SavedEstimator):
    """Classifier by the scores of classes that are fitted in one pass over the rows, or several."""

    temperature: Any
    prior: Any
    scale: Any
    whiten: Any
    shrinkage: Any
    center: Any
    device: torch.device | str | None
    estimator: str = "mle"
    components: Any = 1
    classes_: np.ndarray  # labels of the classes [C]
    class_prior_: np.ndarray  # share of each class in the weight [C]
    statistics_: ClassStatistics  # sums of the classes, in the metric
    state_: ClassState  # fitted classes, all C of them, in the metric
    n_features_in_: int  # number of features p
    metric_: Metric | None = None  # metric of the rows, or None
    scale_: float | None = None  # fitted factor of the scores, or None
    calibration_: dict[str, Any] | None = None  # see `fit_calibration`

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the classes.

        Args:
            X: Rows [N, p] of any length.
            y: Labels [N].
            sample_weight: Weights [N] >= 0, one per row by default.

        Returns:
            This classifier.
        """
        fitted = copy.copy(self)
        sample, fitted.classes_ = fitted._sample(X, y, sample_weight)
        fitted._fit(sample)
        if fitted.metric_ is None:
            inputs.warn_of_units(sample.rows)
        return self._adopt(fitted)

    @available_if(lambda classifier: classifier._require_one_pass())
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Add rows to the rows of earlier calls, or of `fit`.

        The metric is that of the first call: give enough rows, or a `Metric` as ``whiten``. The
        scale is fitted to the rows of the last calls, each without its own row.

        Args:
            X: Rows [N, p].
            y: Labels [N] among the classes.
            classes: All labels, in the first call.
            sample_weight: Weights [N] >= 0, one per row by default.

        Returns:
            This classifier, unchanged if the call raises.
        """
        fitted, first = copy.copy(self), not hasattr(self, "statistics_")
        named = None
        if classes is not None:
            labels = inputs.sortable("classes", np.asarray(inputs.as_numpy(classes)))
            named = np.asarray(unique_labels(labels))
        expected = named if first else self.classes_
        if expected is None:
            raise ValueError("expected classes at the first call of partial_fit, got None")
        if named is not None and not np.array_equal(named, expected):
            rule = f"expected the classes of the first call, {expected.tolist()}"
            raise ValueError(f"{rule}, got {named.tolist()}")
        sample, fitted.classes_ = fitted._sample(X, y, sample_weight, classes=expected, reset=first)
        if first:
            fitted._fit(sample)
            return self._adopt(fitted)
        fitted._scale()
        sums = sample.add_to(self.statistics_.to(sample.rows.device), metric=self.metric_)
        fitted._finish(sums, sample.rows.dtype)
        fitted.scale_ = None
        if is_auto(self.scale):
            new, share = fitted._left_out_scale(sample), len(sample.y) / SCALE_ROWS
            old = new if self.scale_ is None else self.scale_
            fitted.scale_ = math.exp(math.log(old) + min(1.0, share) * math.log(new / old))
        return self._adopt(fitted)

    def _require_one_pass(self) -> bool:
        """Raise an AttributeError that explains why there is no `partial_fit`."""
        for name, wanted in (("temperature", True), ("shrinkage", self._whitens)):
            if wanted and is_auto(getattr(self, name)):
                raise AttributeError(f'partial_fit expects a number as {name}, got "auto"')
        return True

    def _adopt(self, fitted: Self) -> Self:
        """Take over what a copy has fitted: a refused fit changes nothing."""
        self.__dict__.update(fitted.__dict__)
        return self

    def _sample(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        *,
        classes: np.ndarray | None = None,
        reset: bool = True,
        least: int = 1,
    ) -> tuple[Sample, np.ndarray]:
        """Check a labelled sample of ``least`` rows or more and move it to the device of the sums.

        With ``reset``, the sample fixes the number of features and the device. Return the sample,
        and the labels of the classes, by default those in y.
        """
        rows = inputs.features(self, X, reset=reset, least=least)
        inputs.require_temperatures(self.temperature, rows.dtype)
        labels = inputs.class_labels(y)
        check_consistent_length(rows, labels)
        weights = inputs.sample_weights(sample_weight, len(rows))
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
        w = torch.as_tensor(weights, device=device)
        return Sample(rows.to(device), index, w, len(classes)), classes

    # The fit

    @property
    def _whitens(self) -> bool:
        if self.whiten is None or isinstance(self.whiten, Metric):
            return False
        if not (isinstance(self.whiten, str) and self.whiten == WITHIN):
            rule = f"expected whiten to be None, {WITHIN!r} or a Metric"
            raise ValueError(f"{rule}, got {self.whiten!r}")
        return True

    @property
    def _centers(self) -> bool:
        return self._whitens if self.center is None else bool(self.center)

    def _fit(self, sample: Sample) -> None:
        """Choose what is left to the data, and fit metric, classes and scale."""
        self._scale()
        searched = self._search(sample)
        means = self._fit_metric(sample)
        self._finish(sample.sums(metric=self.metric_), sample.rows.dtype, sample)
        self.scale_ = self.calibration_ = None
        if is_auto(self.scale):
            self.scale_ = searched or self._left_out_scale(sample, means)

    def _fit_metric(self, sample: Sample) -> Tensor | None:
        """Fit the metric; return the class means outside a metric that is fitted to the rows."""
        self.metric_ = None
        if isinstance(self.whiten, Metric):
            metric = self.whiten.to(sample.rows.device, torch.float64)
            if metric.dim != sample.dim:
                raise ValueError(f"expected a Metric of dim {sample.dim}, got dim {metric.dim}")
            if not is_auto(self.shrinkage):
                metric = metric.with_shrinkage(self.shrinkage)
            self.metric_ = metric
        elif self._whitens or self._centers:
            sums = sample.scattered if self._whitens else sample.sums()
            shrinkage = getattr(self, "shrinkage_", 1.0) if self._whitens else 1.0
            self.metric_ = Metric.fit(sums, shrinkage, center=self._centers, whiten=self._whitens)
            return sums.total / torch.where(sums.weight > 0, sums.weight, 1.0)[:, None]
        return None

    def _search(self, sample: Sample) -> float | None:
        """Choose temperature and shrinkage, if they are left to the data; return the scale."""
        if self._whitens and not is_auto(self.shrinkage):
            self.shrinkage_ = require_shrinkage(self.shrinkage)
        if not (is_auto(self.temperature) or (self._whitens and is_auto(self.shrinkage))):
            return None
        axes: dict[str, tuple[Any, ...]] = self._axes()
        if not is_auto(self.temperature):
            axes["temperature"] = (float(self.temperature),)
        metric = (None,)
        if self._whitens:
            metric = SHRINKAGES if is_auto(self.shrinkage) else (self.shrinkage_,)
        elif self._centers:
            metric = (1.0,)
        sample = sample.merged
        validation = self._validation_of(sample, stratified_splits(sample.y))
        chosen = search_rules(validation, {**axes, "shrinkage": metric}).chosen
        self.temperature_ = chosen.point.temperature
        if self._whitens:
            self.shrinkage_ = float(chosen.point.shrinkage or 0.0)
        return chosen.scale

    def _validation_of(self, sample: Sample, splits: list[tuple[Tensor, Tensor]]) -> Validation:
        about: dict[str, Any] = {"center": self._centers, "whiten": self._whitens}
        return Validation(sample, splits, estimator=self.estimator, **about)

    def _axes(self) -> dict[str, tuple[Any, ...]]:
        """Return the axes of a search of this rule, with a free temperature."""
        raise NotImplementedError

    def _finish(
        self, statistics: ClassStatistics, dtype: torch.dtype, sample: Sample | None = None
    ) -> None:
        """Set the fitted attributes; raise if the parameters cannot be realized."""
        self.statistics_ = statistics
        self.state_ = statistics.state(self.estimator)
        self.class_prior_ = (statistics.weight / statistics.weight.sum()).cpu().numpy()
        if sample is not None:
            self._fit_components(sample)
        self._realization(dtype)

    def _fit_components(self, sample: Sample) -> None:
        """Fit what sums do not hold."""

    def _left_out_scale(self, sample: Sample, means: Tensor | None = None) -> float:
        """Fit the scale to a sample of the fitted rows, each against classes without it."""
        index, kept = draw_rows(sample.y, sample.num_classes, SCALE_CELLS)
        some = sample.at(index)
        # A row of weight two counts as two rows, one of which is left out.
        one = replace(some, w=some.w.clamp_max(1.0))
        fold = left_out_fold(one, self.statistics_, self.estimator, self.metric_, means)
        number = torch.bincount(sample.y, minlength=sample.num_classes)
        return self._fold_scale([fold], some.w * (number / kept)[some.y])

    def _fold_scale(self, folds: list[ValidationFold], w: Tensor) -> float:
        """Fit the scale to rows [M] of weights w that were left out; 1 without such rows."""
        scores = torch.cat([self._fold_scores(fold) for fold in folds])
        known = ~torch.cat([fold.absent for fold in folds]) & (w > 0)
        labels = torch.cat([fold.y for fold in folds])
        if not known.any():
            return 1.0
        return fit_scale(scores[known], labels[known], w[known], number=float(w[known].sum()))

    def _fold_scores(self, fold: ValidationFold) -> Tensor:
        """Return the scores [n, C] of rows that were left out."""
        raise NotImplementedError

    # Queries

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

    def _units(self, rows: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """Return rows [n, p] as unit vectors in the metric."""
        x = directions(rows)[0].to(dtype or rows.dtype)
        return x if self.metric_ is None else self.metric_.to(dtype=x.dtype).transform(x)

    def _all_units(self, rows: Rows) -> Tensor:
        return torch.cat([self._units(rows[at]) for at in row_chunks(rows, 1)])

    @torch.no_grad()
    def directions(self, X: Any) -> Array:
        """Return unit vectors [N, p] of rows in the metric, which ``state_`` scores: arguments of
        `class_scores`, `certificate` and other functions of fitted classes."""
        queries, rows = self._query(X)
        return returned(self._all_units(rows).to(queries.device), X)

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
        rows = inputs.features(self, X, reset=False)
        return rows, rows.to(self.statistics_.device)

    @torch.no_grad()
    def _scores(self, X: Any) -> Tensor:
        """Return the scores [N, C] on the device of the rows."""
        queries, rows = self._query(X)
        realization, present = self._realization(rows.dtype), self._present
        scores = torch.full((len(rows), len(present)), -torch.inf).to(rows.device, rows.dtype)
        columns = present.nonzero().squeeze(-1)
        for part in row_chunks(rows, len(realization.mu)):
            of_rows = realization(self._units(rows[part]))
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

    def _logits(self, X: Any) -> Tensor:
        scores = self._scores(X)
        return scores if self.calibration_ is None else calibrated(scores, self.calibration_)

    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithms of `predict_proba` [N, C]."""
        return returned(self._logits(X).log_softmax(-1), X)

    def predict_proba(self, X: Any) -> Array:
        """Return the softmax of the scores with prior and scale [N, C]; after a calibration per
        class, its probabilities."""
        return returned(self._logits(X).softmax(-1), X)

    def predict(self, X: Any) -> Array:
        """Return the labels of the largest probabilities [N]; among equal ones the first class."""
        return inputs.returned_labels(self._logits(X).argmax(-1), self.classes_, X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy of `predict`, weighted by ``sample_weight`` [N]."""
        y, predicted, weights = map(inputs.as_numpy, (y, self.predict(X), sample_weight))
        return float(accuracy_score(y, predicted, sample_weight=weights))
