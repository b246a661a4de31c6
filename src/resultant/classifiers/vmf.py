"""The vMF classifier, and the nearest class direction."""

from __future__ import annotations

from typing import Any, Self

import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from resultant._core.validation import finite_number
from resultant.classes.cosines import cosines
from resultant.classes.metric import Metric
from resultant.classes.realization import Realization, realize
from resultant.classes.rule import REALIZATIONS, Rule
from resultant.classes.statistics import ClassState
from resultant.classifiers.base import DirectionClassifier
from resultant.classifiers.calibration import fit_calibration, fit_scale
from resultant.classifiers.em import Components, fit_components, require_components
from resultant.classifiers.inputs import (
    AUTO,
    Array,
    Sample,
    is_auto,
    require_temperatures,
    returned,
    row_chunks,
)
from resultant.classifiers.search import AXES
from resultant.classifiers.validation import ValidationFold, stratified_splits
from resultant.score.limits import require_comparable
from resultant.vmf.estimators import log_normalizer_at, require_estimator

# Calibrations of probabilities: one scale, or a curve per class.
METHODS = ("scale", "sigmoid", "isotonic")


class VMFClassifier(DirectionClassifier):
    r"""Classifier with one von Mises-Fisher distribution per class, or a mixture of several.

    The score of class c is that of `class_scores`, plus :math:`\gamma\log\pi_c` with the share
    :math:`\pi_c` of the class in the sample. Temperature, realization, beta and prior may be set
    after the fit; the fitted scale remains that of the fit.

    A class of K components has the score :math:`\log\sum_k w_k e^{q_k(z)}` of its components'
    scores. For ``native`` this is the exact score of the mixture; the other realizations edit the
    gain of each component, relative to the mean over all components. ``state_`` and
    ``statistics_`` remain those of one distribution per class, as gains and certificates need them.

    The defaults serve frozen features and test rows of any mix of classes: equal gains, a uniform
    prior, maximum likelihood. `ProCoLoss` has those of ProCo: ``native`` scores, the frequencies of
    the classes as prior, and its estimator.

    Args:
        temperature: Temperature tau of the score, at least 7.6e-6 for rows in float32 and 1.4e-14
            in float64; or ``"auto"``: `fit` chooses ``temperature_`` by five-fold
            cross-validation, on a sample of the rows where there are many; of temperatures that
            tie, the nearest to 0.1.
        realization: ``native``, ``temperature``, ``preserve``, ``angular`` or ``cosine``.
        beta: Strength of the target gains: 0 equalizes the gains, 1 keeps them.
        estimator: Estimator of kappa, ``mle``, ``proco``, ``banerjee``, ``corrected`` or ``loo``;
            see `concentration`.
        prior: Strength :math:`\gamma` of the class prior; 0 for a uniform prior.
        device: Device of sums and scores, by default that of X (the CPU for NumPy).
        scale: Factor of the scores in `predict_proba`; predictions do not depend on it. ``"auto"``
            fits it to rows that are scored by the classes without them, 1.0 leaves the scores as
            they are. `calibrate` fits other calibrations.
        components: Number of components per class, which share one concentration; or ``auto``, up
            to 8 of the lowest BIC for each class. BIC needs one fit per number and gives one
            component to a class of few rows. More than one needs `fit`: sums of a stream, as in
            `partial_fit`, do not hold components.
        whiten: ``"within"`` whitens the directions by the within-class covariance and normalizes
            them again before classes are fitted; a `Metric` that was fitted before does so; None
            leaves the directions. Use it for features of a pretrained network, and wherever
            columns have different units or are correlated.
        shrinkage: Shrinkage of the within-class covariance towards its mean variance, from 0 to 1;
            or ``"auto"``: `fit` chooses ``shrinkage_`` by five-fold cross-validation.
        center: Subtract the mean of the class means first; None does so if ``whiten`` is
            ``"within"``.

    Attributes:
        temperature_: Chosen temperature, for ``temperature="auto"``.
        shrinkage_: Shrinkage in use, for ``whiten="within"``.
        metric_: The `Metric` in which classes are fitted, or None; `directions` moves rows there.
        scale_: Fitted factor of the scores.
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

    def __init__(
        self,
        temperature: float | str = 0.1,
        realization: str = "angular",
        beta: float = 0.0,
        estimator: str = "mle",
        prior: float = 0.0,
        device: torch.device | str | None = None,
        scale: float | str = AUTO,
        components: int | str = 1,
        whiten: str | Metric | None = None,
        shrinkage: float | str = AUTO,
        center: bool | None = None,
    ) -> None:
        self.temperature = temperature
        self.realization = realization
        self.beta = beta
        self.estimator = estimator
        self.prior = prior
        self.device = device
        self.scale = scale
        self.components = components
        self.whiten = whiten
        self.shrinkage = shrinkage
        self.center = center

    def _require_one_pass(self) -> bool:
        if require_components(self.components) != 1:
            got = f"components={self.components!r}"
            raise AttributeError(f"partial_fit expects components=1, got {got}; use fit")
        return super()._require_one_pass()

    def _axes(self) -> dict[str, tuple[Any, ...]]:
        if self.realization not in REALIZATIONS:
            rule = f"expected realization to be one of {REALIZATIONS}"
            raise ValueError(f"{rule}, got {self.realization!r}")
        return {
            "realization": (self.realization,),
            "temperature": AXES["temperature"],
            "beta": (finite_number("beta", self.beta),),
            "prior": (finite_number("prior", self.prior),),
            "components": (require_components(self.components),),
        }

    def _rule(self) -> tuple[str, Any, float, float]:
        """Return realization, temperature, beta and prior."""
        temperature = self.temperature_ if is_auto(self.temperature) else self.temperature
        return self.realization, temperature, self.beta, finite_number("prior", self.prior)

    def _realization(self, dtype: torch.dtype) -> Realization:
        realization, tau, beta, prior = self._rule()
        require_temperatures(tau, dtype)
        offset = prior * self._log_prior() if prior else None
        if (many := self.components_) is not None:
            offset = many.log_weight + prior * self._log_prior()[many.owner]
        rule = Rule(tau, realization, beta, offset=offset)
        return realize(self._present_state(), rule, dtype=dtype, validate_args=True)

    def _fold_scores(self, fold: ValidationFold) -> Tensor:
        realization, tau, beta, prior = self._rule()
        scores = fold.scores(realization, float(tau), float(beta), prior)
        if scores.isnan().any():
            # A class without a row cannot reach a target that the class with it reaches.
            scores = fold.scores("native", float(tau), 1.0, prior)
        return scores

    def _left_out_scale(self, sample: Sample, means: Tensor | None = None) -> float:
        if isinstance(self.temperature, Tensor) and self.temperature.dim():
            return 1.0
        if self.components_ is None:
            return super()._left_out_scale(sample, means)
        # Components have no sums: a fifth of the rows is scored by a fit to the others.
        sample = sample.merged
        train, rows = stratified_splits(sample.y)[0]
        if not (sample.w[train].any() and sample.w[rows].any()):
            return 1.0
        validation = self._validation_of(sample, [(train, rows)])
        shrinkage = None if self.metric_ is None else self.metric_.shrinkage
        folds = validation.folds(shrinkage, require_components(self.components))
        return self._fold_scale(folds, validation.weights)

    def calibrate(self, X: Any, y: Any, sample_weight: Any = None, method: str = "scale") -> Self:
        """Calibrate `predict_proba` on rows that were not fitted, such as a validation split.

        Args:
            X: Rows [N, p].
            y: Labels [N] among those of the fit.
            sample_weight: Weights [N] >= 0 in the calibration, one per row by default.
            method: ``scale`` fits ``scale_``, which changes no prediction; ``sigmoid`` and
                ``isotonic`` fit a curve per class, as ``CalibratedClassifierCV`` of scikit-learn
                does, and predictions are the classes of the largest calibrated probability.

        Returns:
            This classifier; `save` keeps the calibration.

        Raises:
            ValueError: For other labels, and without a row of a class that was fitted.

        Example:
            >>> from resultant import VMFClassifier
            >>> X, y = [[1.0, 0.1], [2.0, 0.0], [0.1, 1.0], [0.0, 3.0]], ["a", "a", "b", "b"]
            >>> classifier = VMFClassifier().fit(X, y)
            >>> new = [[1.0, 0.9], [0.9, 1.0], [0.4, 0.5]]
            >>> classifier.calibrate(new, ["a", "b", "a"]).scale_ < 1
            True
        """
        check_is_fitted(self, "statistics_")
        if method not in METHODS:
            raise ValueError(f"expected method to be one of {METHODS}, got {method!r}")
        sample, _ = self._sample(X, y, sample_weight, classes=self.classes_, reset=False)
        if method != "scale":
            y, w = self.classes_[sample.y.cpu().numpy()], sample.w.cpu().numpy()
            self.calibration_ = fit_calibration(self, X, y, w, method)
            return self
        scores = self._scores(X).to(sample.y.device) / self._scale()
        known = (sample.w > 0) & scores.gather(1, sample.y[:, None])[:, 0].isfinite()
        if not known.any():
            raise ValueError("expected a row of a class that was fitted, got none")
        self.scale_ = fit_scale(scores[known], sample.y[known], sample.w[known])
        self.calibration_ = None
        return self

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
        state, shares = self._present_state(), self._log_prior()
        if (many := self.components_) is not None:
            shares = shares[many.owner] + many.log_weight
        floor = shares - log_normalizer_at(state.dim, state.kappa)
        density = torch.empty(len(rows), dtype=rows.dtype, device=rows.device)
        for part in row_chunks(rows, state.num_classes):
            rho = cosines(self._units(rows[part], torch.float64), state.mu)
            density[part] = torch.addcmul(floor, state.kappa, rho).logsumexp(-1).to(rows.dtype)
        return returned(density.to(queries.device), X)

    def _fit_components(self, sample: Sample) -> None:
        number, self.components_ = require_components(self.components), None
        if number == 1:
            return
        require_estimator(self.estimator)
        present, sample = self._present, sample.merged
        # Numbers of the classes among those that have weight.
        own, rows = (present.cumsum(0) - 1)[sample.y], sample.rows
        if self.metric_ is not None or not isinstance(rows, Tensor):
            rows = self._all_units(rows)
        self.components_ = fit_components(
            *(rows, own, sample.w, int(present.sum()), number, self.estimator)
        )

    def _present_state(self) -> ClassState:
        many = self.components_
        return super()._present_state() if many is None else many.state

    def _of_classes(self, scores: Tensor) -> Tensor:
        many = self.components_
        return scores if many is None else many.of_classes(scores)


class CosinePrototypeClassifier(DirectionClassifier):
    r"""Classifier by the nearest class direction: scores :math:`\rho_c/\tau+\gamma\log\pi_c`.

    With :math:`1/\tau=\bar g` this is the ``cosine`` realization of `VMFClassifier`.

    Args:
        temperature: Temperature tau. Without prior it scales the probabilities only.
        prior: Strength :math:`\gamma` of the class prior; 0 for a uniform prior.
        device: Device of sums and scores, by default that of X (the CPU for NumPy).
        scale: Factor of the scores in `predict_proba`, ``"auto"`` or a number; as in
            `VMFClassifier`, like the following.
        whiten: None, ``"within"`` or a `Metric`.
        shrinkage: Shrinkage of the within-class covariance, ``"auto"`` or a number from 0 to 1.
        center: Subtract the mean of the class means.

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
        scale: float | str = AUTO,
        whiten: str | Metric | None = None,
        shrinkage: float | str = AUTO,
        center: bool | None = None,
    ) -> None:
        self.temperature = temperature
        self.prior = prior
        self.device = device
        self.scale = scale
        self.whiten = whiten
        self.shrinkage = shrinkage
        self.center = center

    def _axes(self) -> dict[str, tuple[Any, ...]]:
        prior = finite_number("prior", self.prior)
        return {"realization": ("cosine",), "prior": (prior,), "components": (1,)}

    def _realization(self, dtype: torch.dtype) -> Realization:
        prior = finite_number("prior", self.prior)
        temperature = finite_number("temperature", self.temperature)
        require_comparable("temperature", temperature, dtype)
        state = self._present_state().to(dtype=dtype)
        slope = torch.full_like(state.kappa[0], 1 / temperature)
        shift = (prior * self._log_prior()).to(dtype) if prior else None
        return Realization(state.mu, state.kappa, None, slope, shift)

    def _fold_scores(self, fold: ValidationFold) -> Tensor:
        prior, tau = finite_number("prior", self.prior), float(self.temperature)
        scores = fold.rho / tau + (prior * fold.log_prior).to(fold.rho.dtype)
        return scores.masked_fill(~fold.present, -torch.inf)
