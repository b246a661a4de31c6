"""Choice of realization, beta, temperature and prior by cross-validation on sums."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from sklearn.model_selection import check_cv

from resultant._core.validation import finite_number
from resultant.classes.rule import EDITED, REALIZATIONS
from resultant.classes.statistics import ClassStatistics
from resultant.classifiers.calibrators import METHODS, Calibrators, fit_calibrators
from resultant.classifiers.choice import Choice, Point, beyond, plainest
from resultant.classifiers.fold_scores import Fold, FoldScores
from resultant.classifiers.left_out import (
    Part,
    add_rows,
    fold_parts,
    left_out_parts,
    measure,
    point_scales,
    point_scores,
)
from resultant.classifiers.vmf import VMFScores, require_calibration

SCORINGS = ("neg_log_loss", "accuracy")


class Grid(NamedTuple):
    """Temperatures, realizations with their beta, and priors of a grid."""

    taus: list[float]
    rules: list[tuple[str, float]]
    priors: list[float]


class VMFClassifierCV(VMFScores):
    r"""`VMFClassifier` with realization, beta, temperature and prior chosen by cross-validation.

    The first four parameters list the values of the grid. The first value of each is the reference
    of a comparison, by default the native score at tau = 0.1 without prior. ``native`` and
    ``cosine`` ignore beta and are counted once.

    The training rows of a network are not unseen queries: folds of them promise more accuracy, and
    choose sharper probabilities, than new rows get.

    A row whose class is in no training row is an error in accuracy. It has no likelihood under any
    parameters, and is left out of neg_log_loss. A point that a fold cannot realize has score NaN
    and the last rank.

    Args:
        realization: Realizations of the grid.
        beta: Strengths of the target gains.
        temperature: Temperatures.
        prior: Strengths of the class prior.
        estimator: Estimator of kappa, ``mle``, ``proco``, ``banerjee``, ``corrected`` or ``loo``;
            see `concentration`.
        cv: ``"loo"`` (each row against the classes without this row, exactly), a number of
            stratified folds, or a splitter or splits of scikit-learn.
        scoring: ``neg_log_loss`` or ``accuracy``.
        balanced: Give every class the same weight in the score, for queries that are not
            distributed as the sample.
        extend: Add a value outside the edge of several temperatures, betas or priors while the
            best is at the edge: half or twice a temperature, 0.5 less or more of the others.
        device: Device of sums and scores, by default that of X (the CPU for NumPy).
        calibration: Calibration of `predict_proba` on the rows left out. ``scale``: one factor of
            the scores. Each point of the grid is scored with a factor of its own, as otherwise
            points are compared by the size of their scores. ``sigmoid`` and ``isotonic``: in
            addition scikit-learn's calibration of each class at the chosen point; predictions
            are still those of the largest score. None: no factor, for scores as they are.

    Attributes:
        best_params_: Chosen parameters, with ``best_index_`` and ``best_score_``: the plainest
            point that ties with that of the best score, as `resultant analyze` chooses (accuracy
            within half a point and log-loss within 0.01, or both within two standard errors).
        scale_: Factor of the scores, fitted on the rows left out at the chosen parameters, with
            which `predict_proba` is calibrated.
        cv_results_: For each point ``params``, ``param_*``, its fitted ``scale``, and
            ``mean_test_*``, ``std_test_*``, ``rank_test_*`` and ``split*_test_*`` of both
            scorings; ``*_test_score`` is the chosen scoring.
        matters_: Comparisons of the point of the best score with the best point that has one
            parameter at its reference (``realization``, ``beta``, ``temperature``, ``prior``), and
            with the point that has all parameters there (``all``). Each has the ``gain`` in the
            score with its ``standard_error`` over folds (over rows for ``loo``) and the 95 %
            ``interval`` of a bootstrap of paired rows, both for the given choice;
            ``held_out_gain``, in which each fold is judged by the choice of the others (in at most
            ten groups), which is free of the optimism of the choice; and ``reference``, the
            parameters compared with.
        unscored_: Number of rows left out of neg_log_loss.

    Raises:
        ValueError: In `fit`, for parameters out of range, and for a grid that cannot be realized.

    Example:
        >>> from resultant import VMFClassifierCV
        >>> X = [[1.0, 0.1], [2.0, 0.0], [1.0, -0.3], [0.1, 1.0], [0.0, 3.0], [0.5, 1.0]]
        >>> chosen = VMFClassifierCV(temperature=(0.1, 1.0), cv="loo").fit(X, [0, 0, 0, 1, 1, 1])
        >>> chosen.predict([[3.0, 0.5]])
        array([0])
    """

    def __init__(
        self,
        realization: Sequence[str] | str = REALIZATIONS,
        beta: Sequence[float] | float = (0.0, 0.5),
        temperature: Sequence[float] | float = (0.1, 0.02, 0.05, 0.2),
        prior: Sequence[float] | float = (0.0, 1.0),
        estimator: str = "mle",
        cv: Any = 5,
        scoring: str = "neg_log_loss",
        balanced: bool = False,
        device: torch.device | str | None = None,
        extend: bool = True,
        calibration: str | None = "scale",
    ) -> None:
        self.realization = realization
        self.beta = beta
        self.temperature = temperature
        self.prior = prior
        self.estimator = estimator
        self.cv = cv
        self.scoring = scoring
        self.balanced = balanced
        self.device = device
        self.extend = extend
        self.calibration = calibration

    def _chosen(self) -> dict[str, Any]:
        return self.best_params_

    def _scale(self) -> float:
        return self.scale_

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Choose the parameters by cross-validation and fit the classes.

        Args:
            X: Rows [N, p] of any length.
            y: Labels [N].
            sample_weight: Weights [N] >= 0, which count in fits and scores.

        Returns:
            This classifier.
        """
        grid = self._grid()
        if self.scoring not in SCORINGS:
            raise ValueError(f"expected scoring to be one of {SCORINGS}, got {self.scoring!r}")
        require_calibration(self.calibration, None)
        rows, index, w, classes = self._sample(X, y, sample_weight, least=2)
        statistics = ClassStatistics(len(classes), rows.shape[1], device=rows.device)
        add_rows(statistics, rows, index, w)
        sample = rows, index, w, statistics
        cv: Any = self.cv
        loo = isinstance(cv, str) and cv == "loo"
        if loo:
            tests = [np.arange(len(rows))]

            def parts() -> list[Iterator[Part]]:
                return [left_out_parts(*sample, self.estimator)]
        else:
            labels, indices = index.cpu().numpy(), np.arange(len(rows))
            splitter: Any = check_cv(self.cv, labels, classifier=True)
            # Indices; a splitter may yield lists or masks.
            splits = [tuple(indices[at] for at in s) for s in splitter.split(indices, labels)]
            tests = [test for _, test in splits]

            def parts() -> list[Iterator[Part]]:
                return [fold_parts(*sample, train, test, self.estimator) for train, test in splits]

        weight = w / statistics.weight[index] if self.balanced else w
        weight = torch.where(w > 0, weight, 0.0).cpu().numpy()
        params: list[dict[str, Any]] = []
        scales: list[float] = []
        folds: list[Fold] = []
        added: Grid | None = grid
        while added is not None:
            params += [
                {"temperature": tau, "realization": realization, "beta": beta, "prior": prior}
                for tau in added.taus
                for realization, beta in added.rules
                for prior in added.priors
            ]
            own = self._scales(parts(), weight[np.concatenate(tests)], float(w.sum()), added)
            scales += own
            measured = [
                Fold(*measure(part, own, *added), weight[test])
                for part, test in zip(parts(), tests, strict=True)
            ]
            both = zip(folds, measured, strict=True)
            folds = [fold.with_points(more) for fold, more in both] if folds else measured
            self._choose_point(params, scales, folds, loo)
            added = self._beyond(grid) if self.extend else None
        self.unscored_ = int(sum(fold.absent.sum() for fold in folds))
        self._compare(params, folds, loo)
        self._simplify(scales, folds, loo)
        self.scale_ = scales[self.best_index_]
        self.calibrators_ = None
        if self.calibration in METHODS:
            left_out = (part for fold in parts() for part in fold)
            self.calibrators_ = self._calibrators(left_out, weight[np.concatenate(tests)])
        return self._finish(statistics, classes)

    def _beyond(self, grid: Grid) -> Grid | None:
        """Add to the grid the value outside an edge at which the best point is, and return the new
        points; None if the best point is at no edge."""
        best = self.best_params_
        edited = best["realization"] in EDITED
        betas = [beta for name, beta in grid.rules if name in EDITED]
        axes = {
            "temperature": grid.taus if best["realization"] != "cosine" else [],
            "beta": betas if edited else [],
            "prior": grid.priors,
        }
        for name, values in axes.items():
            value = best[name]
            if len(set(values)) < 2 or value not in (min(values), max(values)):
                continue
            if (outside := beyond(name, value, value == min(values))) is None:
                continue
            if name == "temperature":
                grid.taus.append(outside)
                return grid._replace(taus=[outside])
            if name == "prior":
                grid.priors.append(outside)
                return grid._replace(priors=[outside])
            names = dict.fromkeys(name for name, _ in grid.rules if name in EDITED)
            rules = [(realization, outside) for realization in names]
            grid.rules.extend(rules)
            return grid._replace(rules=rules)
        return None

    def _scales(
        self, parts: list[Iterator[Part]], weight: np.ndarray, number: float, grid: Grid
    ) -> list[float]:
        """Fit the scale of each point to the rows left out; 1 without calibration."""
        if self.calibration is None:
            return [1.0] * (len(grid.taus) * len(grid.rules) * len(grid.priors))
        left_out = (part for fold in parts for part in fold)
        return point_scales(left_out, torch.from_numpy(weight), number, *grid)

    def _calibrators(self, parts: Iterable[Part], weight: np.ndarray) -> Calibrators:
        """Fit scikit-learn's calibration to the scores of the rows left out."""
        best, kept, top = self.best_params_, [], 0
        grid = [best["temperature"]], [(best["realization"], best["beta"])], [best["prior"]]
        for part in parts:
            own = weight[top : top + len(part.y)]
            top += len(part.y)
            known = (~part.absent()).cpu() & torch.from_numpy(own > 0)
            rows = known.nonzero().squeeze(1)
            some = part.at(rows.to(part.y.device))
            (s,) = point_scores(some, *grid)
            kept.append((self.scale_ * s, some.y, torch.from_numpy(own[rows.numpy()])))
        scores, labels, weights = (torch.cat(column) for column in zip(*kept, strict=True))
        return fit_calibrators(scores, labels, weights, str(self.calibration))

    def _grid(self) -> Grid:
        """Return the grid of the parameters."""
        listed = {}
        for name in ("realization", "beta", "temperature", "prior"):
            values = getattr(self, name)
            listed[name] = [values] if isinstance(values, str) else np.atleast_1d(values).tolist()
            if not listed[name]:
                raise ValueError(f"expected one value of {name} or more, got none")
        for realization in listed["realization"]:
            if realization not in REALIZATIONS:
                rule = f"expected realizations among {REALIZATIONS}"
                raise ValueError(f"{rule}, got {realization!r}")
        betas, taus, priors = (
            [finite_number(name, value) for value in listed[name]]
            for name in ("beta", "temperature", "prior")
        )
        if min(taus) <= 0:
            raise ValueError(f"expected temperature > 0, got {min(taus):g}")
        rules = [
            (realization, beta)
            for realization in listed["realization"]
            for beta in (betas if realization in EDITED else betas[:1])
        ]
        return Grid(taus, rules, priors)

    def _choose_point(
        self, params: list[dict[str, Any]], scales: list[float], folds: list[Fold], loo: bool
    ) -> None:
        """Set the results of all points, and the best of them."""
        results: dict[str, Any] = {"params": params, "scale": np.array(scales)}
        for name in params[0]:
            results[f"param_{name}"] = np.array([point[name] for point in params])
        tables = {scoring: FoldScores.of(folds, scoring, loo) for scoring in SCORINGS}
        for scoring, table in tables.items():
            names = [scoring, "score"] if scoring == self.scoring else [scoring]
            for name in names:
                results |= table.results(name, splits=not loo)
        table = tables[self.scoring]
        if not np.isfinite(table.mean).any():
            raise ValueError("expected a grid with a point that can be realized, got none")
        self.cv_results_ = results
        self.best_index_ = int(results["rank_test_score"].argmin())
        self.best_params_ = params[self.best_index_]
        self.best_score_ = float(table.mean[self.best_index_])

    def _simplify(self, scales: list[float], folds: list[Fold], loo: bool) -> None:
        """Take the plainest point that ties with the best."""
        losses, hits = (FoldScores.of(folds, scoring, loo) for scoring in SCORINGS)
        points = {
            i: Choice(
                Point(**self.cv_results_["params"][i]),
                scales[i],
                -losses.mean[i],
                torch.from_numpy(-losses.rows[i]),
                hits.mean[i],
                torch.from_numpy(hits.rows[i]),
            )
            for i in np.flatnonzero(np.isfinite(losses.mean)).tolist()
        }
        weights = torch.from_numpy(losses.row_weight / losses.row_weight.sum())
        chosen = plainest(points.values(), points[self.best_index_], weights)
        self.best_index_ = next(i for i, point in points.items() if point is chosen)
        self.best_params_ = self.cv_results_["params"][self.best_index_]
        self.best_score_ = float(self.cv_results_["mean_test_score"][self.best_index_])

    def _compare(self, params: list[dict[str, Any]], folds: list[Fold], loo: bool) -> None:
        """Compare the best point with those that have parameters at their reference."""
        table, self.matters_ = FoldScores.of(folds, self.scoring, loo), {}
        first = params[0]
        for name in (*first, "all"):
            kept = first if name == "all" else {name: first[name]}
            pool = [
                i
                for i, point in enumerate(params)
                if all(point[key] == value for key, value in kept.items())
            ]
            if np.isfinite(table.mean[pool]).any():
                comparison = table.compare(self.best_index_, pool)
                reference = params[comparison.pop("index")]
                self.matters_[name] = {**comparison, "reference": reference}
