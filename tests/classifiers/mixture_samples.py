"""Rows of three components, and mixtures fitted to them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning

from resultant.classifiers.mixture import VMFMixture
from resultant.vmf.distribution import VonMisesFisher

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
