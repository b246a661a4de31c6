"""What fitted classes say of rows: scores, probabilities and labels."""

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from resultant._core.arrays import directions
from resultant._core.validation import finite_number
from resultant.classes.rule import Rule
from resultant.classes.scores import ClassScores, cosines, realize
from resultant.classes.statistics import ClassState
from resultant.classifiers import inputs
from resultant.classifiers.calibration import calibrated
from resultant.classifiers.em import Components
from resultant.classifiers.inputs import Array, Rows, is_auto, returned, row_chunks
from resultant.vmf.estimators import require_estimator


class ScoringClassifier(ClassifierMixin, BaseEstimator):
    """Classifier by the scores of fitted classes.

    A class without weight has score -inf and takes no part in the mean gain.
    """

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def _check_rule(self) -> None:
        """Raise unless the parameters are a rule and a scale."""
        realization, _, beta, _ = self._rule()
        Rule(0.1, realization, beta)
        require_estimator(self.estimator)
        self._given_scale()

    def _rule(self) -> tuple[str, Any, float, float]:
        """Return realization, temperature, beta and prior."""
        temperature = self.temperature_ if is_auto(self.temperature) else self.temperature
        return self.realization, temperature, self.beta, finite_number("prior", self.prior)

    def _class_scores(self, dtype: torch.dtype) -> ClassScores:
        """Return the scores of the classes that have weight, as functions of their cosines."""
        realization, tau, beta, prior = self._rule()
        inputs.require_temperatures(tau, dtype)
        parts = self._parts
        offset = parts.log_weight + prior * self._log_prior()[parts.owner]
        if self.refined_ is not None:
            self._require_refinable(realization, beta)
            refined = self.refined_.at(self.statistics_.weight > 0).to(dtype)
            kappa, shift = parts.state.kappa.to(dtype), offset.to(dtype)
            return ClassScores(refined.direction, kappa, None, refined.gain, shift)
        rule = Rule(tau, realization, beta, offset=offset if offset.any() else None)
        return realize(parts.state, rule, dtype=dtype, validate_args=True)

    def _given_scale(self) -> float:
        """Return the factor of the scores where none is fitted."""
        scale = 1.0 if is_auto(self.scale) else finite_number("scale", self.scale)
        if scale <= 0:
            raise ValueError(f"expected scale > 0, got {scale:g}")
        return scale

    def _scale(self) -> float:
        """Return the factor of the scores."""
        scale = self._given_scale()
        return self.scale_ or scale

    def _units(self, rows: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """Return rows [n, p] as unit vectors in the metric."""
        x = directions(rows)[0].to(dtype or rows.dtype)
        x = x if self.lift_ is None else self.lift_(x)
        return x if self.metric_ is None else self.metric_.to(dtype=x.dtype).transform(x)

    def _all_units(self, rows: Rows) -> Tensor:
        return torch.cat([self._units(rows[at]) for at in row_chunks(rows, 1)])

    @torch.no_grad()
    def directions(self, X: Any) -> Array:
        """Return unit vectors [N, p] of rows in the metric, which ``state_`` scores: arguments of
        `class_scores`, `certificate` and other functions of fitted classes."""
        return returned(self._all_units(self._query(X)), X)

    def _log_prior(self) -> Tensor:
        """Return log pi of the classes that have weight."""
        weight = self.statistics_.weight[self.statistics_.weight > 0]
        return (weight / weight.sum()).log()

    @property
    def _parts(self) -> Components:
        """The components of the classes that have weight, one each unless several are fitted."""
        if self.components_ is not None:
            return self.components_
        s, at = self.state_, self.statistics_.weight > 0
        state = ClassState(s.mu[at], s.kappa[at], s.count[at], validate_args=False)
        return Components.single(state)

    def _query(self, X: Any) -> Rows:
        """Return the rows on the device of the classes."""
        check_is_fitted(self, "statistics_")
        self._require_fitted_with()
        return inputs.features(self, X, reset=False).to(self.statistics_.device)

    @torch.no_grad()
    def _scores(self, X: Any, cosine: Tensor | None = None) -> Tensor:
        """Return the scores [N, C] on the device of the classes, of known cosines [N, M] if any."""
        rows, weight, parts = self._query(X), self.statistics_.weight, self._parts
        classes = self._class_scores(rows.dtype)
        scores = torch.full((len(rows), len(weight)), -torch.inf).to(rows.device, rows.dtype)
        columns = slice(None) if bool((weight > 0).all()) else weight > 0
        for part in row_chunks(rows, len(classes.mu)):
            rho = cosines(self._units(rows[part]), classes.mu) if cosine is None else cosine[part]
            scores[part, columns] = parts.of_classes(classes.at(rho))
        return scores.mul_(self._scale())

    def decision_function(self, X: Any) -> Array:
        """Return the scores with prior and scale [N, C]; for two classes their difference [N]."""
        scores = self._scores(X)
        return returned(scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores, X)

    def _logits(self, X: Any, cosine: Tensor | None = None) -> Tensor:
        scores, calibration = self._scores(X, cosine), self.calibration_
        if calibration and calibration.get("rule", rule := self._written_rule()) != rule:
            self._drop_calibration("other parameters")
        return scores if self.calibration_ is None else calibrated(scores, self.calibration_)

    def _written_rule(self) -> list[Any]:
        """Return what decides the scores of fitted classes, as JSON types."""
        realization, tau, *others = self._rule()
        tau = np.asarray(inputs.as_numpy(tau), float).tolist()
        return [realization, tau, *map(float, others), self._scale()]

    def _drop_calibration(self, reason: str) -> None:
        """Drop the calibration of other scores with a warning."""
        if self.calibration_ is not None:
            self.calibration_ = None
            text = f"the {reason} have other scores: the calibration is dropped"
            warnings.warn(f"{text}; call calibrate again", UserWarning, stacklevel=3)

    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithms of `predict_proba` [N, C]."""
        return returned(self._logits(X).log_softmax(-1), X)

    def predict_proba(self, X: Any) -> Array:
        """Return the softmax of the scores [N, C], or calibrated probabilities."""
        return returned(self._logits(X).softmax(-1), X)

    def predict(self, X: Any) -> Array:
        """Return the labels of the largest probabilities [N]; among equal ones the first class."""
        index = self._logits(X).argmax(-1)
        if isinstance(X, Tensor) and self.classes_.dtype.kind in "biuf":
            return torch.as_tensor(self.classes_, device=X.device)[index.to(X.device)]
        return self.classes_[index.cpu().numpy()]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy of `predict`, weighted by ``sample_weight`` [N]."""
        y, predicted, weights = map(inputs.as_numpy, (y, self.predict(X), sample_weight))
        return float(accuracy_score(y, predicted, sample_weight=weights))
