"""The vMF classifier, and the nearest class direction."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from resultant._core.validation import finite_number
from resultant.classes.metric import Metric
from resultant.classes.scores import ClassScores
from resultant.classifiers.base import DirectionClassifier
from resultant.classifiers.calibration import fit_calibration, fit_scale
from resultant.classifiers.conformal import Conformal
from resultant.classifiers.em import Mixture
from resultant.classifiers.inputs import AUTO, Array, Sample, labelled, returned, row_chunks
from resultant.classifiers.left_out import ValidationFold
from resultant.score.limits import require_comparable

# Calibrations of probabilities: one scale, or a curve per class.
METHODS = ("scale", "sigmoid", "isotonic")


class VMFClassifier(DirectionClassifier):
    r"""Classifier with one von Mises-Fisher distribution per class, or a mixture of several.

    The score of class c is that of `class_scores`, plus :math:`\gamma\log\pi_c` with the share
    :math:`\pi_c` of the class. Temperature, realization, beta and prior may be set after the fit,
    whose scale remains; classes with a changed parameter of the fit, such as ``whiten``, are
    refused until the next fit. A class of K components has the score
    :math:`\log\sum_k w_k e^{q_k(z)}`: for ``native`` that of the mixture; others edit the gain of
    each component, relative to the mean over all. ``state_`` and ``statistics_`` remain those of
    one distribution per class.

    Args:
        temperature: Temperature tau, at least 7.6e-6 for rows in float32 and 1.4e-14 in float64; or
            ``"auto"``: `fit` chooses ``temperature_`` by five-fold cross-validation.
        realization: ``native``, ``temperature``, ``preserve``, ``angular`` or ``cosine``.
        beta: Strength of the target gains: 0 equalizes the gains, 1 keeps them.
        estimator: Estimator of kappa, ``mle``, ``proco``, ``banerjee``, ``corrected`` or ``loo``;
            see `concentration`.
        prior: Strength :math:`\gamma` of the class prior; 0 for a uniform prior.
        device: Device of sums and scores, by default that of X (the CPU for NumPy).
        scale: Factor of the scores in `predict_proba`; ``"auto"`` fits it to rows that are scored
            by the classes without them.
        components: Number of components per class, of one kappa; or ``auto``, up to 8 by BIC.
        whiten: ``"within"``, or a fitted `Metric`, whitens the directions by the within-class
            covariance; None leaves them. For embeddings ``"within"`` with shrinkage 0.5 is ahead by
            two points on average and nowhere behind; tables of few columns may lose.
        shrinkage: Shrinkage of the within-class covariance towards its mean variance, from 0 to 1;
            or ``"auto"``: `fit` chooses ``shrinkage_`` by five-fold cross-validation.
        center: Subtract the mean of the class means first; None does so for ``"within"``.
        refine: Precision :math:`\lambda` > 0 with which the refinement holds on to the directions:
            they are moved by the rows that they get wrong, and scores become linear. None keeps
            the classes of sums, which `partial_fit` continues; ``"auto"`` chooses ``refine_`` by
            five-fold cross-validation. The refinement begins with ``angular`` and ``beta=0``.

        lift: Concentration k > 0 of the kernel :math:`e^{k x^\top x'}`, whose 800 random features
            take the place of the rows, for rows of few dimensions; ``"auto"`` is chosen with
            ``refine``; None leaves the rows.

    Attributes:
        temperature_: Chosen temperature for ``"auto"``.
        shrinkage_, refine_: Shrinkage and precision in use.
        metric_: The `Metric` in which classes are fitted, or None; `directions` moves rows there.
        scale_: Fitted factor of the scores.
        refined_: ``direction`` and ``gain`` of the refined classes, or None; `log_marginal` and
            ``state_`` remain those of the vMF classes.
        lift_: Random features in use, or None; ``state_`` and ``directions`` are then of these.
        components_: ``state``, ``owner``, ``log_weight`` and ``number`` of several components.

    Raises:
        ValueError: In `fit`, for parameters, rows, labels or weights out of range or shape.

    Example:
        >>> X, y = [[1.0, 0.1], [2.0, 0.0], [0.1, 1.0], [0.0, 3.0]], ["a", "a", "b", "b"]
        >>> VMFClassifier().fit(X, y).predict([[5.0, 1.0]]).tolist()
        ['a']
    """

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
        refine: float | str | None = None,
        lift: float | str | None = None,
    ) -> None:
        super().__init__(temperature, prior, device, scale, whiten, shrinkage, center)
        self.refine = refine
        self.lift = lift
        self.realization = realization
        self.beta = beta
        self.estimator = estimator
        self.components = components

    def calibrate(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        method: str = "scale",
        without: Sequence[tuple[Any, "VMFClassifier"]] | None = None,
    ) -> Self:
        """Calibrate `predict_proba`, `p_values` and `predict_set` on rows that were not fitted,
        such as a validation split.

        Args:
            X, y: Rows [N, p], and labels [N] among those of the fit.
            sample_weight: Weights [N] >= 0 in the calibration, one per row by default.
            method: ``scale`` fits ``scale_``, which changes no prediction; ``sigmoid`` and
                ``isotonic`` fit a curve per class, as ``CalibratedClassifierCV``, which does.
            without: For rows that were fitted: pairs of positions of rows in X and of a classifier
                with the same parameters that was fitted without these rows.

        Returns:
            This classifier; `save` keeps the calibration.

        Raises:
            ValueError: For other labels, and without a row of a class that was fitted.

        Example:
            >>> X, y = [[1.0, 0.1], [2.0, 0.0], [0.1, 1.0], [0.0, 3.0]], ["a", "a", "b", "b"]
            >>> new = [[1.0, 0.9], [0.9, 1.0], [0.4, 0.5]]
            >>> VMFClassifier().fit(X, y).calibrate(new, ["a", "b", "a"]).scale_ < 1
            True
        """
        check_is_fitted(self, "statistics_")
        if method not in METHODS:
            raise ValueError(f"expected method to be one of {METHODS}, got {method!r}")
        sample, _ = labelled(self, X, y, sample_weight, classes=self.classes_, reset=False)
        scores = self._left_out_scores(X, without).to(sample.y.device)
        conformal = self._held_out(scores, sample)
        if method != "scale":
            fitted = fit_calibration(scores, sample.y, sample.w, method)
            self.calibration_ = {**fitted, "rule": self._written_rule()}
            self.conformal_ = conformal
            return self
        scores = scores / self._scale()
        known = (sample.w > 0) & scores.gather(1, sample.y[:, None])[:, 0].isfinite()
        if not known.any():
            raise ValueError("expected a row of a class that was fitted, got none")
        self.scale_ = fit_scale(scores[known], sample.y[known], sample.w[known])
        self.calibration_, self.conformal_ = None, conformal
        return self

    def _left_out_scores(
        self, X: Any, without: Sequence[tuple[Any, "VMFClassifier"]] | None
    ) -> Tensor:
        """Return the scores [N, C] of rows, by classifiers that were fitted without them."""
        if without is None:
            return self._scores(X)
        scores = torch.full((len(X), len(self.classes_)), torch.nan, dtype=torch.float64)
        x = X if isinstance(X, Tensor) else np.asarray(X)
        for rows, other in without:
            if not np.array_equal(other.classes_, self.classes_):
                raise ValueError(
                    "expected fits without rows that know the same classes, got others"
                )
            own = other._scores(x[rows]).to(scores)
            scores[torch.as_tensor(rows)] = own * (self._scale() / other._scale())
        if scores.isnan().any():
            raise ValueError("expected a fit without each of the rows, got none for some")
        return scores

    def _held_out(self, scores: Tensor, sample: Sample) -> Conformal:
        """Rank the scores of rows that were not fitted; nothing in the scores comes from them."""
        scores = scores / self._scale()
        try:
            none, scale = (known := self._conformal()).none, known.scale
        except ValueError:
            # Without kept rows there is no score of none of these.
            none, scale = None, self._scale()
        y, rule = sample.y, self._written_rule()[:-1]
        used = (sample.w > 0) & scores.gather(1, y[:, None])[:, 0].isfinite()
        settings = {"scale": scale, "none": none, "held_out": True, "rule": rule}
        return Conformal.of(scores[used], y[used], len(self.classes_), **settings)

    @torch.no_grad()
    def log_marginal(self, X: Any) -> Array:
        r"""Compute the log density :math:`\log\sum_c\pi_c f(z;\mu_c,\kappa_c)` [N] of rows [N, p],
        by the fit alone; low for a query unlike every class (out-of-distribution detection)."""
        rows, parts = self._query(X), self._parts
        share = parts.log_weight.exp() * self._log_prior()[parts.owner].exp()
        mixture = Mixture(parts.state.mu, parts.state.kappa, share)
        density = [
            mixture.log_joint(self._units(rows[part], torch.float64)).logsumexp(-1)
            for part in row_chunks(rows, len(share))
        ]
        return returned(torch.cat(density).to(rows.dtype), X)


class CosinePrototypeClassifier(DirectionClassifier):
    r"""Classifier by the nearest class direction: scores :math:`\rho_c/\tau+\gamma\log\pi_c`.

    With :math:`1/\tau=\bar g` this is the ``cosine`` realization of `VMFClassifier`.

    Args:
        temperature: Temperature tau. Without prior it scales the probabilities only.
        prior: Strength :math:`\gamma` of the class prior; 0 for a uniform prior.
        device, scale, whiten, shrinkage, center: As in `VMFClassifier`.

    Raises:
        ValueError: In `fit`, for parameters, rows, labels or weights out of range or shape.

    Example:
        >>> X, y = [[1.0, 0.1], [2.0, 0.0], [0.1, 1.0], [0.0, 3.0]], [0, 0, 1, 1]
        >>> CosinePrototypeClassifier().fit(X, y).predict([[1.0, 5.0]]).tolist()
        [1]
    """

    def _class_scores(self, dtype: torch.dtype) -> ClassScores:
        temperature = finite_number("temperature", self.temperature)
        require_comparable("temperature", temperature, dtype)
        state = self._parts.state.to(dtype=dtype)
        slope = torch.full_like(state.kappa[0], 1 / temperature)
        shift = finite_number("prior", self.prior) * self._log_prior()
        return ClassScores(state.mu, state.kappa, None, slope, shift.to(dtype))

    def _fold_scores(self, fold: ValidationFold) -> Tensor:
        return fold.of_classes(fold.rho / float(self.temperature), float(self.prior))
