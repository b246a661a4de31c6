"""Cross-fitted temperatures against refits."""

from __future__ import annotations

import math

import pytest
import torch

from class_samples import C, P, close, fitted, naive_kappa, naive_mean, sample, unit
from resultant._core import chunks
from resultant.theory.cross_fit import cross_fit_temperature, fold_statistics
from resultant.vmf.estimators import OF_LENGTH


@pytest.mark.slow
@pytest.mark.parametrize("estimator", OF_LENGTH)
def test_cross_fit_is_the_naive_one(estimator: str) -> None:
    torch.manual_seed(20240601)
    z, y = sample(50, spread=0.6)
    # Class 5 is in fold 0 only, 6 has one sample in each of folds 0 and 1, 7 cancels.
    extra = unit(4, P)
    z = torch.cat([z, extra, extra[:2], -extra[:2]])
    y = torch.cat([y, torch.tensor([5, 5, 6, 6, 7, 7, 7, 7])])
    fold = torch.cat([torch.randint(3, (50,)), torch.tensor([0, 0, 0, 1, 2, 2, 2, 2])])
    tau, A_ref, r_min, r_max = 0.1, 0.6, 0.9, 1.1
    folds = fold_statistics(z, y, fold, 8, 3)
    fit = cross_fit_temperature(folds, tau, A_ref, r_min=r_min, r_max=r_max, estimator=estimator)
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


def test_chunks_do_not_change_the_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    z, y = sample()
    fold = torch.arange(len(y)) % 4
    monkeypatch.setattr(chunks, "FEATURE_BYTES", 8 * P * 3)
    for k, statistics in enumerate(fold_statistics(z, y, fold, C, 4)):
        close(statistics.total, fitted(z[fold == k], y[fold == k]).total)
