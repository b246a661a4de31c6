"""Choice of metric, refinement, rule and number of components by cross-validation."""

import copy
import os
import warnings
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch
from scipy.stats import rankdata
from sklearn.model_selection import check_cv
from sklearn.utils.validation import check_is_fitted

from resultant._core.text import counted
from resultant._core.threads import few_threads
from resultant._core.validation import finite_number, integer
from resultant.classes.metric import require_shrinkage
from resultant.classes.rule import REALIZATIONS
from resultant.classifiers.base import WITHIN
from resultant.classifiers.conformal import Conformal
from resultant.classifiers.files import NAMES
from resultant.classifiers.folds import Split
from resultant.classifiers.inputs import (
    AUTO,
    Sample,
    as_numpy,
    is_auto,
    known_groups,
    labelled,
    positive_or_auto,
    seconds_or_none,
    warn_of_units,
)
from resultant.classifiers.refine import PRECISIONS
from resultant.classifiers.search import AXES, SCORINGS, Search, mean_and_error
from resultant.classifiers.validation import SHRINKAGES, LeaveOneOut, Validation
from resultant.classifiers.vmf import VMFClassifier

LOO = "loo"

# What a fit learns of labels and columns.
FITTED_TO = ("classes_", "n_features_in_", NAMES)
# What is fitted by the classifier of the best parameters.
OF_BEST = ("statistics_", "state_", "class_prior_", "metric_", "components_", "refine_")
OF_BEST += ("refined_", "lift_")


class VMFClassifierCV(VMFClassifier):
    r"""`VMFClassifier` whose metric and refinement, or rule, are chosen by cross-validation.

    Classes are refined, unless values of the rule of sums are given. Parameters list values; one
    value is fixed. The search goes along one parameter at a time from the best point so far, as
    does `resultant analyze`. Training rows of a network promise more
    accuracy, and choose sharper probabilities, than new rows get. A row whose class is in no
    training row is an error in accuracy, and left out of neg_log_loss.

    Args:
        realization, beta, temperature: Values of the parameters of `VMFClassifier`.
        prior: Strengths of the class prior, or ``"auto"``: 0, 0.5 and 1; if ``balanced``, 0 and for
            refined classes -0.5 and less.
        estimator, device: As in `VMFClassifier`.
        cv: Number of stratified folds, ``"loo"`` (each row against the classes without this row),
            or a splitter or splits of scikit-learn. About 262,144 / C rows are scored, 1,024 or
            more; one split leaves them out if a numbered fold has more.
        scoring: ``neg_log_loss`` or ``accuracy``.
        balanced: Give every class the same weight in the score.
        extend: Add a value outside the edge while the best is at the edge: half or twice a
            temperature, 0.5 less or more of beta and prior.
        scale: ``"auto"`` fits the scale of the scores to the rows left out; 1.0 leaves the scores.
        whiten: Metrics, None and ``"within"``.
        shrinkage: Shrinkages of the metric ``within``, or ``"auto"`` for 0.1 to 0.5 and beyond.
        components: Numbers per class, or ``"auto"``: 1, and 4 and more.
        center: Subtract the mean of the class means in the metric.
        refine: Precisions of refined classes, and None for those of sums; or ``"auto"``: 3 to 0.03
            and beyond, but None if realization, beta, temperature, estimator or components are
            given, which say how classes of sums are scored, and for ``"loo"``.
        time_limit: Seconds after which no other point is evaluated, with a warning, and the best of
            those so far is chosen; at least one is. Points come in a fixed order, so that a limit
            decides how many, and another fit begins with the first. None evaluates all, with the
            same result on every machine.
        lift: Concentrations of random features (around the centre of all rows, also of those
            left out) that are tried with ``refine``, and None; or
            ``"auto"``: None, and 0.5 and 1 for up to 4,096 rows of up to 128 dimensions.

    Attributes:
        best_params_: Chosen parameters of a `VMFClassifier`, with ``best_index_`` and
            ``best_score_``: of the points that tie with that of the best score (accuracy within
            half a point and log-loss within 0.01, or both within one standard error) the best one
            of refined classes, else the simplest.
        best_estimator_: The `VMFClassifier` with these parameters, fitted to all rows.
        scale_: Factor of the scores, fitted on the rows left out at the chosen parameters.
        cv_results_: ``params``, ``param_*``, ``scale``, ``mean_test_*``, ``std_test_*``,
            ``rank_test_*`` and ``split*_test_*`` of all points; ``*_test_score`` is ``scoring``.
        comparisons_: For each parameter, and for ``all``, the best point against the best with the
            first value there, the ``reference``: ``gain`` in the score (optimistic, on the rows
            that chose), its ``standard_error`` and 95 % ``interval``.
        unscored_: Number of rows left out of neg_log_loss.

    Raises:
        ValueError: In `fit`, for parameters out of range, and for values that cannot be realized.

    Example:
        >>> X = [[1.0, 0.1], [2.0, 0.0], [1.0, -0.3], [0.1, 1.0], [0.0, 3.0], [0.5, 1.0]]
        >>> chosen = VMFClassifierCV(temperature=(0.1, 1.0), cv="loo").fit(X, [0, 0, 0, 1, 1, 1])
        >>> chosen.predict([[3.0, 0.5]])
        array([0])
    """

    best_estimator_: VMFClassifier

    def __init__(
        self,
        realization: Sequence[str] | str = REALIZATIONS,
        beta: Sequence[float] | float = AXES["beta"],
        temperature: Sequence[float] | float = AXES["temperature"],
        prior: Sequence[float] | float | str = AUTO,
        estimator: str = "mle",
        cv: Any = 5,
        scoring: str = "neg_log_loss",
        balanced: bool = False,
        device: torch.device | str | None = None,
        extend: bool = True,
        scale: float | str = AUTO,
        whiten: Sequence[str | None] | str | None = (None, WITHIN),
        shrinkage: Sequence[float] | float | str = AUTO,
        components: Sequence[int] | int | str = 1,
        center: bool = True,
        refine: Sequence[float | None] | float | str | None = AUTO,
        lift: Sequence[float | None] | float | str | None = AUTO,
        time_limit: float | None = None,
    ) -> None:
        rule: Any = temperature, realization, beta, estimator, prior, device, scale
        fit: Any = components, whiten, shrinkage, center, refine, lift
        super().__init__(*rule, *fit)
        self.cv = cv
        self.scoring = scoring
        self.balanced = balanced
        self.extend = extend
        self.time_limit = time_limit

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Choose the parameters by cross-validation and fit the classes.

        Args:
            X, y: Rows [N, p] of any length, and labels [N].
            sample_weight: Weights [N] >= 0, which count in fits and scores.
            groups: Groups [N], such as patients or photographs; rows of a group share a fold.

        Returns:
            This classifier.
        """
        fitted, axes, scaled = copy.copy(self), self._lists(), is_auto(self.scale)
        if self.scoring not in SCORINGS:
            raise ValueError(f"expected scoring to be one of {SCORINGS}, got {self.scoring!r}")
        sample, fitted.classes_ = labelled(fitted, X, y, sample_weight, least=2)
        seconds = seconds_or_none(self.time_limit)
        with few_threads(len(sample.y) * fitted.n_features_in_):
            validation = self._validation(sample, groups)
            result = Search(validation, axes, self.scoring, scaled, self.extend, seconds)
            if result.stopped:
                text = f"the search was stopped after {self.time_limit:g} s"
                text += f" and {counted(len(result.candidates), 'point', 'points')}"
                warnings.warn(
                    f"{text}; a larger time_limit evaluates more", UserWarning, stacklevel=2
                )
            fitted._set_results(result, axes)
            scale: Any = result.chosen.scale if scaled else self.scale
            settings: Any = {
                **fitted.best_params_,
                "estimator": self.estimator,
                "device": self.device,
            }
            best = VMFClassifier(**settings, scale=scale)
            if best.whiten is not None:
                best.center = self.center
            # The names of the columns too, of data frames.
            vars(best).update({k: v for k, v in vars(fitted).items() if k in FITTED_TO})
            best._fit(sample)
            if best._sums is None:
                best._rank(result.scores(result.chosen.point), result.validation.y)
        if best.metric_ is None:
            warn_of_units(sample.rows)
        vars(fitted).update({name: getattr(best, name) for name in OF_BEST})
        fitted.best_estimator_, fitted.scale_ = best, scale
        fitted._fitted_with = fitted._of_fit()
        return self._adopt(fitted)

    def _require_one_pass(self, method: str) -> None:
        rule = f"{method} is that of best_estimator_"
        raise AttributeError(f"{rule}, which continues with its choice")

    def calibrate(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        method: str = "scale",
        without: Sequence[tuple[Any, VMFClassifier]] | None = None,
    ) -> Self:
        """Calibrate on rows that were not fitted; see `VMFClassifier.calibrate`."""
        check_is_fitted(self, "best_estimator_")
        best = self.best_estimator_.calibrate(X, y, sample_weight, method, without)
        self.scale_, self.calibration_ = best._scale(), best.calibration_
        return self

    def save(self, path: str | os.PathLike[str], *, rows: bool = False) -> None:
        """Write ``best_estimator_`` as a safetensors file, which `VMFClassifier.load` reads; with
        ``rows`` also the kept rows, as `VMFClassifier.save`."""
        check_is_fitted(self, "best_estimator_")
        self.best_estimator_.save(path, rows=rows)

    @classmethod
    def load(cls, path: Any, *, device: Any = None) -> Any:
        """Read the `VMFClassifier` that `save` wrote; arguments of `VMFClassifier.load`."""
        return VMFClassifier.load(path, device=device)

    def _conformal(self) -> Conformal:
        return self.best_estimator_._conformal()

    def _rule(self) -> tuple[str, Any, float, float]:
        return self.best_estimator_._rule()

    @property
    def _refines(self) -> bool:
        """True if no rule of sums is asked for, and there are folds: ``auto`` refines."""
        rule = self.realization, self.beta, self.temperature, self.components, self.estimator
        wanted = REALIZATIONS, AXES["beta"], AXES["temperature"], 1, "mle"
        return all(map(np.array_equal, rule, wanted)) and not isinstance(self.cv, str)

    def _lists(self) -> dict[str, list[Any]]:
        """Return the values of each axis of the search."""
        lists: dict[str, list[Any]] = {}
        for name in ("realization", "beta", "temperature", "prior", "whiten", "shrinkage"):
            values: Any = getattr(self, name)
            single = values is None or isinstance(values, str) or np.ndim(values) == 0
            lists[name] = [values] if single else list(np.asarray(values, object).tolist())
            if not lists[name]:
                raise ValueError(f"expected one value of {name} or more, got none")
        if is_auto(self.prior):
            lists["prior"] = list(AXES["prior"])
        for name in ("beta", "temperature", "prior"):
            lists[name] = [finite_number(name, value) for value in lists[name]]
        if min(lists["temperature"]) <= 0:
            raise ValueError(f"expected temperature > 0, got {min(lists['temperature']):g}")
        for name, known in (("realization", REALIZATIONS), ("whiten", (None, WITHIN))):
            if unknown := [value for value in lists[name] if value not in known]:
                raise ValueError(f"expected {name} among {known}, got {unknown[0]!r}")
        metrics, shrinkages = lists.pop("whiten"), lists["shrinkage"]
        shrinkages = SHRINKAGES if is_auto(shrinkages[0]) else map(require_shrinkage, shrinkages)
        lists["shrinkage"] = [None] * (None in metrics) + list(shrinkages) * (WITHIN in metrics)
        if not is_auto(self.components):
            lists["components"] = [
                integer("components", count, 1) for count in np.atleast_1d(self.components).tolist()
            ]
        else:
            lists["components"] = [1] if isinstance(self.cv, str) else [1, 4]
        if is_auto(self.refine):
            lists["refine"] = list(PRECISIONS) if self._refines else [None]
        else:
            values = self.refine if isinstance(self.refine, Sequence) else [self.refine]
            lists["refine"] = [positive_or_auto("refine", value) for value in values]
        if lists["refine"] == [None]:
            lists["lift"] = [None]
        elif not is_auto(self.lift):
            values = self.lift if isinstance(self.lift, Sequence) else [self.lift]
            lists["lift"] = [positive_or_auto("lift", value) for value in values]
        if is_auto(self.prior) and self.balanced:
            # The search knows which priors such queries may have.
            del lists["prior"]
        return lists

    def _validation(self, sample: Sample, groups: Any) -> Validation:
        """Return the validation rows of the splits of ``cv``."""
        settings: dict[str, Any] = {"estimator": self.estimator, "balanced": self.balanced}
        settings["center"] = bool(self.center)
        if isinstance(self.cv, str) and self.cv == LOO:
            if groups is not None:
                raise ValueError('expected folds for groups, got cv="loo"; use a number of folds')
            return LeaveOneOut(sample, **settings)
        names = None if groups is None else known_groups(as_numpy(groups))
        if names is not None and names.shape != sample.y.shape:
            raise ValueError(f"expected groups [{len(sample.y)}], got shape {names.shape}")
        if isinstance(self.cv, int | np.integer) and not isinstance(self.cv, bool):
            return Validation.of_folds(sample, integer("cv", self.cv, 2), names, **settings)
        labels, indices = sample.y.cpu().numpy(), np.arange(len(sample.y))
        splitter: Any = check_cv(self.cv, labels, classifier=True)  # type: ignore[arg-type]
        # Sides may be indices, lists or masks. Folds of a user keep what belongs together.
        splits: list[Split] = [
            tuple(torch.from_numpy(indices[at]).to(sample.y.device) for at in pair)  # type: ignore[misc]
            for pair in splitter.split(indices, labels, names)
        ]
        return Validation(sample, splits, **settings, merge=False)

    def _set_results(self, result: Search, axes: dict[str, list[Any]]) -> None:
        """Set the results of all points, the chosen one, and the comparisons."""
        points, validation = result.candidates, result.validation
        params = [candidate.parameters() for candidate in points]
        scales = np.array([candidate.scale for candidate in points])
        table: dict[str, Any] = {"params": params, "scale": scales}
        for name in points[0].point._fields:
            table[f"param_{name}"] = np.array([getattr(c.point, name) for c in points])
        scores = {
            "neg_log_loss": (-torch.stack([c.losses for c in points]), result.weights),
            "accuracy": (torch.stack([c.hits for c in points]), validation.weights),
        }
        for scoring, (values, w) in scores.items():
            of_points: dict[str, np.ndarray] = {}
            for k in validation.split.unique().tolist():
                own = w * (validation.split == k)
                if float(own.sum()) > 0:
                    of_points[f"split{k}"] = (values @ own / own.sum()).cpu().numpy()
            spread = np.std(np.stack(list(of_points.values())), axis=0)
            mean = (values @ w).cpu().numpy().round(12)
            of_points |= {"mean": mean, "std": spread, "rank": rankdata(-mean, method="min")}
            for name in [scoring, "score"] if scoring == self.scoring else [scoring]:
                table |= {f"{key}_test_{name}": column for key, column in of_points.items()}
        self.cv_results_ = table
        self.best_index_ = points.index(result.chosen)
        self.best_params_ = params[self.best_index_]
        self.best_score_ = float(table["mean_test_score"][self.best_index_])
        self.unscored_ = int(((validation.weights > 0) & (result.weights == 0)).sum())
        values, w = scores[self.scoring]
        means, best = (values @ w).tolist(), values[points.index(result.best)]
        first = {name: values[0] for name, values in axes.items()}
        self.comparisons_ = {}
        for name in (*first, "all"):
            kept = first if name == "all" else {name: first[name]}
            pool = [i for i, c in enumerate(points) if c.point._asdict().items() >= kept.items()]
            if not pool:
                continue
            reference = max(pool, key=lambda i: means[i])
            gain, error = mean_and_error(best - values[reference], w)
            self.comparisons_[name] = {
                "gain": gain,
                "standard_error": error,
                "interval": (gain - 1.96 * error, gain + 1.96 * error),
                "reference": params[reference],
            }
