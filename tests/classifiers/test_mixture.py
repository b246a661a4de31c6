"""Mixtures of vMF: recovery, degenerate samples, a naive EM, and published results of movMF."""

import math
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from sklearn.exceptions import ConvergenceWarning

from resultant._core import memory
from resultant.classifiers import em
from resultant.classifiers.mixture import VMFMixture
from resultant.vmf.distribution import VonMisesFisher
from resultant.vmf.estimators import concentration, mean_resultant

KAPPAS, SIZES = (20.0, 60.0, 150.0), (300, 500, 200)


def sample() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows of three components in random order, the components, and their directions."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        mu = torch.nn.functional.normalize(torch.randn(3, 30, dtype=torch.float64), dim=1)
        y = np.random.default_rng(0).permutation(np.repeat(np.arange(3), SIZES))
        x = VonMisesFisher(mu[y], torch.tensor(KAPPAS, dtype=torch.float64)[y]).sample()
    return x.numpy(), y, mu.numpy()


X, OWN, MU = sample()


def fitted(X: Any, K: int, **options: Any) -> VMFMixture:
    """Fit without a word about convergence."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return VMFMixture(K, random_state=0, **options).fit(X)


def by_direction(mixture: VMFMixture, mu: np.ndarray) -> np.ndarray:
    """Return the component nearest to each direction."""
    return (mu @ mixture.directions_.T).argmax(1)


def test_one_component_is_the_maximum_likelihood_fit() -> None:
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
        {"init": "random"},
    ],
    ids=str,
)
def test_recovers_components(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """From seeds among some of the rows."""
    monkeypatch.setattr(em, "SEED_ROWS", 200)
    mixture = fitted(X, 3, **({"n_init": 3} | options))
    at = by_direction(mixture, MU)
    assert sorted(at) == [0, 1, 2]
    np.testing.assert_allclose(mixture.weights_[at] * len(X), SIZES, rtol=0.05)
    np.testing.assert_allclose(mixture.concentrations_[at], KAPPAS, rtol=0.06)
    assert (np.asarray(mixture.predict(X)) == at[OWN]).mean() > 0.98
    proba = mixture.predict_proba(X)
    np.testing.assert_allclose(proba.sum(1), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(proba.argmax(1), mixture.predict(X))


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


def test_same_numbers_in_chunks_in_float32_and_as_tensor(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    single = X.astype(np.float32)
    whole = fitted(single, 3)
    monkeypatch.setattr(memory, "MATRIX_BYTES", 100 * 8 * X.shape[1])
    chunked, tensor = fitted(single, 3), fitted(torch.from_numpy(single), 3)
    for other in (chunked, tensor, fitted(single.astype(np.float64), 3)):
        np.testing.assert_allclose(other.concentrations_, whole.concentrations_, rtol=1e-9)
    density = tensor.score_samples(torch.from_numpy(single))
    assert isinstance(density, torch.Tensor) and density.dtype == torch.float32
    np.testing.assert_allclose(density, whole.score_samples(single), rtol=1e-5)
    assert tensor.predict_proba(torch.from_numpy(single)).shape == (len(X), 3)
    # Rows on a disk are not copied.
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    rows: Any = VMFMixture()._rows(mapped, None, reset=True)[0].X
    assert rows.data_ptr() == mapped.ctypes.data


def test_weights_repeat_rows() -> None:
    weight = np.random.default_rng(0).integers(0, 3, len(X))
    repeated = fitted(np.repeat(X, weight, axis=0), 3, init=MU)
    weighted = VMFMixture(3, init=MU, random_state=0).fit(X, sample_weight=weight)
    np.testing.assert_allclose(weighted.concentrations_, repeated.concentrations_, rtol=1e-8)
    np.testing.assert_allclose(weighted.weights_, repeated.weights_, rtol=1e-9)
    # Rows of zeros shorten the mean.
    with_zeros = VMFMixture().fit(np.vstack([X, np.zeros_like(X)]))
    law = VonMisesFisher.fit(torch.from_numpy(X))
    R = float(mean_resultant(X.shape[1], law.concentration)) / 2
    np.testing.assert_allclose(with_zeros.directions_[0], law.loc, atol=1e-12)
    kappa = float(concentration(X.shape[1], R))
    assert with_zeros.concentrations_[0] == pytest.approx(kappa, rel=1e-8)


@pytest.mark.parametrize("assignment", ["soft", "hard"])
def test_more_components_than_distinct_rows(assignment: str) -> None:
    """Equal rows have the largest concentration."""
    X = np.repeat(np.eye(4)[:2], 5, axis=0)
    mixture = fitted(X, 4, assignment=assignment)
    assert mixture.weights_.sum() == pytest.approx(1.0) and mixture.concentrations_.max() == 1e5
    assert np.isfinite(mixture.score_samples(X)).all()
    labels = mixture.fit_predict(X)
    assert len({*labels[:5]}) == len({*labels[5:]}) == 1 and labels[0] != labels[5]
    assert fitted(X, 2, max_kappa=500.0).concentrations_.tolist() == [500.0, 500.0]
    assert fitted(np.tile(np.eye(1, 2000), (3, 1)), 1).concentrations_.tolist() == [2e5]


def test_information_criteria() -> None:
    total = 2 * len(X) * fitted(X, 3).score(X)
    free, tied = (fitted(X, 3, concentration=name) for name in ("free", "tied"))
    assert free.bic(X) == pytest.approx((3 * 30 + 2) * math.log(len(X)) - total)
    assert free.aic(X) == pytest.approx(2 * (3 * 30 + 2) - total)
    parameters = (tied.bic(X) + 2 * len(X) * tied.score(X)) / math.log(len(X))
    assert parameters == pytest.approx(3 * 29 + 1 + 2)
    assert min((2, 3, 4), key=lambda K: fitted(X, K).bic(X)) == 3


def test_samples_come_from_the_components() -> None:
    mixture = fitted(X, 3)
    Z, y = mixture.sample(3000)
    np.testing.assert_allclose(np.linalg.norm(Z, axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(np.bincount(y) / 3000, mixture.weights_, atol=0.03)
    for k in range(3):
        refit = VMFMixture().fit(Z[y == k])
        assert refit.concentrations_[0] == pytest.approx(mixture.concentrations_[k], rel=0.06)
        assert refit.directions_[0] @ mixture.directions_[k] > 0.99
    np.testing.assert_array_equal(mixture.sample(3000)[0], Z)
    # A component that loses its rows has weight zero.
    mixture = fitted(X, 4, init=np.vstack([MU, -MU[:1] - MU[1:2] - MU[2:]]), assignment="hard")
    assert sorted(mixture.weights_)[0] == 0.0
    assert (mixture.predict_proba(X)[:, mixture.weights_.argmin()] == 0).all()
    assert mixture.sample(50)[0].shape == (50, X.shape[1])


def test_partial_fit_continues_a_fit() -> None:
    """Each row counts once: five of a thousand move it by little; a first call is a step of EM."""
    first, step = VMFMixture(3, random_state=0).partial_fit(X), fitted(X, 3, max_iter=1)
    np.testing.assert_allclose(first.concentrations_, step.concentrations_, rtol=1e-10)
    mixture = fitted(X, 3)
    before = mixture.score(X)
    weights = mixture.weights_.copy()
    mixture.partial_fit(X[:5])
    assert mixture.score(X) == pytest.approx(before, abs=0.01)
    assert np.abs(mixture.weights_ - weights).max() < 10 / len(X)
    assert mixture._sums is not None and float(mixture._sums.number) == len(X) + 5


@pytest.mark.gpu
def test_on_a_gpu() -> None:
    host = fitted(X, 3, init=MU)
    T = torch.from_numpy(X).cuda()
    for other in (fitted(X, 3, init=MU, device="cuda"), fitted(T, 3, init=MU)):
        np.testing.assert_allclose(other.concentrations_, host.concentrations_, rtol=1e-8)
        assert torch.as_tensor(other.score_samples(T)).is_cuda
    assert torch.as_tensor(fitted(T, 3).predict(T)).is_cuda


# Expenses for housing, food and service of 20 single women and 20 single men (R package HSAUR3).
EXPENSES = """
820 114 154 184 74 20 921 66 455 488 80 115 721 83 104 614 55 193 801 56 214 396 59 80 864 65 352
845 64 414 404 97 47 781 47 452 457 103 108 1029 71 189 1047 90 298 552 91 158 718 104 304 495
114 74 382 77 147 1090 59 177 497 591 291 839 942 365 798 1308 584 892 842 395 1585 781 1740 755
764 438 388 655 233 617 879 719 248 438 65 1641 440 2063 1180 1243 813 619 684 204 253 422 48 661
739 188 1981 869 1032 1746 746 1594 1865 915 1767 238 522 75 1199 1095 344 1524 964 1410"""
HOUSEHOLD = np.array(EXPENSES.split(), dtype=np.float64).reshape(40, 3)

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
        norms = [math.log(4 * math.pi * math.sinh(k) / k) for k in kappa]
        joint = (x @ np.array(mu).T) * kappa - norms + np.log(np.array(weight) / len(x))
        if hard:
            value, r = joint.max(1).mean(), np.eye(K)[joint.argmax(1)]
        else:
            norm = np.log(np.exp(joint).sum(1))
            value, r = norm.mean(), np.exp(joint - norm[:, None])
    return np.array(weight) / len(x), np.array(mu), np.array(kappa), value


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


@pytest.mark.parametrize("K", [2, 3])
def test_published_mixtures_of_movmf(K: int) -> None:
    table = MOVMF_TABLE[K]
    init = np.array([mu for _, mu, _ in table])
    mixture = VMFMixture(K, init=init, tol=1e-9).fit(HOUSEHOLD)
    bic = mixture.bic(HOUSEHOLD) - 2 * len(HOUSEHOLD) * math.log(4 * math.pi)
    assert bic == pytest.approx(MOVMF_BIC[K - 1], abs=1e-3)
    for k, (weight, mu, kappa) in enumerate(table):
        assert mixture.weights_[k] == pytest.approx(weight, abs=0.005)
        np.testing.assert_allclose(mixture.directions_[k], mu, rtol=0, atol=0.005)
        assert mixture.concentrations_[k] == pytest.approx(kappa, abs=0.02)
