"""A mixture of von Mises-Fisher distributions as a scikit-learn estimator."""

import math
import warnings
from collections.abc import Callable
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from resultant._core.arrays import directions
from resultant._core.device import require_device
from resultant._core.validation import finite_number, integer
from resultant.classifiers import inputs
from resultant.classifiers.em import EM, Fit, Mixture, Sums, WeightedRows, seed_directions
from resultant.vmf.distribution import VonMisesFisher
from resultant.vmf.estimators import ESTIMATORS

CHOICES = {
    "assignment": ("soft", "hard"),
    "concentration": ("free", "tied"),
    "estimator": ESTIMATORS,
    "init": ("k-means++", "random"),
}


class VMFMixture(DensityMixin, BaseEstimator):
    r"""Mixture of von Mises-Fisher distributions, fitted by expectation-maximization.

    The density of a direction z is :math:`\sum_k w_k e^{\kappa_k\mu_k^\top z}/Z_p(\kappa_k)`. Rows
    are read in chunks, also from ``numpy.memmap``; a component without rows has weight 0.

    Args:
        n_components: Number of components K.
        assignment: ``soft`` shares each row among the components (EM); ``hard`` gives it to the
            most likely one (classification EM).
        concentration: ``free``, or ``tied`` for one kappa of all components, steadier for few rows.
        estimator: Estimator of kappa, see `concentration`; for few rows ``corrected`` or ``loo``.
        init: ``k-means++`` on the sphere (from at most 16,384 random rows), ``random`` rows, or
            directions [K, p].
        n_init: Number of starts; the best likelihood is kept.
        max_iter: The most passes over the rows.
        tol: Change of the mean log-likelihood at which a fit has converged.
        max_kappa: Largest concentration, that of equal rows; by default 1e5, or 100 p if larger.
        random_state: Seed, or random state of NumPy.
        device: Device of the computation, by default that of X (the CPU for NumPy).

    Attributes:
        weights_: Weights [K] of the components.
        directions_: Mean directions [K, p].
        concentrations_: Concentrations kappa [K].
        converged_, n_iter_: True if the fit has converged, and its passes over the rows.
        lower_bound_: Mean log-likelihood of the fitted rows; with ``hard``, of the assigned rows.

    Raises:
        ValueError: In `fit`, for parameters out of range and for rows of other shapes or values.

    Example:
        >>> X = [[1.0, 0.1], [1.0, 0.0], [1.0, -0.1], [0.1, 1.0], [0.0, 2.0], [-0.1, 1.0]]
        >>> mixture = VMFMixture(2, random_state=0).fit(X)
        >>> mixture.weights_.round(3).tolist(), len(set(mixture.predict(X)[:3]))
        ([0.5, 0.5], 1)
    """

    n_features_in_: int

    def __init__(
        self,
        n_components: int = 1,
        *,
        assignment: str = "soft",
        concentration: str = "free",
        estimator: str = "mle",
        init: Any = "k-means++",
        n_init: int = 1,
        max_iter: int = 200,
        tol: float = 1e-4,
        max_kappa: float | None = None,
        random_state: Any = None,
        device: torch.device | str | None = None,
    ) -> None:
        self.n_components = n_components
        self.assignment = assignment
        self.concentration = concentration
        self.estimator = estimator
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.max_kappa = max_kappa
        self.random_state = random_state
        self.device = device

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the mixture to rows [N, p] of any length, N >= n_components, with weights [N] >= 0;
        y is ignored."""
        rows, em = self._rows(X, sample_weight, reset=True)
        random = check_random_state(self.random_state)
        starts = range(integer("n_init", self.n_init, 1))
        best: Fit = max(
            (em.fit(rows, self._seeds(rows, random)) for _ in starts), key=lambda fit: fit.value
        )
        self._set(best.mixture)
        self.converged_, self.n_iter_ = best.converged, best.passes
        self.lower_bound_ = best.value
        self._sums: Sums | None = best.sums
        if not self.converged_:
            rule = f"expected a change of the mean log-likelihood below tol = {self.tol:g}"
            text = f"{rule} within {self.max_iter} passes, got more; raise max_iter or tol"
            warnings.warn(text, ConvergenceWarning, stacklevel=2)
        return self

    @torch.no_grad()
    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Add rows, as in `fit`, which the components share as they are before they are fitted to
        the sums of all rows so far (incremental EM); a first call gives the start."""
        before: Sums | None = getattr(self, "_sums", None)
        rows, em = self._rows(X, sample_weight, reset=before is None)
        if before is None:
            random = check_random_state(self.random_state)
            mixture, steps = em.start(rows, self._seeds(rows, random)), 0
        else:
            mixture, steps = self._mixture(rows.device), self.n_iter_
        sums = em.expect(rows, mixture)
        if before is not None:
            sums = Sums(*(a.to(b.device) + b for a, b in zip(before, sums, strict=True)))
        self._sums = sums
        self._set(em.maximize(sums))
        self.n_iter_, self.converged_ = steps + 1, False
        self.lower_bound_ = float(sums.value / sums.number)
        return self

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> np.ndarray:
        """Fit the mixture and return the most likely components [N] of the rows."""
        return inputs.as_numpy(self.fit(X, sample_weight=sample_weight).predict(X))

    def predict(self, X: Any) -> inputs.Array:
        """Return the most likely component [N] of each row."""
        return inputs.returned(self._joint(X)[0].argmax(-1), X)

    def predict_proba(self, X: Any) -> inputs.Array:
        """Return the probabilities [N, K] of the components, given each row."""
        joint, dtype = self._joint(X)
        return inputs.returned(joint.softmax(-1).to(dtype), X)

    def score_samples(self, X: Any) -> inputs.Array:
        """Return the log densities [N] of the directions of the rows."""
        joint, dtype = self._joint(X)
        return inputs.returned(joint.logsumexp(-1).to(dtype), X)

    def score(self, X: Any, y: Any = None) -> float:  # type: ignore[override]
        """Return the mean of `score_samples`."""
        return float(self._joint(X)[0].logsumexp(-1).mean())

    def bic(self, X: Any) -> float:
        """Return the Bayesian information criterion of rows; the lowest is the best."""
        return self._criterion(X, math.log)

    def aic(self, X: Any) -> float:
        """Return the Akaike information criterion of rows; the lowest is the best."""
        return self._criterion(X, lambda _: 2.0)

    def _criterion(self, X: Any, penalty: Callable[[int], float]) -> float:
        """Return the penalty of each parameter, less twice the log-likelihood."""
        joint, (K, p) = self._joint(X)[0], self.directions_.shape
        number = K * (p - 1) + (1 if self.concentration == "tied" else K) + K - 1
        return penalty(len(joint)) * number - 2 * float(joint.logsumexp(-1).sum())

    def sample(self, n_samples: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Draw unit vectors [n_samples, p] in order of their components, and the components."""
        check_is_fitted(self)
        number = integer("n_samples", n_samples, 1)
        random = check_random_state(self.random_state)
        # Weights of rounded sums: multinomial refuses a sum above one.
        counts = random.multinomial(number, self.weights_ / self.weights_.sum())
        mixture = self._mixture(torch.device("cpu"))
        with torch.random.fork_rng(devices=[]):
            # torch.manual_seed would seed all devices.
            torch.default_generator.manual_seed(int(random.randint(1 << 31)))
            drawn = [
                VonMisesFisher(mu, kappa, validate_args=False).sample((int(n),))
                for mu, kappa, n in zip(mixture.mu, mixture.kappa, counts, strict=True)
            ]
        return torch.cat(drawn).numpy(), np.repeat(np.arange(len(counts)), counts)

    def _rows(self, X: Any, sample_weight: Any, *, reset: bool) -> tuple[WeightedRows, EM]:
        """Check rows and parameters; return both as the algorithm takes them."""
        K = integer("n_components", self.n_components, 1)
        for name, values in CHOICES.items():
            value = getattr(self, name)
            if (isinstance(value, str) or name != "init") and value not in values:
                also = " or directions [K, p]" if name == "init" else ""
                raise ValueError(f"expected {name} to be one of {values}{also}, got {value!r}")
        rows = inputs.features(self, X, reset=reset, dense=True)
        if reset and len(rows) < K:
            raise ValueError(f"expected n_samples >= n_components, got N = {len(rows)} for {K}")
        weight = torch.from_numpy(inputs.sample_weights(sample_weight, len(rows))).to(rows.device)
        cap = max(1e5, 100 * rows.shape[1]) if self.max_kappa is None else self.max_kappa
        cap, tol = finite_number("max_kappa", cap), finite_number("tol", self.tol)
        if cap <= 0:
            raise ValueError(f"expected max_kappa > 0, got {cap:g}")
        hard, tied = self.assignment == "hard", self.concentration == "tied"
        em = EM(hard, tied, self.estimator, integer("max_iter", self.max_iter, 1), tol, cap)
        index = torch.arange(len(rows), device=rows.device)
        return WeightedRows(rows, weight, index, self._device(rows)), em

    def _seeds(self, rows: WeightedRows, random: np.random.RandomState) -> Tensor:
        """Return the seeds [K, p]."""
        if isinstance(self.init, str):
            if self.init == "k-means++":
                return seed_directions(rows, self.n_components, random)
            chosen = random.choice(len(rows.X), self.n_components, replace=False)
            return rows.rows(torch.from_numpy(chosen).to(rows.X.device))[0]
        seeds = torch.as_tensor(self.init, dtype=torch.float64, device=rows.device)
        if seeds.shape != (self.n_components, rows.X.shape[1]):
            rule = f"expected init [{self.n_components}, {rows.X.shape[1]}]"
            raise ValueError(f"{rule}, got shape {tuple(seeds.shape)}")
        seeds, length = directions(seeds)
        bad = ~((length > 0) & length.isfinite())
        if bad.any():
            rule = "expected init of finite directions, none of them zeros"
            raise ValueError(f"{rule}, got zeros, NaN or infinity in row {int(bad.nonzero()[0])}")
        return seeds

    def _set(self, mixture: Mixture) -> None:
        arrays = (a.cpu().numpy() for a in (mixture.weight, mixture.mu, mixture.kappa))
        self.weights_, self.directions_, self.concentrations_ = arrays

    def _mixture(self, device: torch.device) -> Mixture:
        arrays = (self.directions_, self.concentrations_, self.weights_)
        return Mixture(*(torch.as_tensor(a, device=device) for a in arrays))

    @torch.no_grad()
    def _joint(self, X: Any) -> tuple[Tensor, torch.dtype]:
        """Return log weight times density [N, K] in float64, and the dtype of the rows."""
        check_is_fitted(self)
        rows = inputs.features(self, X, reset=False, dense=True)
        mixture = self._mixture(self._device(rows))
        parts = [
            mixture.log_joint(directions(rows[part].to(mixture.mu.device))[0])
            for part in inputs.row_chunks(rows, len(self.weights_))
        ]
        return torch.cat(parts), rows.dtype

    def _device(self, rows: inputs.Rows) -> torch.device:
        return rows.device if self.device is None else require_device(self.device)
