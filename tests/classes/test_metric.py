"""The metric against naive covariances and inverse roots, and its invariances."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.linalg import sqrtm
from torch import Tensor

from class_samples import F64, sample
from resultant import ClassStatistics, Metric


def fit(z: Tensor, y: Tensor, shrinkage: float = 0.3, w: Tensor | None = None) -> Metric:
    statistics = ClassStatistics(int(y.max()) + 1, z.shape[1], scatter=True).to(z.device)
    statistics.update(z, y, w)
    return Metric.fit(statistics, shrinkage)


def naive(z: Tensor, y: Tensor, shrinkage: float, w: Tensor) -> np.ndarray:
    """Whitened unit vectors by loops over the classes and a matrix square root."""
    p = z.shape[1]
    means = {c: (w[y == c, None] * z[y == c]).sum(0) / w[y == c].sum() for c in y.unique().tolist()}
    covariance = torch.zeros(p, p, dtype=F64)
    for row, c, a in zip(z, y.tolist(), w, strict=True):
        covariance += a * torch.outer(row - means[c], row - means[c])
    covariance /= w.sum()
    mean = covariance.trace() / p * torch.eye(p, dtype=F64)
    covariance = (1 - shrinkage) * covariance + shrinkage * mean
    x = (z - sum(means.values()) / len(means)).numpy() @ np.linalg.inv(sqrtm(covariance.numpy()))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


@pytest.mark.parametrize(("n", "p"), [(60, 6), (20, 40)])
@pytest.mark.parametrize("shrinkage", [0.05, 1.0])
def test_cosines_are_those_of_the_naive_whitening(n: int, p: int, shrinkage: float) -> None:
    torch.manual_seed(0)
    z, y = sample(n, p=p)
    w = torch.rand(n, dtype=F64) + 0.1
    expected = naive(z, y, shrinkage, w)
    # One eigendecomposition serves all shrinkages.
    x = fit(z, y, 0.9, w).with_shrinkage(shrinkage).transform(z).numpy()
    np.testing.assert_allclose(x @ x.T, expected @ expected.T, atol=1e-10)


def test_degenerate_samples() -> None:
    torch.manual_seed(0)
    z, y = sample()[0][:5], torch.arange(5)
    metric = fit(z, y)
    # One sample per class: no variance, the metric only centres.
    x, centred = metric.transform(z), torch.nn.functional.normalize(z - z.mean(0))
    torch.testing.assert_close(x @ x.T, centred @ centred.T)
    zero = torch.zeros(1, 6, dtype=F64)
    assert (metric.transform(zero) == 0).all()
    equal = fit(z[:1].repeat(3, 1), torch.zeros(3).long())
    assert (equal.transform(z[:1]) == 0).all()
    alone = ClassStatistics(2, 6).update(z, y % 2)
    centred = Metric.fit(alone, whiten=False).transform(z)
    means = (z[::2].mean(0) + z[1::2].mean(0)) / 2
    torch.testing.assert_close(centred, torch.nn.functional.normalize(z - means))


@pytest.mark.gpu
def test_gpu() -> None:
    torch.manual_seed(0)
    z, y = sample(200)
    a = fit(z, y).transform(z)
    b = fit(z.cuda(), y.cuda()).transform(z.cuda()).cpu()
    torch.testing.assert_close(b @ b.T, a @ a.T, atol=1e-10, rtol=0)
