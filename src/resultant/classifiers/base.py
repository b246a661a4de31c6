r"""Shared base of the classifiers: rows to directions, sums to classes, scores to labels.

A row x is reduced to its direction z = x/|x|, and on request moved to a `Metric`. Classes are
fitted from sums (`ClassStatistics`): fitting is one pass over the rows, two with a metric;
`partial_fit` continues the pass, and sample weights are weights in the sums. A query is scored by
its cosines with the class directions alone.

- A row of zeros has no direction: it has cosine 0 with every class, and in a fit it is a sample of
  length zero.
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
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import unique_labels
from sklearn.utils.validation import check_consistent_length, check_is_fitted
from torch import Tensor

from resultant._core.device import require_device
from resultant.classes.metric import Metric, require_shrinkage
from resultant.classes.statistics import ClassStatistics
from resultant.classifiers.calibration import fit_scale
from resultant.classifiers.inputs import (
    as_numpy,
    class_labels,
    features,
    is_auto,
    require_temperatures,
    sample_weights,
    sortable,
    warn_of_units,
)
from resultant.classifiers.leave_one_out import left_out_fold
from resultant.classifiers.rows import Sample
from resultant.classifiers.saving import load_classifier, save_classifier
from resultant.classifiers.scored import ScoredClassifier
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


def _can_continue(classifier: Any) -> bool:
    return classifier._require_one_pass()


class DirectionClassifier(ScoredClassifier):
    """Classifier that is fitted in one pass over the rows, or in several."""

    temperature: Any
    prior: Any
    whiten: Any
    shrinkage: Any
    center: Any
    device: torch.device | str | None
    estimator: str = "mle"
    components: Any = 1

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
            warn_of_units(sample.rows)
        return self._adopt(fitted)

    @available_if(_can_continue)
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
            named = np.asarray(unique_labels(sortable("classes", np.asarray(as_numpy(classes)))))
        expected = named if first else self.classes_
        if expected is None:
            raise ValueError("expected classes at the first call of partial_fit, got None")
        if named is not None and not np.array_equal(named, expected):
            rule = f"expected the classes of the first call, {expected.tolist()}"
            raise ValueError(f"{rule}, got {named.tolist()}")
        sample, fitted.classes_ = fitted._sample(X, y, sample_weight, classes=expected, reset=first)
        if first:
            fitted._fit(sample)
        else:
            fitted._scale()
            sums = sample.add_to(self.statistics_.to(sample.rows.device), metric=self.metric_)
            fitted._finish(sums, sample.rows.dtype)
            if is_auto(self.scale):
                new, share = fitted._left_out_scale(sample), len(sample.y) / SCALE_ROWS
                old = new if self.scale_ is None else self.scale_
                fitted.scale_ = math.exp(math.log(old) + min(1.0, share) * math.log(new / old))
            else:
                fitted.scale_ = None
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
        rows = features(self, X, reset=reset, least=least)
        require_temperatures(self.temperature, rows.dtype)
        labels = class_labels(y)
        check_consistent_length(rows, labels)
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
        w = torch.as_tensor(weights, device=device)
        return Sample(rows.to(device), index, w, len(classes)), classes

    # The metric

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
            settings: dict[str, Any] = {"center": self._centers, "whiten": self._whitens}
            self.metric_ = Metric.fit(sums, shrinkage, **settings)
            return sums.total / torch.where(sums.weight > 0, sums.weight, 1.0)[:, None]
        return None

    # The fit

    def _fit(self, sample: Sample) -> None:
        """Choose what is left to the data, and fit metric, classes and scale."""
        self._scale()
        searched = self._search(sample)
        means = self._fit_metric(sample)
        self._finish(sample.sums(metric=self.metric_), sample.rows.dtype, sample)
        self.scale_ = None
        if is_auto(self.scale):
            self.scale_ = searched or self._left_out_scale(sample, means)

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
        splits = stratified_splits(sample.y)
        validation = Validation(
            sample,
            [(train, rows) for train, rows in splits if len(rows)],
            estimator=self.estimator,
            center=self._centers,
            whiten=self._whitens,
        )
        chosen = search_rules(validation, {**axes, "shrinkage": metric}).chosen
        self.temperature_ = chosen.point.temperature
        if self._whitens:
            self.shrinkage_ = float(chosen.point.shrinkage or 0.0)
        return chosen.scale

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

    # Files

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
