"""Mixtures of vMF against a naive EM and published results of movMF."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq
from sklearn.exceptions import ConvergenceWarning

from resultant.classifiers.mixture import VMFMixture

# Expenses for housing, food and service of 20 single women and 20 single men (R package HSAUR3).
HOUSEHOLD = np.array(
    [
        *([820, 114, 154], [184, 74, 20], [921, 66, 455], [488, 80, 115], [721, 83, 104]),
        *([614, 55, 193], [801, 56, 214], [396, 59, 80], [864, 65, 352], [845, 64, 414]),
        *([404, 97, 47], [781, 47, 452], [457, 103, 108], [1029, 71, 189], [1047, 90, 298]),
        *([552, 91, 158], [718, 104, 304], [495, 114, 74], [382, 77, 147], [1090, 59, 177]),
        *([497, 591, 291], [839, 942, 365], [798, 1308, 584], [892, 842, 395], [1585, 781, 1740]),
        *([755, 764, 438], [388, 655, 233], [617, 879, 719], [248, 438, 65], [1641, 440, 2063]),
        *([1180, 1243, 813], [619, 684, 204], [253, 422, 48], [661, 739, 188], [1981, 869, 1032]),
        *(
            [1746, 746, 1594],
            [1865, 915, 1767],
            [238, 522, 75],
            [1199, 1095, 344],
            [1524, 964, 1410],
        ),
    ],
    dtype=np.float64,
)


# sapply(vMFs, BIC) of Hornik and Gruen, "movMF: An R Package for Fitting Mixtures of von
# Mises-Fisher Distributions", section 4.3, for densities with respect to the uniform distribution.
MOVMF_BIC = (-169.4291, -200.3364, -211.5490, -206.9498, -198.5651)


# Table 1 there: weight, direction and concentration for K = 2 and 3.
MOVMF_TABLE = {
    2: [(0.47, (0.95, 0.13, 0.27), 114.70), (0.53, (0.67, 0.63, 0.40), 17.96)],
    3: [
        (0.52, (0.95, 0.15, 0.27), 83.26),
        (0.13, (0.67, 0.31, 0.68), 181.21),
        (0.35, (0.59, 0.76, 0.28), 62.91),
    ],
}


def log_density(x: np.ndarray, mu: np.ndarray, kappa: float) -> np.ndarray:
    return kappa * (x @ mu) - (math.log(4 * math.pi * math.sinh(kappa) / kappa))


def inverse(R: float) -> float:
    return float(brentq(lambda k: 1 / math.tanh(k) - 1 / k - R, 1e-6, 600, xtol=1e-14))  # type: ignore[arg-type]


def naive_em(
    x: np.ndarray, seeds: np.ndarray, steps: int, *, hard: bool, tied: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Run EM by loops from the rows nearest to each seed with one concentration."""
    K = len(seeds)
    r = np.eye(K)[(x @ seeds.T).argmax(1)]
    one_kappa, value, weight, mu, kappa = True, math.nan, [], [], []
    for _ in range(steps + 1):
        weight, mu, R = [], [], []
        for k in range(K):
            total = sum(r[i, k] * x[i] for i in range(len(x)))
            weight.append(sum(r[:, k]))
            mu.append(total / np.linalg.norm(total))
            R.append(np.linalg.norm(total) / weight[k])
        if tied or one_kappa:
            R = [sum(w * a for w, a in zip(weight, R, strict=True)) / len(x)] * K
        one_kappa = False
        kappa = [inverse(a) for a in R]
        joint = np.stack(
            [math.log(weight[k] / len(x)) + log_density(x, mu[k], kappa[k]) for k in range(K)], 1
        )
        if hard:
            value, r = joint.max(1).mean(), np.eye(K)[joint.argmax(1)]
        else:
            norm = np.log(np.exp(joint).sum(1))
            value, r = norm.mean(), np.exp(joint - norm[:, None])
    return np.array(weight) / len(x), np.array(mu), np.array(kappa), value


@pytest.mark.slow
@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("tied", [False, True])
def test_steps_are_those_of_a_naive_em(hard: bool, tied: bool) -> None:
    x = HOUSEHOLD / np.linalg.norm(HOUSEHOLD, axis=1, keepdims=True)
    seeds = x[[0, 24, 22]]
    options: dict[str, Any] = {"assignment": "hard" if hard else "soft"}
    options["concentration"] = "tied" if tied else "free"
    with pytest.warns(ConvergenceWarning, match="raise max_iter or tol"):
        mixture = VMFMixture(3, init=seeds, max_iter=4, tol=0.0, **options).fit(HOUSEHOLD)
    weight, mu, kappa, value = naive_em(x, seeds, 4, hard=hard, tied=tied)
    np.testing.assert_allclose(mixture.weights_, weight, rtol=1e-9)
    np.testing.assert_allclose(mixture.directions_, mu, rtol=0, atol=1e-9)
    np.testing.assert_allclose(mixture.concentrations_, kappa, rtol=1e-8)
    assert mixture.lower_bound_ == pytest.approx(value, rel=1e-10)
    assert (mixture.n_iter_, mixture.converged_) == (4, False)


def movmf_bic(mixture: VMFMixture) -> float:
    return mixture.bic(HOUSEHOLD) - 2 * len(HOUSEHOLD) * math.log(4 * math.pi)


@pytest.mark.slow
@pytest.mark.parametrize("K", [2, 3])
def test_published_mixtures_of_movmf(K: int) -> None:
    table = MOVMF_TABLE[K]
    init = np.array([mu for _, mu, _ in table])
    mixture = VMFMixture(K, init=init, tol=1e-9).fit(HOUSEHOLD)
    assert movmf_bic(mixture) == pytest.approx(MOVMF_BIC[K - 1], abs=1e-3)
    for k, (weight, mu, kappa) in enumerate(table):
        assert mixture.weights_[k] == pytest.approx(weight, abs=0.005)
        np.testing.assert_allclose(mixture.directions_[k], mu, rtol=0, atol=0.005)
        assert mixture.concentrations_[k] == pytest.approx(kappa, abs=0.02)
