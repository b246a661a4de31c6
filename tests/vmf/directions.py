"""Directions, densities of the angle, means of samples, and the normaliser in Arb."""

import math
from collections.abc import Callable

import numpy as np
import torch
from flint import arb as ball
from scipy import integrate
from torch import Tensor

from reference import arb

DIMENSIONS = (2, 3, 5, 16, 128, 1024, 65536)
STANDARD_ERRORS = 5.0
P_VALUE = 1e-3
EPS = torch.finfo(torch.float64).eps

# Dimensions on both sides of the smallest order of the expansion, and concentrations of any use,
# with the neighbours of the change of formula at a small order.
WIDE_DIMENSIONS = (2, 3, 5, 17, 128, 4096)
WIDE = (1e-3, 0.1, 1.0, 10.0, 30.0, 44.9, 45.1, 1e2, 1e3, 1e4, 1e6, 1e8, 1e10, 1e12, 1e16, 1e18)


def double(*values: float) -> Tensor:
    tensor = torch.tensor(values, dtype=torch.float64)
    return tensor if len(values) > 1 else tensor.squeeze(0)


def direction(p: int, *batch: int) -> Tensor:
    return torch.nn.functional.normalize(torch.randn(*batch, p, dtype=torch.float64), dim=-1)


def axis(p: int, i: int = 0, sign: float = 1.0, dtype: torch.dtype = torch.float64) -> Tensor:
    e = torch.zeros(p, dtype=dtype)
    e[i] = sign
    return e


def exact(compute: Callable[[], ball]) -> float:
    return arb._certified(lambda: [compute()])[0]


def assert_mean(samples: Tensor, expected: Tensor | float) -> None:
    """Assert that the mean over the first dimension is within `STANDARD_ERRORS`."""
    error = samples.std(0) / math.sqrt(len(samples))
    excess = (samples.mean(0) - expected).abs() / error.clamp_min(1e-300)
    assert excess.max() < STANDARD_ERRORS, f"{float(excess.max()):.1f} standard errors"


def log_density(p: int, kappa: float, theta: np.ndarray) -> np.ndarray:
    """The log density of the angle, up to a constant."""
    with np.errstate(divide="ignore"):
        across = (p - 2) * np.log(np.sin(theta)) if p > 2 else 0.0
    return -2 * kappa * np.sin(theta / 2) ** 2 + across


def bulk(p: int, kappa: float) -> tuple[float, float]:
    """Return the mode of the angle and a standard deviation from the curvature at the mode."""
    cos = 2 * kappa / (p - 2 + math.hypot(p - 2, 2 * kappa)) if p > 2 else 1.0
    mode = math.asin(math.sqrt((p - 2) * cos / kappa)) if kappa else math.pi / 2
    curvature = ((p - 2) / math.sin(mode) ** 2 if p > 2 else 0.0) + kappa * math.cos(mode)
    return mode, 1 / math.sqrt(max(curvature, 0.1))


def angle_cdf(p: int, kappa: float) -> Callable[[np.ndarray], np.ndarray]:
    mode, sd = bulk(p, kappa)
    grid = np.linspace(max(0.0, mode - 15 * sd), min(math.pi, mode + 15 * sd), 40001)
    logs = log_density(p, kappa, grid)
    cdf = integrate.cumulative_simpson(np.exp(logs - logs.max()), x=grid, initial=0.0)
    return lambda theta: np.interp(theta, grid, cdf / cdf[-1])


def angles(x: Tensor, loc: Tensor) -> np.ndarray:
    chord = (x - loc).square().sum(-1).sqrt()
    return (2 * (chord / 2).clamp_max(1).asin()).numpy()


SAMPLED = [
    (2, 0.0), (2, 0.3), (2, 50.0), (2, 1e6), (3, 0.0), (3, 2.0), (3, 1e6), (10, 4.0),
    (128, 0.0), (128, 60.0), (128, 1e6), (65536, 0.0), (65536, 2e4), (65536, 1e6),
]  # fmt: skip


def exact_log_area(p: int) -> ball:
    half = ball(p) / 2
    return ball(2).log() + half * ball.pi().log() - half.lgamma()


def exact_phi(p: int, kappa: float) -> ball:
    """phi(kappa) - phi(0) = log 0F1(p/2; kappa^2/4)."""
    return arb._phi(ball(p) / 2 - 1, ball(kappa) ** 2)


def exact_integral(p: int, kappa: float) -> float:
    return exact(lambda: exact_phi(p, kappa))


def exact_ratio(p: int, kappa: float) -> ball:
    return ball(kappa) * arb._r(ball(p) / 2 - 1, ball(kappa) ** 2)
