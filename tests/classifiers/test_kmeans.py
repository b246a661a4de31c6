"""Spherical k-means against a naive Lloyd iteration, and against the mixture of the same rule."""

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import check_estimator

from resultant import SphericalKMeans, VMFMixture
from resultant.classifiers.em import WeightedRows
from resultant.classifiers.kmeans import lloyd


def sample(spread: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    rng, y = np.random.default_rng(0), np.arange(600) % 4
    return np.eye(12)[y] + spread * rng.normal(size=(600, 12)), y


X, Y = sample()
UNITS = X / np.linalg.norm(X, axis=1, keepdims=True)


def naive(centres: np.ndarray, weight: np.ndarray, passes: int) -> np.ndarray:
    """Lloyd's iteration in three lines."""
    for _ in range(passes):
        nearest = (UNITS @ centres.T).argmax(1)
        sums = np.stack([weight[nearest == k] @ UNITS[nearest == k] for k in range(len(centres))])
        centres = sums / np.linalg.norm(sums, axis=1, keepdims=True)
    return centres


@pytest.mark.parametrize("passes", [1, 2, 7])
def test_is_lloyds_iteration(passes: int) -> None:
    weight = np.random.default_rng(1).uniform(0.5, 2, len(X))
    rows = WeightedRows(
        torch.from_numpy(3 * X), torch.from_numpy(weight), torch.arange(len(X)), torch.device("cpu")
    )
    centres, inertia, number, _ = lloyd(rows, torch.from_numpy(UNITS[:4]), passes, -1.0)
    np.testing.assert_allclose(centres, naive(UNITS[:4], weight, passes), rtol=0, atol=1e-12)
    before = naive(UNITS[:4], weight, passes - 1)
    expected = weight @ (1 - (UNITS @ before.T).max(1))
    assert inertia == pytest.approx(expected, rel=1e-10) and number == passes


def test_clusters_are_found_and_lengths_do_not_count() -> None:
    lengths = np.random.default_rng(2).uniform(0.01, 100, (len(X), 1))
    model = SphericalKMeans(4, random_state=0).fit(lengths * X)
    assert adjusted_rand_score(Y, model.labels_) > 0.9
    assert adjusted_rand_score(Y, KMeans(4, random_state=0).fit_predict(lengths * X)) < 0.5
    np.testing.assert_allclose(np.linalg.norm(model.cluster_centers_, axis=1), 1, rtol=1e-12)
    cosine = UNITS @ model.cluster_centers_.T
    np.testing.assert_array_equal(model.labels_, cosine.argmax(1))
    np.testing.assert_allclose(model.transform(X), 1 - cosine, rtol=0, atol=1e-12)
    assert -model.score(X) == pytest.approx(model.inertia_, rel=1e-4)


def test_the_mixture_of_the_same_rule_agrees() -> None:
    """Equal shares: hard assignment and one kappa are the nearest direction."""
    ours = SphericalKMeans(4, random_state=0).fit(X)
    theirs: Any = VMFMixture(4, assignment="hard", concentration="tied", random_state=0).fit(X)
    assert adjusted_rand_score(ours.labels_, theirs.predict(X)) > 0.99


def test_refusals() -> None:
    with pytest.raises(ValueError, match="n_samples >= n_clusters, got N = 3 for 8"):
        SphericalKMeans().fit(X[:3])
    with pytest.raises(ValueError, match="n_clusters"):
        SphericalKMeans(0).fit(X)
    with pytest.warns(ConvergenceWarning, match="within 1 passes, got more"):
        SphericalKMeans(4, max_iter=1, random_state=0).fit(X)


def test_scikit_learn_takes_it_for_its_own() -> None:
    """But for weights in place of repeated rows, where k-means++ draws other seeds: as KMeans."""
    expected = {"check_sample_weight_equivalence_on_dense_data": "k-means++ draws other seeds"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_estimator(SphericalKMeans(n_init=2), expected_failed_checks=expected)
