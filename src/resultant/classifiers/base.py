"""Shared base of the classifiers: rows to directions, sums to classes."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from resultant._core.threads import few_threads
from resultant._core.validation import finite_number
from resultant.classes.metric import Metric, require_shrinkage
from resultant.classes.rule import Rule
from resultant.classes.statistics import ClassStatistics
from resultant.classifiers import inputs
from resultant.classifiers.calibration import fit_scale
from resultant.classifiers.conformal import SetClassifier
from resultant.classifiers.em import Components, fit_components, require_components
from resultant.classifiers.files import SavedEstimator
from resultant.classifiers.folds import stratified_splits
from resultant.classifiers.growing import Fitted, GrowingClassifier
from resultant.classifiers.inputs import AUTO, Sample, is_auto
from resultant.classifiers.left_out import ValidationFold, left_out_fold, left_out_gain
from resultant.classifiers.lift import LIFTS, Lift
from resultant.classifiers.refine import PRECISIONS, Batches, Refined, Refinement
from resultant.classifiers.scoring import ScoringClassifier
from resultant.classifiers.search import Search
from resultant.classifiers.sums import RowSums
from resultant.classifiers.validation import SHRINKAGES, Validation

# Rows times classes that fit the scale, and the least number of rows.
SCALE_CELLS = 1 << 16
SCALE_ROWS = 1024

WITHIN = "within"

# Parameters of a fit: another value counts in the next fit, and is refused until then.
OF_FIT = ("estimator", "components", "whiten", "shrinkage", "center", "refine", "lift")

# Scores [n, C] of rows by classes without them, and their classes [n].
Known = tuple[Tensor, Tensor]


class DirectionClassifier(ScoringClassifier, GrowingClassifier, SetClassifier, SavedEstimator):
    """Classifier by the scores of classes that are fitted in one pass over the rows, or several."""

    realization: Any = "cosine"
    beta: Any = 0.0
    estimator: str = "mle"
    components: Any = 1
    refine: Any = None
    lift: Any = None
    classes_: np.ndarray  # labels of the classes [C]
    n_features_in_: int
    statistics_: Any = Fitted()  # sums of the classes, in the metric
    state_: Any = Fitted()
    class_prior_: Any = Fitted()
    metric_: Any = Fitted(None)
    shrinkage_: Any = None
    components_: Components | None = None  # several components per class, or None
    refine_: float | None = None  # precision of the refinement, or None
    refined_: Refined | None = None  # refined classes, or None
    lift_: Lift | None = None  # features in place of the rows, or None
    scale_: Any = Fitted(None)  # fitted factor of the scores, or None
    calibration_: dict[str, Any] | None = None  # see `fit_calibration`
    _fitted_with: dict[str, str] | None = None  # parameters of the fit

    def __init__(
        self,
        temperature: float | str = 0.1,
        prior: float = 0.0,
        device: torch.device | str | None = None,
        scale: float | str = AUTO,
        whiten: str | Metric | None = None,
        shrinkage: Any = AUTO,
        center: bool | None = None,
    ) -> None:
        self.temperature = temperature
        self.prior = prior
        self.device = device
        self.scale = scale
        self.whiten = whiten
        self.shrinkage = shrinkage
        self.center = center

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the classes to rows X [N, p] of any length, labels y [N] and weights [N] >= 0."""
        fitted = self._twin()
        sample, fitted.classes_ = inputs.labelled(fitted, X, y, sample_weight)
        with few_threads(len(sample.y) * fitted.n_features_in_):
            fitted._fit(sample)
        if fitted.metric_ is None:
            inputs.warn_of_units(sample.rows)
        return self._adopt(fitted)

    def _require_refinable(self, realization: Any, beta: Any, components: Any = 1) -> None:
        """Raise unless the rule is the one that a refinement begins with."""
        rule = {"realization": realization, "beta": beta, "components": components}
        for name, value in {"realization": "angular", "beta": 0.0, "components": 1}.items():
            if rule[name] != value:
                text = f"expected {name}={value!r} with refine={self.refine!r}"
                raise ValueError(f"{text}, got {name}={rule[name]!r}; use refine=None")

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

    def _begin(self, sample: Sample) -> None:
        """Sum the first rows of a stream; one row may not be realized where many can."""
        self._fitted_with = self._of_fit()
        self._search(sample)
        self.refined_ = self.lift_ = self.components_ = self.calibration_ = self.conformal_ = None
        self._added, sums = False, self._plain_sums(sample)
        self.statistics_, self.scale_ = sums, None
        self._with_sums(RowSums.of(sample, self.classes_, sums), "first rows")

    def _fit(self, sample: Sample) -> None:
        """Choose what is left to the data, and fit metric, classes and scale."""
        self._given_scale()
        self._fitted_with = self._of_fit()
        self.refined_ = self.lift_ = None
        searched, chosen, known = self._search(sample)
        given = sample
        if chosen is not None:
            self.lift_ = Lift.fit(sample, chosen)
            sample = self.lift_.lifted(sample)
        self._added, self._sums, self.components_ = False, None, None
        self.sampled_ = False
        sums = self._plain_sums(sample)
        plain = self._fit_metric(sums)
        number = require_components(self.components)
        if number == 1 and self.refine_ is None and self.lift_ is None:
            self._sums = RowSums.of(sample, self.classes_, sums)
        if number != 1:
            some = sample.merged
            rows = some.rows
            if self.metric_ is not None or not isinstance(rows, Tensor):
                rows = self._all_units(rows)
            self.components_ = fit_components(rows, some.y, some.w, number, self.estimator)
        statistics = sums if plain is None else sample.sums(metric=self.metric_)
        self._finish(statistics, sample.rows.dtype)
        if self.refine_ is not None:
            gain = left_out_gain(sample.merged, self.statistics_, self.metric_, plain)
            batches = Batches(sample.merged, self.metric_)
            theta = Refinement(batches, self.statistics_, gain).fit(self.refine_)
            self.refined_ = Refined.of(theta)
        self.scale_ = self.calibration_ = self.conformal_ = None
        if is_auto(self.scale):
            if searched is None:
                searched, known = self._left_out_scale(given, plain)
            self.scale_ = searched
        if self._sums is None and known is not None:
            self._rank(*known)

    def _fit_metric(self, sums: ClassStatistics) -> ClassStatistics | None:
        """Fit the metric to sums; return them if there is a metric that follows them."""
        self.metric_ = None
        if isinstance(self.whiten, Metric):
            self.metric_ = self._fixed_metric(sums.dim, sums.device)
        elif self._whitens or self._centers:
            shrinkage = self.shrinkage_ if self._whitens else 1.0
            self.metric_ = Metric.fit(sums, shrinkage, center=self._centers, whiten=self._whitens)
            return sums
        return None

    def _search(self, sample: Sample) -> tuple[float | None, float | None, Known | None]:
        """Choose what is left to the data; return the scale, if it is chosen, the lift, and the
        validation rows."""
        shrinkages: Any = (1.0 if self._centers else None,)
        if self._whitens:
            auto = is_auto(self.shrinkage)
            shrinkages = SHRINKAGES if auto else (require_shrinkage(self.shrinkage),)
        refine: Any = inputs.positive_or_auto("refine", self.refine)
        precisions = PRECISIONS if is_auto(refine) else (refine,)
        self.shrinkage_, self.refine_ = shrinkages[0], precisions[0]
        if refine is not None:
            self._require_refinable(self.realization, self.beta, self.components)
        elif is_auto(self.lift):
            raise ValueError('expected refine with lift="auto", got refine=None')
        given: Any = inputs.positive_or_auto("lift", self.lift)
        given, lifts = (None, (None, *LIFTS)) if is_auto(given) else (given, (None,))
        single = len(shrinkages) == len(precisions) == len(lifts) == 1
        if single and not is_auto(self.temperature):
            return None, given, None
        rule = Rule(0.1, self.realization, finite_number("beta", self.beta))
        axes: dict[str, Sequence[Any]] = {
            "realization": (rule.realization,),
            "beta": (rule.beta,),
            "prior": (finite_number("prior", self.prior),),
            "components": (require_components(self.components),),
            "shrinkage": shrinkages,
            "refine": precisions,
            "lift": lifts,
        }
        if not is_auto(self.temperature):
            axes["temperature"] = (float(self.temperature),)
        search = Search(self._validation_of(sample).lifted(given), axes)
        chosen = search.chosen
        self.temperature_, self.shrinkage_ = chosen.point.temperature, chosen.point.shrinkage
        self.refine_ = chosen.point.refine
        known = search.scores(chosen.point), search.validation.y
        return chosen.scale, chosen.point.lift or given, known

    def _validation_of(self, sample: Sample) -> Validation:
        """Return the validation rows of the folds of a sample."""
        settings: dict[str, Any] = {"center": self._centers, "whiten": self._whitens}
        splits = stratified_splits(sample.merged.y)
        return Validation(sample.merged, splits, estimator=self.estimator, **settings)

    def _finish(self, statistics: ClassStatistics, dtype: torch.dtype) -> None:
        """Set the fitted attributes; raise if the parameters cannot be realized."""
        self.statistics_ = statistics
        self.state_ = statistics.state(self.estimator)
        self.class_prior_ = (statistics.weight / statistics.weight.sum()).cpu().numpy()
        self._class_scores(dtype)

    def _left_out_scale(
        self, sample: Sample | None, plain: ClassStatistics | None
    ) -> tuple[float, Known | None]:
        """Fit the scale to some of the fitted rows, each against classes without it: to the kept
        rows, or for a fit that has no sums to validation rows of the ``sample``; return it and
        these rows."""
        if getattr(self.temperature, "ndim", 0):
            return 1.0, None
        if self._sums is None:
            # These have no sums: the rows of each fold are scored by a fit to the others.
            assert sample is not None
            part = self._validation_of(sample).lifted(None if self.lift_ is None else self.lift_.k)
            if not all(map(len, part.train)):
                return 1.0, None
            shrinkage = None if self.metric_ is None else self.metric_.shrinkage
            folds = part.folds(shrinkage, require_components(self.components), self.refine_)
            w = torch.cat([part.weights[part.split == k] for k in range(len(folds))])
            w = w * float(part.sample.w[part.index].sum())
        else:
            weight = self.statistics_.weight
            number = max(SCALE_ROWS, SCALE_CELLS // len(weight))
            some, w = self._sums.kept.sample(number, weight)
            folds = [self._left_out(some, plain)]
        known = ~torch.cat([fold.absent for fold in folds]) & (w > 0)
        if not known.any():
            return 1.0, None
        scores = torch.cat([self._fold_scores(fold) for fold in folds])[known]
        y, w = torch.cat([fold.y for fold in folds])[known], w[known]
        number = float(w.sum())
        if self.refined_ is not None:
            # The fit knows the shares of the classes; queries have those that ``prior`` says.
            share = w.new_zeros(len(self.classes_)).index_add_(0, y, w) / number
            w = w * share[y] ** (finite_number("prior", self.prior) - 1)
        return fit_scale(scores, y, w, number=number), (scores, y)

    def _left_out(self, some: Sample, plain: ClassStatistics | None) -> ValidationFold:
        """Score some of the fitted rows, each against the classes without it."""
        # A row of weight two counts as two rows, one of which is left out.
        one = replace(some, w=some.w.clamp_max(1.0))
        settings = self.statistics_, self.estimator, self.metric_, plain
        return left_out_fold(one, *settings)

    def _fold_scores(self, fold: ValidationFold) -> Tensor:
        """Return the scores [n, C] of rows that were left out."""
        realization, tau, beta, prior = self._rule()
        scores = fold.scores(realization, float(tau), float(beta), prior)
        if scores.isnan().any():
            # A class without a row cannot reach a target that the class with it reaches.
            scores = fold.scores("native", float(tau), 1.0, prior)
        return scores

    def _of_fit(self) -> dict[str, str]:
        """Return the parameters of the fit as text."""
        parts = {name: repr(getattr(self, name)) for name in OF_FIT if name != "whiten"}
        if not isinstance(m := self.whiten, Metric):
            return {"whiten": repr(m), **parts}
        ends = f"{float(m.mean[0]):.9g}, {float(m.variance[-1]):.9g}"
        return {"whiten": f"Metric({m.dim} from {ends}, {m.shrinkage:g})", **parts}

    def _require_fitted_with(self) -> None:
        """Raise if a parameter of the fit has been changed since."""
        for name, now in self._of_fit().items():
            if (then := (self._fitted_with or {}).get(name, now)) != now:
                rule = f"expected {name}={then} as in the fit, got {name}={now}"
                raise ValueError(f"{rule}; call fit again, or set it back")
