"""Mixtures of vMF against closed forms, a naive EM, and published results of movMF."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from resultant._core import chunks
from resultant.classifiers.mixture import VMFMixture
from resultant.vmf.distribution import VonMisesFisher

# The check truncates its rows to integers, which leaves a row of zeros.
REFUSES_ZEROS = {"check_estimators_dtypes": "a row of zeros has no direction"}

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

KAPPAS, SIZES = (20.0, 60.0, 150.0), (300, 500, 200)


def sample(p: int = 30, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows of three components in random order, the components, and their directions."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        mu = torch.nn.functional.normalize(torch.randn(3, p, dtype=torch.float64), dim=1)
        parts = [
            VonMisesFisher(m, k).sample((n,)) for m, k, n in zip(mu, KAPPAS, SIZES, strict=True)
        ]
        order = torch.randperm(sum(SIZES))
    y = np.repeat(np.arange(3), SIZES)[order]
    return torch.cat(parts)[order].numpy(), y, mu.numpy()


def fitted(X: Any, K: int, **options: Any) -> VMFMixture:
    """Fit without a word about convergence."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return VMFMixture(K, random_state=0, **options).fit(X)


def by_direction(mixture: VMFMixture, mu: np.ndarray) -> np.ndarray:
    """Return the component nearest to each direction."""
    return (mu @ mixture.directions_.T).argmax(1)


@pytest.mark.slow
@parametrize_with_checks([VMFMixture()], expected_failed_checks=lambda _: REFUSES_ZEROS)
def test_scikit_learn_estimator(estimator: Any, check: Any) -> None:
    check(estimator)


# On the sphere in three dimensions everything has a closed form.


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
    options = {
        "assignment": "hard" if hard else "soft",
        "concentration": "tied" if tied else "free",
    }
    mixture = fitted(HOUSEHOLD, 3, init=seeds, max_iter=4, tol=0.0, **options)
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


@pytest.mark.slow
@pytest.mark.parametrize("K", [1, 3, 4])
def test_starts_find_mixtures_at_least_as_likely_as_those_of_movmf(K: int) -> None:
    """movMF's best of 20 starts for K = 4 is less likely than ours."""
    found = movmf_bic(fitted(HOUSEHOLD, K, n_init=min(K, 4), tol=1e-5))
    assert found < MOVMF_BIC[K - 1] + 1e-3
    assert found == pytest.approx(MOVMF_BIC[K - 1], abs=1e-3 if K < 4 else 5)


def test_published_concentrations_of_movmf_by_gender() -> None:
    women, men = (VMFMixture().fit(rows) for rows in (HOUSEHOLD[:20], HOUSEHOLD[20:]))
    assert women.concentrations_[0] == pytest.approx(96.4, abs=0.05)
    assert men.concentrations_[0] == pytest.approx(20.3, abs=0.05)


@pytest.mark.slow
def test_one_component_is_the_maximum_likelihood_fit() -> None:
    X, _, _ = sample()
    weight = np.random.default_rng(0).uniform(0, 2, len(X))
    law = VonMisesFisher.fit(torch.from_numpy(X), torch.from_numpy(weight))
    mixture = VMFMixture().fit(3 * X, sample_weight=weight)
    np.testing.assert_allclose(mixture.directions_[0], law.loc, rtol=0, atol=1e-12)
    assert mixture.concentrations_[0] == pytest.approx(float(law.concentration), rel=1e-9)
    np.testing.assert_allclose(
        mixture.score_samples(X), law.log_prob(torch.from_numpy(X)), rtol=1e-10
    )
    assert mixture.score(X) == pytest.approx(float(law.log_prob(torch.from_numpy(X)).mean()))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"assignment": "hard"},
        {"estimator": "corrected"},
        {"estimator": "loo"},
        pytest.param({"init": "random"}, marks=pytest.mark.slow),
        pytest.param({"batch_size": 250, "max_iter": 6}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_recovers_components(options: dict[str, Any]) -> None:
    X, y, mu = sample()
    mixture = fitted(X, 3, **({"n_init": 3} | options))
    at = by_direction(mixture, mu)
    assert sorted(at) == [0, 1, 2]
    np.testing.assert_allclose(mixture.weights_[at] * len(X), SIZES, rtol=0.05)
    np.testing.assert_allclose(mixture.concentrations_[at], KAPPAS, rtol=0.06)
    assert (mixture.predict(X) == at[y]).mean() > 0.98
    proba = mixture.predict_proba(X)
    np.testing.assert_allclose(proba.sum(1), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(proba.argmax(1), mixture.predict(X))


def test_steps_of_partial_fit_recover_components() -> None:
    X, y, mu = sample()
    mixture = VMFMixture(3, random_state=3)
    for batch in np.split(X, 10):
        mixture.partial_fit(batch)
    at = by_direction(mixture, mu)
    assert sorted(at) == [0, 1, 2]
    np.testing.assert_allclose(mixture.weights_[at] * len(X), SIZES, rtol=0.15)
    assert (mixture.predict(X) == at[y]).mean() > 0.97


def test_one_batch_of_all_rows_is_one_step_of_em() -> None:
    X, _, _ = sample()
    online = VMFMixture(3, random_state=0).partial_fit(X)
    whole = fitted(X, 3, max_iter=1)
    np.testing.assert_allclose(online.concentrations_, whole.concentrations_, rtol=1e-10)
    np.testing.assert_allclose(online.directions_, whole.directions_, rtol=0, atol=1e-12)


@pytest.mark.slow
def test_likelihood_never_decreases() -> None:
    X, _, _ = sample()
    values = [fitted(X, 4, max_iter=n, tol=0.0).lower_bound_ for n in (1, 2, 3, 5, 8)]
    assert (np.diff(values) > -1e-12).all()
    assert values[-1] > values[0]


def test_correction_in_high_dimension() -> None:
    """With 40 rows per component in 2,000 dimensions the MLE is a quarter too large."""
    torch.manual_seed(0)
    p, n, kappa = 2_000, 40, 600.0
    mu = torch.nn.functional.normalize(torch.randn(2, p, dtype=torch.float64), dim=1)
    X = torch.cat([VonMisesFisher(m, kappa).sample((n,)) for m in mu])
    plain, corrected = (fitted(X, 2, estimator=name) for name in ("mle", "corrected"))
    assert (plain.concentrations_ > 1.15 * kappa).all()
    np.testing.assert_allclose(corrected.concentrations_, kappa, rtol=0.04)


def test_stable_at_dimension_65536() -> None:
    torch.manual_seed(0)
    p, kappas = 65_536, torch.tensor([5e4, 1e6])
    mu = torch.nn.functional.normalize(torch.randn(2, p), dim=1)
    X = torch.cat([VonMisesFisher(m, k).sample((12,)) for m, k in zip(mu, kappas, strict=True)])
    mixture = fitted(X, 2, estimator="corrected")
    at = by_direction(mixture, mu.numpy())
    np.testing.assert_allclose(mixture.concentrations_[at], kappas, rtol=0.02)
    assert (
        np.isfinite(mixture.bic(X)) and torch.as_tensor(mixture.score_samples(X)).isfinite().all()
    )


@pytest.mark.slow
def test_same_numbers_in_chunks_in_float32_and_as_tensor(monkeypatch: pytest.MonkeyPatch) -> None:
    X, _, _ = sample()
    X = X.astype(np.float32)
    whole = fitted(X, 3)
    monkeypatch.setattr(chunks, "MATRIX_BYTES", 100 * 8 * X.shape[1])
    chunked, tensor = fitted(X, 3), fitted(torch.from_numpy(X), 3)
    for other in (chunked, tensor, fitted(X.astype(np.float64), 3)):
        np.testing.assert_allclose(other.concentrations_, whole.concentrations_, rtol=1e-9)
    density = tensor.score_samples(torch.from_numpy(X))
    assert isinstance(density, torch.Tensor) and density.dtype == torch.float32
    np.testing.assert_allclose(density, whole.score_samples(X), rtol=1e-5)
    assert tensor.predict_proba(torch.from_numpy(X)).shape == (len(X), 3)


def test_rows_on_a_disk_are_not_copied(tmp_path: Any) -> None:
    X, _, _ = sample()
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    rows = VMFMixture()._rows(mapped, None, reset=True)[0].X
    assert rows.data_ptr() == mapped.ctypes.data
    assert fitted(mapped, 3, batch_size=500, max_iter=1).weights_.sum() == pytest.approx(1.0)


def test_weights_repeat_rows() -> None:
    X, _, mu = sample()
    weight = np.random.default_rng(0).integers(0, 3, len(X))
    repeated = fitted(np.repeat(X, weight, axis=0), 3, init=mu)
    weighted = VMFMixture(3, init=mu, random_state=0).fit(X, sample_weight=weight)
    np.testing.assert_allclose(weighted.concentrations_, repeated.concentrations_, rtol=1e-8)
    np.testing.assert_allclose(weighted.weights_, repeated.weights_, rtol=1e-9)


# Degenerate samples


@pytest.mark.parametrize("assignment", ["soft", "hard"])
def test_more_components_than_distinct_rows(assignment: str) -> None:
    X = np.repeat(np.eye(4)[:2], 5, axis=0)
    mixture = fitted(X, 4, assignment=assignment)
    assert mixture.weights_.sum() == pytest.approx(1.0)
    assert np.isfinite(mixture.score_samples(X)).all()
    assert (mixture.concentrations_ <= 1e5).all()
    assert len(set(mixture.predict(X)[:5])) == 1
    assert mixture.predict(X)[0] != mixture.predict(X)[5]


def test_equal_rows_have_the_largest_concentration() -> None:
    X = np.tile([1.0, 2.0, 2.0], (6, 1))
    assert fitted(X, 1).concentrations_.tolist() == [1e5]
    assert fitted(X, 2, max_kappa=500.0).concentrations_.max() == 500.0
    assert fitted(np.tile(np.eye(1, 2000), (3, 1)), 1).concentrations_.tolist() == [2e5]


def test_component_that_loses_its_rows_has_weight_zero() -> None:
    X, _, mu = sample()
    mixture = fitted(X, 4, init=np.vstack([mu, -mu[:1] - mu[1:2] - mu[2:]]), assignment="hard")
    assert sorted(mixture.weights_)[0] == 0.0
    assert (mixture.predict_proba(X)[:, mixture.weights_.argmin()] == 0).all()
    assert mixture.sample(50)[0].shape == (50, X.shape[1])


def test_opposite_rows_are_uniform() -> None:
    mixture = fitted(np.array([[1.0, 0.0], [-1.0, 0.0]]), 1)
    assert mixture.concentrations_.tolist() == [0.0]
    assert mixture.score([[0.3, 0.4]]) == pytest.approx(-math.log(2 * math.pi))


# Criteria, samples, errors


@pytest.mark.slow
def test_information_criteria() -> None:
    X, _, _ = sample()
    total = 2 * len(X) * fitted(X, 3).score(X)
    free, tied = (fitted(X, 3, concentration=name) for name in ("free", "tied"))
    assert free.bic(X) == pytest.approx((3 * 30 + 2) * math.log(len(X)) - total)
    assert free.aic(X) == pytest.approx(2 * (3 * 30 + 2) - total)
    parameters = (tied.bic(X) + 2 * len(X) * tied.score(X)) / math.log(len(X))
    assert parameters == pytest.approx(3 * 29 + 1 + 2)
    assert min((2, 3, 4), key=lambda K: fitted(X, K).bic(X)) == 3


def test_samples_come_from_the_components() -> None:
    X, _, _ = sample()
    mixture = fitted(X, 3)
    Z, y = mixture.sample(3000)
    np.testing.assert_allclose(np.linalg.norm(Z, axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(np.bincount(y) / 3000, mixture.weights_, atol=0.03)
    for k in range(3):
        refit = VMFMixture().fit(Z[y == k])
        assert refit.concentrations_[0] == pytest.approx(mixture.concentrations_[k], rel=0.06)
        assert refit.directions_[0] @ mixture.directions_[k] > 0.99
    np.testing.assert_array_equal(mixture.sample(3000)[0], Z)


def test_seed_fixes_the_fit() -> None:
    X, _, _ = sample()
    a, b = (VMFMixture(5, random_state=7, max_iter=20, tol=1e-2) for _ in range(2))
    np.testing.assert_array_equal(a.fit_predict(X), b.fit(X).predict(X))
    np.testing.assert_array_equal(a.directions_, b.directions_)
    fresh: Any = clone(a)
    assert fresh.get_params() == a.get_params()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": 0}, "expected n_components to be an integer >= 1, got 0"),
        ({"n_components": 99}, "expected n_samples >= n_components, got N = 60 for 99"),
        (
            {"assignment": "firm"},
            r"expected assignment to be one of \('soft', 'hard'\), got 'firm'",
        ),
        ({"concentration": "one"}, r"expected concentration to be one of .*, got 'one'"),
        ({"estimator": "map"}, r"expected estimator to be one of .*, got 'map'"),
        ({"init": "pca"}, r"expected init to be one of .* or directions \[K, p\], got 'pca'"),
        ({"init": np.eye(3)}, r"expected init \[1, 30\], got shape \(3, 3\)"),
        ({"tol": math.nan}, "expected tol to be a finite number, got nan"),
        ({"batch_size": 0}, "expected batch_size to be an integer >= 1, got 0"),
        ({"n_init": 0}, "expected n_init to be an integer >= 1, got 0"),
    ],
)
def test_parameters_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        VMFMixture(**options).fit(sample()[0][:60])


def test_rows_of_zeros_are_refused() -> None:
    X, _, _ = sample()
    X[7] = 0
    with pytest.raises(ValueError, match="a row of zeros in row 7"):
        VMFMixture().fit(X)


def test_unfinished_fit_warns() -> None:
    with pytest.warns(ConvergenceWarning, match="raise max_iter or tol"):
        VMFMixture(4, max_iter=1, random_state=0).fit(sample()[0])


@pytest.mark.gpu
def test_on_a_gpu() -> None:
    X, _, mu = sample()
    host = fitted(X, 3, init=mu)
    T = torch.from_numpy(X).cuda()
    for other in (fitted(X, 3, init=mu, device="cuda"), fitted(T, 3, init=mu)):
        np.testing.assert_allclose(other.concentrations_, host.concentrations_, rtol=1e-8)
        assert torch.as_tensor(other.score_samples(T)).is_cuda
    assert fitted(T, 3, batch_size=100, max_iter=3).predict(T).shape == (len(X),)
