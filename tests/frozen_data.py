"""A small long-tailed feature space, and its scores by definition with scipy's Bessel functions."""

import math

import numpy as np
import torch
from scipy.optimize import brentq
from scipy.special import ive, logsumexp
from torch import Tensor

from resultant.vmf.distribution import VonMisesFisher
from resultant_reproduction.frozen.space import FrozenSpace

C, P, TAU = 24, 12, 0.1
COUNTS = torch.tensor([140, 130, 120, 115, 110, 105, 102, 101] + [60] * 8 + [9] * 6 + [4, 3])
PER_CLASS = 9


def features(counts: Tensor, p: int = P, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Rows of any length about directions that belong to the classes, whatever the seed."""
    shared = torch.Generator().manual_seed(99)
    mu = torch.nn.functional.normalize(torch.randn(len(counts), p, generator=shared), dim=1)
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(len(counts)).repeat_interleave(counts)
    y = y[torch.randperm(len(y), generator=generator)]
    width = 0.5 + 0.9 * (y % 5) / 5
    x = mu[y] + width[:, None] * torch.randn(len(y), p, generator=generator) / p**0.5
    return x * (0.2 + 3 * torch.rand(len(y), 1, generator=generator)), y


def small_space(dtype: torch.dtype = torch.float64, **options: object) -> FrozenSpace:
    train, test = features(COUNTS), features(torch.full((C,), PER_CLASS), seed=1)
    return FrozenSpace.fit(*train, *test, dtype=dtype, **options)  # type: ignore[arg-type]


def rows(z: Tensor) -> np.ndarray:
    x = z.double().numpy()
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def ratio(p: int, kappa: float) -> float:
    return float(ive(p / 2, kappa) / ive(p / 2 - 1, kappa))


def fitted(x: np.ndarray) -> tuple[np.ndarray, float]:
    """Direction and maximum-likelihood concentration of unit rows."""
    mean = x.mean(0)
    R = float(np.linalg.norm(mean))
    kappa = brentq(lambda k: ratio(x.shape[1], k) - R, 1e-9, 1e4, xtol=1e-12)
    return mean / R, float(kappa)  # type: ignore[arg-type]


def unbiased_length(x: np.ndarray) -> tuple[float, np.ndarray]:
    """sqrt(max(U, 0)) of unit rows, U the mean cosine of two of them, and their direction."""
    cosines = (x @ x.T)[~np.eye(len(x), dtype=bool)]
    mean = x.mean(0)
    return math.sqrt(max(cosines.mean(), 0)), mean / np.linalg.norm(mean)


def score(rho, kappa, tau, p: int = P):
    """q by definition: log phi of the tilted concentration less that of the class."""

    def log_phi(k):
        nu = p / 2 - 1
        return np.log(ive(nu, k)) + k - nu * np.log(k)

    t = 1 / tau
    return log_phi(np.sqrt(kappa**2 + t**2 + 2 * kappa * t * rho)) - log_phi(kappa)


def scores(space: FrozenSpace, realization: str, beta: float, gamma: float, z: Tensor):
    """The scores [N, C] of a policy by its equation."""
    mu, kappa = space.state.mu.numpy(), space.state.kappa.numpy()
    A = np.array([ratio(space.dim, k) for k in kappa])
    g = A / space.tau
    target = g.mean() + beta * (g - g.mean())
    rho = rows(z) @ mu.T
    native = score(rho, kappa, space.tau, space.dim)
    if realization == "native":
        s = native
    elif realization == "cosine":
        s = g.mean() * rho
    elif realization == "angular":
        s = native + (target - g) * rho
    else:
        s = score(rho, kappa, A / target, space.dim)
        if realization == "preserve":
            before, after = (score(0.0, kappa, t, space.dim) for t in (space.tau, A / target))
            s = s - after + before
    n = space.counts.numpy()
    return s + gamma * np.log(n / n.sum())


def log_softmax(s: np.ndarray) -> np.ndarray:
    return s - logsumexp(s, axis=1, keepdims=True)


def vmf_rows(kappa: float, p: int, counts: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """The given number of rows per class, from vMFs about the same directions for every seed."""
    shared = torch.Generator().manual_seed(99)
    mu = torch.randn(len(counts), p, generator=shared, dtype=torch.float64)
    y = torch.arange(len(counts)).repeat_interleave(counts)
    torch.manual_seed(seed)
    return VonMisesFisher(torch.nn.functional.normalize(mu, dim=1)[y], kappa).sample(), y
