"""Leave-one-out scores against refits, finite-sample identities against draws."""

import math

import pytest
import torch

import resultant as rs
from class_samples import F64, C, P, axis, close, fitted, naive_kappa, naive_mean, sample, unit
from resultant._core import memory
from resultant.vmf.estimators import ESTIMATORS, OF_LENGTH


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_left_out_is_refit(estimator: str, weighted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    z, y = sample(30)
    z, y = torch.cat([z, unit(1, P)]), torch.cat([y, torch.tensor([C])])  # class C: one sample
    w, tau = torch.ones(31, dtype=F64), torch.rand(C + 1, dtype=F64) + 0.05
    if weighted:
        # The last sample of class 0 has all the weight of the class.
        w = torch.rand(31, dtype=F64).masked_fill(y == 0, 0.0)
        w[0] = 0.3
    statistics = rs.ClassStatistics(C + 1, P).update(z, y, w)
    mu, kappa = statistics.leave_one_out(z, y, estimator, weights=w)
    scores = rs.leave_one_out_scores(z, y, statistics, tau, estimator, weights=w)
    state = statistics.state(estimator)
    for i, c in enumerate(y.tolist()):
        others = torch.arange(len(y)) != i
        rest = rs.ClassStatistics(C + 1, P).update(z[others], y[others], w[others])
        refit = rest.state(estimator)
        close(mu[i], refit.mu[c], atol=1e-11)
        close(kappa[i], refit.kappa[c], rtol=1e-9)
        for q, at in zip(scores, (refit, state), strict=True):
            naive = rs.vmf_score((z[i] * at.mu[c]).sum().clamp(-1, 1), at.kappa[c], tau[c], P)
            close(q[i], naive, rtol=1e-9)
    assert float(kappa[-1]) == 0 and torch.equal(mu[-1], axis())
    if weighted:
        assert float(kappa[0]) == 0 and torch.equal(mu[0], axis())
    monkeypatch.setattr(memory, "FEATURE_BYTES", 8 * P * 3)
    parts = rs.leave_one_out_scores(z, y, statistics, tau, estimator, weights=w)
    for a, b in zip(parts, scores, strict=True):
        close(a, b)


def test_finite_sample_formulas() -> None:
    n, tau = torch.tensor([7, 2, 5, 1000]), 0.1
    A = torch.tensor([0.3, 0.2, 0.9, 1.0], dtype=F64)
    expected = rs.expected_square_resultant(A, n)
    close(expected, A**2 + (1 - A**2) / n)
    close(rs.unbiased_square_resultant(A, n), (n * A**2 - 1) / (n - 1))
    close(rs.self_inclusion(A, tau, n), (1 - A**2) / n / tau)
    # The estimate of the expectation is the square itself.
    close(rs.unbiased_square_resultant(expected.sqrt(), n), A**2, atol=1e-12)
    for dtype in (torch.float32, torch.bfloat16):
        assert rs.expected_square_resultant(A.to(dtype), n).dtype == dtype
        assert rs.self_inclusion(A.to(dtype), tau, n).dtype == dtype


@pytest.mark.slow
def test_held_out_state_maximizes_the_likelihood_of_the_held_out_rows() -> None:
    z, y = sample(40, spread=0.6)
    fit, held = torch.arange(40) % 2 == 0, torch.arange(40) % 2 == 1
    held[y == 2] = False
    plain = fitted(z[fit], y[fit])
    state = rs.held_out_state(plain, z[held], y[held])
    close(state.mu, plain.state().mu)
    close(state.kappa[2], plain.state("loo").kappa[2])
    for c in (0, 1, 3, 4):
        own = z[held & (y == c)]
        length = max(float((own @ plain.state().mu[c]).mean()), 0.0)
        close(state.kappa[c], naive_kappa(length, P, "mle"), rtol=1e-8)
    # A class without samples, and held-out rows against the direction of their class.
    one = fitted(axis()[None], torch.tensor([0]), 2)
    state = rs.held_out_state(one, torch.stack([-axis(), axis()]), torch.tensor([0, 1]))
    assert state.kappa.tolist() == [0.0, 0.0]


@pytest.mark.slow
@pytest.mark.parametrize("estimator", OF_LENGTH)
def test_cross_fit_is_the_naive_one(estimator: str) -> None:
    z, y = sample(50, spread=0.6)
    # Class 5 is in fold 0 only, 6 has one sample in each of folds 0 and 1, 7 cancels.
    extra = unit(4, P)
    z = torch.cat([z, extra, extra[:2], -extra[:2]])
    y = torch.cat([y, torch.tensor([5, 5, 6, 6, 7, 7, 7, 7])])
    fold = torch.cat([torch.randint(3, (50,)), torch.tensor([0, 0, 0, 1, 2, 2, 2, 2])])
    tau, A_ref, r_min, r_max = 0.1, 0.6, 0.9, 1.1
    folds = rs.fold_statistics(z, y, fold, 8, 3)
    fit = rs.cross_fit_temperature(folds, tau, A_ref, r_min=r_min, r_max=r_max, estimator=estimator)
    clipped = set()
    for k in range(3):
        rows = fold != k
        for c in range(8):
            n = int((y[rows] == c).sum())
            mu, R = naive_mean(z[rows], y[rows], c)
            A = A_ref if n < 2 else math.sqrt(max((n * R**2 - 1) / (n - 1), 0.0))
            ratio = min(max(A / A_ref, r_min), r_max)
            clipped.add((ratio == r_min) - (ratio == r_max))
            close(fit.resultant[k, c], A, rtol=1e-10)
            close(fit.temperature[k, c], tau * ratio, rtol=1e-10)
            close(fit.states[k].mu[c], mu)
            kappa = 0.0 if n == 0 else naive_kappa(A, P, estimator)
            close(fit.states[k].kappa[c], kappa, rtol=1e-8)
            assert int(fit.states[k].count[c]) == n
            if estimator == "mle" and n > 0 and ratio == A / A_ref:
                close(fit.states[k].resultant[c] / fit.temperature[k, c], A_ref / tau, rtol=1e-9)
    assert clipped == {-1, 0, 1}
