"""The vMF classifier, and the nearest class direction."""

from __future__ import annotations

from typing import Any, Self

import torch
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from resultant._core.arrays import directions
from resultant._core.validation import finite_number
from resultant.classes.cosines import cosines
from resultant.classes.realization import Realization, realize
from resultant.classes.rule import Rule
from resultant.classes.statistics import ClassState, ClassStatistics
from resultant.classifiers.base import (
    AUTO,
    Array,
    DirectionClassifier,
    IncrementalClassifier,
    as_numpy,
    require_temperatures,
    returned,
)
from resultant.classifiers.calibration import fit_scale
from resultant.classifiers.calibrators import METHODS, Calibrators, fit_calibrators
from resultant.classifiers.choice import Point, Search
from resultant.classifiers.components import Components, fit_components, require_components
from resultant.classifiers.left_out import FOLDS, sampled_folds, shuffled_ranks
from resultant.classifiers.rows import row_chunks
from resultant.score.limits import require_comparable
from resultant.vmf.estimators import log_normalizer_at, require_estimator


class VMFScores(DirectionClassifier):
    """Classifier by the vMF scores of `class_scores`."""

    calibrators_: Calibrators | None = None

    def predict_proba(self, X: Any) -> Array:
        """Return calibrated probabilities [N, C]: the softmax of the scores with prior and scale,
        or the values of scikit-learn's calibration, if fitted."""
        if self.calibrators_ is None:
            return super().predict_proba(X)
        return returned(self.calibrators_.predict_proba(self._scores(X)), X)

    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithms of `predict_proba` [N, C]."""
        if self.calibrators_ is None:
            return super().predict_log_proba(X)
        return returned(self.calibrators_.predict_proba(self._scores(X)).log(), X)

    def _chosen(self) -> dict[str, Any]:
        """Return temperature, realization, beta and prior."""
        raise NotImplementedError

    def _realization(self, dtype: torch.dtype) -> Realization:
        chosen = self._chosen()
        prior = finite_number("prior", chosen["prior"])
        require_temperatures(chosen["temperature"], dtype)
        offset = self._offset(prior)
        settings = (chosen[name] for name in ("temperature", "realization", "beta"))
        rule = Rule(*settings, offset=offset)
        return realize(self._present_state(), rule, dtype=dtype, validate_args=True)

    def _offset(self, prior: float) -> Tensor | None:
        """Return what is added to the scores of `_present_state`."""
        return prior * self._log_prior() if prior else None

    def _log_shares(self) -> Tensor:
        """Return the log shares of `_present_state` in the sample."""
        return self._log_prior()

    @torch.no_grad()
    def log_marginal(self, X: Any) -> Array:
        r"""Compute the log density of directions under the fitted mixture.

        The density is :math:`\log\sum_c\pi_c f(z;\mu_c,\kappa_c)` with the vMF density f. It is low
        for a query that is unlike every class: a score for out-of-distribution detection. It
        depends on the fit alone, not on temperature, realization, beta or prior.

        Args:
            X: Rows [N, p].

        Returns:
            Log densities [N], computed in float64.
        """
        queries, rows = self._query(X)
        state = self._present_state()
        floor = self._log_shares() - log_normalizer_at(state.dim, state.kappa)
        density = rows.new_empty(len(rows))
        for part in row_chunks(rows, state.num_classes):
            rho = cosines(directions(rows[part])[0], state.mu)
            density[part] = torch.addcmul(floor, state.kappa, rho).logsumexp(-1).to(rows.dtype)
        return returned(density.to(queries.device), X)


def require_calibration(method: Any, *others: None) -> None:
    allowed = (*others, "scale", *METHODS)
    if method not in allowed:
        raise ValueError(f"expected calibration to be one of {allowed}, got {method!r}")


def _has_one_component(classifier: Any) -> bool:
    if require_components(classifier.components) == 1:
        return True
    got = f"components={classifier.components!r}"
    raise ValueError(f"expected components=1 in partial_fit, got {got}; use fit")


class VMFClassifier(VMFScores, IncrementalClassifier):
    r"""Classifier with one von Mises-Fisher distribution per class, or a mixture of several.

    The score of class c is that of `class_scores`, plus :math:`\gamma\log\pi_c` with the share
    :math:`\pi_c` of the class in the sample. Only ``estimator``, ``components`` and ``device``
    affect the fit: the other parameters may be set after it.

    A class of K components has the score :math:`\log\sum_k w_k e^{q_k(z)}` of its components'
    scores. For ``native`` this is the exact score of the mixture; the other realizations edit the
    gain of each component, relative to the mean over all components. ``state_`` and
    ``statistics_`` remain those of one distribution per class, as gains and certificates need them.

    Args:
        temperature: Temperature tau of the score, at least 7.6e-6 for rows in float32 and 1.4e-14
            in float64; or ``"auto"``: `fit` chooses ``temperature_`` and ``scale_`` by five-fold
            cross-validation, on a sample of the rows where there are many; of temperatures that
            tie, the nearest to 0.1.
        realization: ``native``, ``temperature``, ``preserve``, ``angular`` or ``cosine``.
        beta: Strength of the target gains: 0 equalizes the gains, 1 keeps them.
        estimator: Estimator of kappa, ``mle``, ``proco``, ``banerjee``, ``corrected`` or ``loo``;
            see `concentration`.
        prior: Strength :math:`\gamma` of the class prior; 0 for a uniform prior.
        device: Device of sums and scores, by default that of X (the CPU for NumPy).
        scale: Factor of the scores that calibrates `predict_proba`; predictions do not depend on
            it. ``temperature="auto"``, ``calibration`` and `calibrate` fit their own.
        components: Number of components per class, which share one concentration; or ``auto``, up
            to 8 of the lowest BIC for each class. BIC needs one fit per number and gives one
            component to a class of few rows. More than one needs `fit`: sums of a stream, as in
            `partial_fit`, do not hold components.
        calibration: Calibration of `predict_proba` that `fit` makes by five-fold cross-validation,
            on a sample of the rows where there are many; with several components on a fifth of the
            rows, which another fit scores. ``scale``: one factor of the scores. ``sigmoid`` and
            ``isotonic``: in addition scikit-learn's calibration of each class;
            predictions are still those of the largest score. None: ``scale`` as given. `calibrate`
            does the same on rows that were kept apart.

    Attributes:
        temperature_: Chosen temperature, for ``temperature="auto"``.
        scale_: Fitted factor of the scores, for ``temperature="auto"``, ``calibration`` and
            `calibrate`.
        components_: With ``components`` other than 1, the fitted components: ``state``, ``owner``
            (indices of the classes that have weight), ``log_weight`` and ``number`` per class.

    Raises:
        ValueError: In `fit`, for parameters out of range and for rows, labels or weights of other
            shapes or values.

    Example:
        >>> from resultant import VMFClassifier
        >>> X, y = [[1.0, 0.1], [2.0, 0.0], [0.1, 1.0], [0.0, 3.0]], ["a", "a", "b", "b"]
        >>> VMFClassifier().fit(X, y).predict([[5.0, 1.0]]).tolist()
        ['a']
    """

    components_: Components | None = None
    scale_: float | None = None

    def __init__(
        self,
        temperature: float | str = 0.1,
        realization: str = "angular",
        beta: float = 0.0,
        estimator: str = "mle",
        prior: float = 0.0,
        device: torch.device | str | None = None,
        scale: float = 1.0,
        components: int | str = 1,
        calibration: str | None = None,
    ) -> None:
        self.temperature = temperature
        self.realization = realization
        self.beta = beta
        self.estimator = estimator
        self.prior = prior
        self.device = device
        self.scale = scale
        self.components = components
        self.calibration = calibration

    def _chosen(self) -> dict[str, Any]:
        names = ("temperature", "realization", "beta", "prior")
        chosen = {name: getattr(self, name) for name in names}
        return chosen | {"temperature": self.temperature_} if self._auto else chosen

    @property
    def _auto(self) -> bool:
        return isinstance(self.temperature, str) and self.temperature == AUTO

    def _scale(self) -> float:
        return super()._scale() if self.scale_ is None else self.scale_

    def _choose(self, X: Tensor, y: Tensor, w: Tensor, statistics: ClassStatistics) -> None:
        require_calibration(self.calibration, None)
        self.scale_ = self.calibrators_ = None
        self._fit_components(X, y, w, statistics)
        if not self._auto and self.calibration is None:
            return
        if self.components_ is not None:
            if self._auto:
                rule = "expected a number for temperature with several components"
                raise ValueError(f"{rule}, got 'auto', which is chosen for one component per class")
            self._calibrate_components(X, y, w)
            return
        search = Search(*sampled_folds(X, y, w, statistics, self.estimator))
        fixed = {name: finite_number(name, getattr(self, name)) for name in ("beta", "prior")}
        if self._auto:
            choice = search.best(self.realization, fixed)
            choice = choice and search.plainest(choice, self.realization)
        else:
            choice = search.at(Point(self.realization, float(self.temperature), **fixed))
        if choice is None:
            raise ValueError("expected a rule that some temperature realizes, got none")
        if self._auto:
            self.temperature_ = choice.point.temperature
        self.scale_ = choice.scale
        if self.calibration in METHODS:
            scores = choice.scale * search.scores(choice.point)
            method = str(self.calibration)
            self.calibrators_ = fit_calibrators(scores, search.part.y, search.weights, method)

    def _calibrate_components(self, X: Tensor, y: Tensor, w: Tensor) -> None:
        """Calibrate on the fifth row of each five of a class, scored by a fit to the others."""
        apart = shuffled_ranks(y) % FOLDS == FOLDS - 1
        if not apart.any():
            raise ValueError(
                f"expected a class of {FOLDS} rows or more for a calibration, got none"
            )
        other = VMFClassifier(**{**self.get_params(), "calibration": None})
        other.fit(X[~apart], y[~apart], w[~apart])
        other.calibrate(X[apart], y[apart], str(self.calibration), w[apart])
        self.scale_, self.calibrators_ = other.scale_, other.calibrators_

    def calibrate(
        self,
        X: Any,
        y: Any,
        method: str = "scale",
        sample_weight: Any = None,
        folds: Any = None,
    ) -> Self:
        """Calibrate `predict_proba` on rows that were not fitted, such as a validation split, or on
        the fitted rows in folds.

        Args:
            X: Rows [N, p].
            y: Labels [N] among those of the fit.
            method: ``scale``, ``sigmoid`` or ``isotonic``; see ``calibration``.
            sample_weight: Weights [N] >= 0 in the calibration, one per row by default.
            folds: Folds [N], integers, if the rows are those of the fit: a row is scored by a fit
                to the rows of the other folds. A row whose class has no other rows takes no part.

        Returns:
            This classifier; its predictions are the same.

        Raises:
            ValueError: For another method, for other labels, for fewer than two folds, and for
                ``sigmoid`` and ``isotonic`` without a row of each class.

        Example:
            >>> from resultant import VMFClassifier
            >>> X, y = [[1.0, 0.1], [2.0, 0.0], [0.1, 1.0], [0.0, 3.0]], ["a", "a", "b", "b"]
            >>> classifier = VMFClassifier().fit(X, y)
            >>> new = [[1.0, 0.9], [0.9, 1.0], [0.4, 0.5]]
            >>> classifier.calibrate(new, ["a", "b", "a"]).scale_ < 1
            True
        """
        require_calibration(method)
        check_is_fitted(self, "statistics_")
        rows, index, w, _ = self._sample(X, y, sample_weight, classes=self.classes_, reset=False)
        self.scale_, self.calibrators_ = 1.0, None
        if folds is None:
            scores = self._scores(rows)
        else:
            scores = self._left_out_scores(rows, index, w, folds)
        known = (w > 0) & scores.gather(1, index[:, None])[:, 0].isfinite()
        if not known.any():
            raise ValueError("expected a row of a class with other rows, got none")
        scores, index, w = scores[known], index[known], w[known]
        self.scale_ = fit_scale(scores, index, w)
        if method in METHODS:
            self.calibrators_ = fit_calibrators(self.scale_ * scores, index, w, method)
        return self

    def _left_out_scores(self, rows: Tensor, index: Tensor, w: Tensor, folds: Any) -> Tensor:
        """Score the rows of each fold that have weight by a fit to the other folds."""
        fold = torch.as_tensor(as_numpy(folds), device=rows.device)
        if fold.shape != index.shape or fold.is_floating_point() or len(fold.unique()) < 2:
            rule = f"expected folds [{len(index)}] of integers, two or more of them"
            raise ValueError(f"{rule}, got {fold.dtype} of shape {tuple(fold.shape)}")
        settings = {**self.get_params(), **self._chosen(), "scale": 1.0, "calibration": None}
        scores = rows.new_full((len(rows), len(self.classes_)), -torch.inf)
        for k in fold[w > 0].unique():
            at, rest = ((fold == k) & (w > 0)).nonzero(), fold != k
            other = VMFClassifier(**settings).fit(rows[rest], index[rest])
            present = torch.as_tensor(other.classes_, device=rows.device)
            scores[at, present] = other._scores(rows[at[:, 0]])
        return scores

    @available_if(_has_one_component)
    def partial_fit(  # type: ignore[override]
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> Self:
        """Add rows to the rows of earlier calls; the first call names all ``classes``.

        An earlier calibration by `calibrate` is dropped.
        """
        if self.calibration is not None:
            got = f"calibration={self.calibration!r}"
            raise ValueError(f"expected calibration=None in partial_fit, got {got}; use fit")
        self.components_ = self.scale_ = self.calibrators_ = None
        return super().partial_fit(X, y, classes, sample_weight)

    def _fit_components(
        self, rows: Tensor, index: Tensor, weights: Tensor, statistics: ClassStatistics
    ) -> None:
        number, self.components_ = require_components(self.components), None
        if number != 1:
            require_estimator(self.estimator)
            present = statistics.weight > 0
            # Numbers of the classes among those that have weight.
            own = (present.cumsum(0) - 1)[index]
            self.components_ = fit_components(
                *(rows, own, weights, int(present.sum()), number, self.estimator)
            )

    def _present_state(self) -> ClassState:
        many = self.components_
        return super()._present_state() if many is None else many.state

    def _offset(self, prior: float) -> Tensor | None:
        many = self.components_
        if many is None:
            return super()._offset(prior)
        return many.log_weight + prior * self._log_prior()[many.owner]

    def _log_shares(self) -> Tensor:
        many = self.components_
        shares = super()._log_shares()
        return shares if many is None else shares[many.owner] + many.log_weight

    def _of_classes(self, scores: Tensor) -> Tensor:
        many = self.components_
        return scores if many is None else many.of_classes(scores)


class CosinePrototypeClassifier(IncrementalClassifier):
    r"""Classifier by the nearest class direction: scores :math:`\rho_c/\tau+\gamma\log\pi_c`.

    With :math:`1/\tau=\bar g` this is the ``cosine`` realization of `VMFClassifier`.

    Args:
        temperature: Temperature tau. Without prior it scales the probabilities only.
        prior: Strength :math:`\gamma` of the class prior; 0 for a uniform prior.
        device: Device of sums and scores, by default that of X (the CPU for NumPy).

    Raises:
        ValueError: In `fit`, for parameters out of range and for rows, labels or weights of other
            shapes or values.

    Example:
        >>> from resultant import CosinePrototypeClassifier
        >>> X, y = [[1.0, 0.1], [2.0, 0.0], [0.1, 1.0], [0.0, 3.0]], [0, 0, 1, 1]
        >>> CosinePrototypeClassifier().fit(X, y).predict([[1.0, 5.0]]).tolist()
        [1]
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

    def _realization(self, dtype: torch.dtype) -> Realization:
        prior = finite_number("prior", self.prior)
        temperature = finite_number("temperature", self.temperature)
        require_comparable("temperature", temperature, dtype)
        state = self._present_state().to(dtype=dtype)
        slope = torch.full_like(state.kappa[0], 1 / temperature)
        shift = (prior * self._log_prior()).to(dtype) if prior else None
        return Realization(state.mu, state.kappa, None, slope, shift)
