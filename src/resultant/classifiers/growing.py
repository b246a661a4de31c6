"""Classifiers whose rows are added, forgotten and merged."""

import warnings
from collections.abc import Callable
from types import MethodType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import unique_labels
from sklearn.utils.validation import check_is_fitted

from resultant.classes.metric import Metric
from resultant.classes.statistics import ClassStatistics
from resultant.classifiers import inputs
from resultant.classifiers.em import require_components
from resultant.classifiers.files import NAMES
from resultant.classifiers.inputs import Sample, is_auto
from resultant.classifiers.sums import RowSums, same_metric, union


class OnePass:
    """A method that is absent unless the parameters allow it, with the reason in the error."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self.method = method

    def __get__(self, classifier: Any, owner: Any = None) -> Callable[..., Any]:
        if classifier is None:
            return self.method
        classifier._require_one_pass(self.method.__name__)
        return MethodType(self.method, classifier)


class Fitted:
    """A fitted attribute, which is computed again when rows were added since."""

    def __init__(self, *default: Any) -> None:
        self.default = default

    def __set_name__(self, owner: Any, name: str) -> None:
        self.name = name

    def __get__(self, classifier: Any, owner: Any = None) -> Any:
        if classifier is None:
            return self
        values = vars(classifier)
        if values.get("_added"):
            classifier._follow_sums()
        if self.name not in values and not self.default:
            raise AttributeError(f"{type(classifier).__name__} has no {self.name} before fit")
        return values[self.name] if self.name in values else self.default[0]

    def __set__(self, classifier: Any, value: Any) -> None:
        vars(classifier)[self.name] = value


class GrowingClassifier(BaseEstimator):
    """Classifier that follows the sums of its rows."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    _sums: RowSums | None = None  # of the fitted rows; None if the fit has none
    _added: bool = False  # rows were added to the sums since the fit
    sampled_: bool = False  # the metric and the kept rows are those of a sample of the rows

    @property
    def kept_(self) -> np.ndarray:
        """Number of kept rows [C] of the classes, which equals that of all rows while every row is
        kept."""
        if self._sums is None:
            raise AttributeError(f"{type(self).__name__} keeps no rows of this fit")
        kept, C = self._sums.kept, len(self._sums.classes)
        number = kept.count.new_zeros(C).index_add_(0, kept.y, kept.count)
        return number.cpu().numpy()

    @OnePass
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Add rows to those of earlier calls, or of `fit`; nothing changes if the call raises.

        Batches of any size, in any order, give the classifier of one `fit` to all rows. New labels
        may come at any time, unlike in scikit-learn. Sums of unit vectors, and of their outer
        products for a metric, are exact. Some rows are kept, of each class those of the smallest
        hash, about 2 million numbers in all: the scale is fitted to these, and the effect of the
        metric on the lengths of rows is measured on them, which is exact while all rows of a class
        are kept. A call costs the same whatever the number of rows before; metric, classes and
        scale are computed when they are next used. A scale of `calibrate` is fitted anew.

        Args:
            X, y: Rows [N, p], and labels [N].
            classes: Labels that may come, which may include some without rows; other labels in y
                are then an error.
            sample_weight: Weights [N] >= 0, one per row by default.
        """
        fitted = self._twin()
        labels = inputs.class_labels("y", y)
        if classes is not None:
            labels = np.asarray(unique_labels(inputs.class_labels("classes", classes)))
        if not hasattr(self, "classes_"):
            settings: dict[str, Any] = {"classes": np.asarray(unique_labels(labels))}
            sample, fitted.classes_ = inputs.labelled(fitted, X, y, sample_weight, **settings)
            fitted._begin(sample)
            return self._adopt(fitted)
        sums = self._known_sums()
        settings = {"classes": union(sums.classes, labels), "reset": False}
        sample, names = inputs.labelled(fitted, X, y, sample_weight, **settings)
        new = RowSums.of(sample, names, self._plain_sums(sample))
        return self._adopt(fitted._with_sums(sums.merge(new), "added rows"))

    @OnePass
    def forget(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Subtract rows that were fitted or added; nothing changes if the call raises.

        Sums, metric and classes are those of a fit to the other rows, up to rounding; a class of
        which every row is kept is summed again. The scale is fitted to the kept rows that remain. A
        label whose last row is forgotten has probability zero, as one without rows.

        Args:
            X, y: Rows [N, p] with the values, and labels [N], that they were added with.
            sample_weight: Their weights.

        Raises:
            ValueError: For rows that were never added, where this can be known: rows that would be
                kept and are not, more rows than a class has, and a sum longer than its number.
                Other rows that were never added are subtracted all the same.
        """
        fitted, sums = self._twin(), self._known_sums()
        settings: dict[str, Any] = {"classes": sums.classes, "reset": False}
        sample, _ = inputs.labelled(fitted, X, y, sample_weight, **settings)
        rest = sums.without(sample, self._plain_sums)
        return self._adopt(fitted._with_sums(rest, "remaining rows"))

    @OnePass
    def drop(self, label: Any) -> Self:
        """Remove a class with all of its rows, as a fit to the rows of the other classes. With
        ``whiten="within"`` all rows of the class must be kept: their outer products are in the sum
        of those of all classes; `forget` takes the rows of any class."""
        rest = self._known_sums().drop(label, self._plain_sums)
        return self._adopt(self._twin()._with_sums(rest, "remaining classes"))

    @OnePass
    def merge(self, other: Self) -> Self:
        """Add the rows of another classifier, which may have other classes: sums, metric, classes
        and scale are those of a fit to the rows of both. Parameters are those of this one;
        ``whiten`` and the columns must be the same. Rows that are in both count twice."""
        if not isinstance(other, GrowingClassifier):
            raise ValueError(f"expected a fitted classifier, got {type(other).__name__}")
        check_is_fitted(other, "classes_")
        mine, theirs = self._known_sums(), other._known_sums()
        names, others = (getattr(one, NAMES, None) for one in (self, other))
        if names is not None and others is not None and not np.array_equal(names, others):
            raise ValueError(f"expected columns {names.tolist()}, got {others.tolist()}")
        same = mine.statistics.dim == theirs.statistics.dim
        same &= (mine.statistics.scatter is None) == (theirs.statistics.scatter is None)
        fixed = [one.whiten if isinstance(one.whiten, Metric) else None for one in (self, other)]
        if not same or not same_metric(*fixed):
            got = f"{theirs.statistics!r} and whiten={other.whiten!r}"
            rule = f"expected sums of the kind of {mine.statistics!r} and whiten={self.whiten!r}"
            raise ValueError(f"{rule}, got {got}")
        return self._adopt(self._twin()._with_sums(mine.merge(theirs), "merged rows"))

    def _known_sums(self) -> RowSums:
        """Return the sums of the fitted rows; raise if rows cannot be added to them."""
        self._require_fitted_with()
        sums = self._sums
        if self.sampled_:
            got = "one whose metric and kept rows are those of a sample"
            raise ValueError(f"expected a classifier with sums of its rows, got {got}; fit it")
        if sums is None or (self._whitens and sums.statistics.scatter is None):
            rule = "expected a classifier with sums of its rows"
            raise ValueError(
                f"{rule}, got one of other parameters or of an earlier version; fit it"
            )
        if not bool(sums.kept.limit.any()):
            if self._whitens or self._centers:
                rule = "expected a classifier with kept rows, which a metric of more rows needs"
                raise ValueError(
                    f"{rule}, got one from a file without; write it by save(rows=True)"
                )
            if is_auto(self.scale):
                text = "the file of this classifier has no kept rows: the scale stays as it is"
                warnings.warn(f"{text}; write it by save(rows=True)", UserWarning, stacklevel=3)
        return sums

    def _with_sums(self, sums: RowSums, reason: str) -> Self:
        """Set the sums of other rows, which everything fitted follows when it is used."""
        self._check_rule()
        self._drop_calibration(reason)
        if self.conformal_ is not None and self.conformal_.held_out:
            text = f"the {reason} have other scores: p-values are those of the kept rows"
            warnings.warn(f"{text}; call calibrate again", UserWarning, stacklevel=3)
        self.conformal_ = None
        self._sums, self._added, self.classes_ = sums, True, sums.classes
        return self

    def _follow_sums(self) -> None:
        """Fit metric, classes and scale to the sums."""
        sums: Any = self._sums
        self._added = False
        try:
            plain = self._fit_metric(sums.statistics)
            statistics = sums.in_metric(None if plain is None else self.metric_)
            self._finish(statistics, sums.kept.rows.dtype)
            if not is_auto(self.scale):
                self.scale_ = None
            elif len(sums.kept.y):
                self.scale_, _ = self._left_out_scale(None, plain)
        except BaseException:
            self._added = True
            raise

    def _twin(self) -> Self:
        """Return a copy that shares what is fitted."""
        twin = object.__new__(type(self))
        vars(twin).update(vars(self))
        return twin

    def _require_one_pass(self, method: str) -> None:
        """Raise an AttributeError that explains why there is no such method."""
        if require_components(self.components) != 1:
            got = f"components={self.components!r}"
            raise AttributeError(f"{method} expects components=1, got {got}; use fit")
        for name in ("refine", "lift"):
            if (value := getattr(self, name)) is not None:
                rule = f"{method} expects {name}=None, got {name}={value!r}"
                raise AttributeError(f"{rule}; use fit with all rows")
        for name, wanted in (("temperature", True), ("shrinkage", self._whitens)):
            if wanted and is_auto(getattr(self, name)):
                raise AttributeError(f'{method} expects a number as {name}, got "auto"; use fit')

    def _adopt(self, fitted: Self) -> Self:
        """Take over what a copy has fitted: a refused fit changes nothing."""
        self.__dict__.update(fitted.__dict__)
        return self

    def _plain_sums(self, sample: Sample) -> ClassStatistics:
        """Return the sums of rows that metric and classes follow from, in the fixed metric if any;
        metrics from several batches need the outer products."""
        if isinstance(self.whiten, Metric):
            return sample.sums(metric=self._fixed_metric(sample.dim, sample.rows.device))
        return sample.scattered if self._whitens else sample.summed

    def _fixed_metric(self, dim: int, device: torch.device) -> Metric:
        """Return the metric that the user gave."""
        metric = self.whiten.to(device, torch.float64)  # type: ignore[union-attr]
        if metric.dim != dim:
            raise ValueError(f"expected a Metric of dim {dim}, got dim {metric.dim}")
        return metric if is_auto(self.shrinkage) else metric.with_shrinkage(self.shrinkage)
