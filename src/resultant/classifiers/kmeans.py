"""K-means on the unit sphere as a scikit-learn estimator."""

import math
import warnings
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClusterMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from resultant._core.arrays import directions
from resultant._core.validation import finite_number, integer
from resultant.classes.scores import cosines
from resultant.classifiers import inputs
from resultant.classifiers.em import EM, Mixture, WeightedRows, seed_directions
from resultant.vmf.estimators import fit_direction

# Assignment to the most likely component; of equal kappa and weight that is the nearest direction.
NEAREST = EM(hard=True)


class SphericalKMeans(TransformerMixin, ClusterMixin, BaseEstimator):
    r"""Spherical k-means: clusters of directions, by the cosine.

    Each row goes to the centre of the largest cosine, and each centre to the direction of the sum
    of its rows, which minimizes :math:`\sum_n(1-\mu_{k(n)}^\top z_n)`. The lengths of rows do not
    count. `VMFMixture` with ``assignment="hard", concentration="tied"`` also fits the shares of the
    clusters and one kappa, and so has densities and an information criterion.

    Args:
        n_clusters: Number of clusters K.
        n_init: Number of starts; the one of the least inertia is kept.
        max_iter: The most passes over the rows.
        tol: Change of the mean of 1 - cosine at which a start has converged.
        random_state: Seed, or random state of NumPy, of k-means++ on the sphere.

    Attributes:
        cluster_centers_: Unit vectors [K, p].
        labels_: Clusters [N] of the fitted rows.
        inertia_: Sum of 1 - cosine over the fitted rows, by weight.
        n_iter_: Passes over the rows of the best start.

    Raises:
        ValueError: In `fit`, for parameters out of range and for rows of other shapes or values.

    Example:
        >>> X = [[1.0, 0.1], [5.0, 0.0], [1.0, -0.1], [0.1, 1.0], [0.0, 2.0], [-0.1, 1.0]]
        >>> labels = SphericalKMeans(2, random_state=0).fit_predict(X)
        >>> len(set(labels[:3])), len(set(labels[3:])), len(set(labels))
        (1, 1, 2)
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        n_init: int = 10,
        max_iter: int = 300,
        tol: float = 1e-6,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    @torch.no_grad()
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find the clusters of rows [N, p], N >= n_clusters, with weights [N] >= 0; not of y."""
        K, most = integer("n_clusters", self.n_clusters, 1), integer("max_iter", self.max_iter, 1)
        starts, tol = range(integer("n_init", self.n_init, 1)), finite_number("tol", self.tol)
        units = inputs.features(self, X, reset=True, dense=True)
        if len(units) < K:
            raise ValueError(f"expected n_samples >= n_clusters, got N = {len(units)} for {K}")
        weight = torch.from_numpy(inputs.sample_weights(sample_weight, len(units)))
        weight, index = weight.to(units.device), torch.arange(len(units), device=units.device)
        rows = WeightedRows(units, weight, index, units.device)
        random = check_random_state(self.random_state)
        found = [lloyd(rows, seed_directions(rows, K, random), most, tol) for _ in starts]
        centres, inertia, self.n_iter_, converged = min(found, key=lambda start: start[1])
        self.cluster_centers_, self.inertia_ = centres.cpu().numpy(), inertia
        self.labels_ = inputs.as_numpy(self.predict(X))
        if not converged:
            rule = f"expected a change of the mean of 1 - cosine below tol = {self.tol:g}"
            text = f"{rule} within {most} passes, got more; raise max_iter or tol"
            warnings.warn(text, ConvergenceWarning, stacklevel=2)
        return self

    def fit_predict(  # type: ignore[override]
        self, X: Any, y: Any = None, sample_weight: Any = None
    ) -> np.ndarray:
        """Find the clusters and return those of the rows, [N]."""
        return self.fit(X, sample_weight=sample_weight).labels_

    def predict(self, X: Any) -> inputs.Array:
        """Return the cluster [N] of each row: the centre of the largest cosine."""
        return inputs.returned(self._cosines(X)[0].argmax(-1), X)

    def transform(self, X: Any) -> inputs.Array:
        """Return 1 - cosine [N, K] of each row and each centre."""
        cosine, dtype = self._cosines(X)
        return inputs.returned((1 - cosine).to(dtype), X)

    def score(self, X: Any, y: Any = None) -> float:
        """Return minus the sum of 1 - cosine of the rows and their nearest centres."""
        return -float((1 - self._cosines(X)[0].amax(-1)).sum())

    @torch.no_grad()
    def _cosines(self, X: Any) -> tuple[Tensor, torch.dtype]:
        """Return cosines [N, K] in float64, and the dtype of the rows."""
        check_is_fitted(self)
        rows = inputs.features(self, X, reset=False, dense=True)
        centres = torch.as_tensor(self.cluster_centers_, device=rows.device)
        parts = inputs.row_chunks(rows, len(centres))
        found = [cosines(directions(rows[part])[0], centres) for part in parts]
        return torch.cat(found), rows.dtype


def lloyd(
    rows: WeightedRows, centres: Tensor, max_iter: int, tol: float
) -> tuple[Tensor, float, int, bool]:
    """Improve centres [K, p] until the mean of 1 - cosine changes by less than a tolerance; return
    them, their inertia, the number of passes, and True if converged. A centre without rows stays.
    """
    ones, before = torch.ones_like(centres[:, 0]), math.inf
    constant = float(Mixture(centres, ones, ones / len(ones)).floor[0])
    inertia, converged, passes = math.inf, False, 0
    while passes < max_iter and not converged:
        passes += 1
        sums = NEAREST.expect(rows, Mixture(centres, ones, ones / len(ones)))
        number = float(sums.number)
        inertia = number * (1 + constant) - float(sums.value)
        converged = not abs(before - inertia) >= tol * number
        if not converged:
            own = fit_direction(sums.total, sums.weight)[0]
            centres = torch.where((sums.weight > 0).unsqueeze(-1), own, centres)
        before = inertia
    return centres, max(inertia, 0.0), passes, converged
