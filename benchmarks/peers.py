"""The vMF score, the Bessel ratio and kappa as other libraries compute them.

A score takes NumPy arrays rho, kappa and tau and an int p, and returns q in float64. Except for
`resultant` each is phi(kt) - phi(kappa) with phi(x) = log I_nu(x) - nu log x, two values
subtracted. A ratio takes p and x = kappa and returns R_nu(x), nu = p/2 - 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from scipy import special, stats
from torch import Tensor

from resultant import bessel_ratio, bessel_ratio_inverse, vmf_score

Array = np.ndarray[Any, np.dtype[Any]]
Score = Callable[[Array, Array, Array, int], Array]
Ratio = Callable[[int, Array], Array]

OURS = {"resultant, float64": torch.float64, "resultant, float32": torch.float32}


def ours_score(dtype: torch.dtype) -> Score:
    def score(rho: Array, kappa: Array, tau: Array, p: int) -> Array:
        r, k, t = (torch.from_numpy(a).to(dtype) for a in (rho, kappa, tau))
        return vmf_score(r, k, t, p).double().numpy()

    return score


def ours_ratio(dtype: torch.dtype) -> Ratio:
    return lambda p, x: bessel_ratio(p / 2 - 1, torch.from_numpy(x).to(dtype)).double().numpy()


def tilted(rho: Array, kappa: Array, tau: Array) -> Array:
    """Return kt, the length of kappa mu + z / tau."""
    t = 1 / tau
    return np.sqrt(np.maximum(kappa * kappa + 2 * kappa * t * rho + t * t, 0.0))


def subtracted(phi: Callable[[float, Array], Array]) -> Score:
    def score(rho: Array, kappa: Array, tau: Array, p: int) -> Array:
        with np.errstate(all="ignore"):
            return phi(p / 2 - 1, tilted(rho, kappa, tau)) - phi(p / 2 - 1, kappa)

    return score


def scipy_ratio(p: int, x: Array) -> Array:
    with np.errstate(all="ignore"):
        return special.ive(p / 2, x) / special.ive(p / 2 - 1, x)


def miller(order: int, x: Tensor) -> tuple[Tensor, Tensor]:
    """Evaluate log I_order(x) - x and log I_{order+1}(x) - x by recurrence from 2 order down to 0,
    where I_0 is known.

    ProCo starts at twice the order, which is too low for x far above the order. Order 0 (p = 2
    and 3) has no start: NaN.
    """
    if order == 0:
        return torch.full_like(x, math.nan), torch.full_like(x, math.nan)
    high, low = torch.zeros_like(x), torch.ones_like(x)
    shift = torch.zeros_like(x)
    recorded = {}
    for i in range(2 * order, 0, -1):
        if i in (order, order + 1):
            recorded[i] = low.log() + shift
        below = torch.addcmul(high, 2 * i / x, low)
        if torch.isinf(below).any():
            shift += low.log()
            high, low = high / low, torch.ones_like(low)
            below = torch.addcmul(high, 2 * i / x, low)
        high, low = low, below
    known = torch.special.i0e(x).log() - low.log() - shift
    return known + recorded[order], known + recorded[order + 1]


def proco_score(rho: Array, kappa: Array, tau: Array, p: int) -> Array:
    """Score as in ProCo: kt and nu log x in float32, recurrence in float64, order truncated."""
    kt = torch.from_numpy(tilted(rho, kappa, tau)).float()
    return (proco_phi(p, kt) - proco_phi(p, torch.from_numpy(kappa).float())).numpy()


def proco_phi(p: int, x: Tensor) -> Tensor:
    value, _ = miller(int(p / 2 - 1), x.double())
    # float32 as x; only the result of the recurrence is float64.
    return value + x - (p / 2 - 1) * torch.log(x + 1e-20)


def proco_ratio(p: int, x: Array) -> Array:
    value, above = miller(int(p / 2 - 1), torch.from_numpy(x).float().double())
    return (above - value).exp().clamp(max=1.0).numpy()


def tensorflow_probability() -> Any:
    """Return log_bessel_ive of TensorFlow Probability on JAX in double precision, or None."""
    try:
        import jax  # type: ignore[import-not-found]
        from tensorflow_probability.substrates import jax as tfp  # type: ignore[import-not-found]
    except Exception:  # under a newer JAX the import raises other errors than ImportError
        return None
    jax.config.update("jax_enable_x64", True)
    log_ive = jax.jit(tfp.math.log_bessel_ive)
    return lambda nu, x: np.asarray(log_ive(np.float64(nu), x))


def scores() -> dict[str, Score]:
    """List the available scores, ours first."""
    phis = {"scipy ive": lambda nu, x: np.log(special.ive(nu, x)) + x - nu * np.log(x)}
    if (log_ive := tensorflow_probability()) is not None:
        phis["TFP on JAX"] = lambda nu, x: log_ive(nu, x) + x - nu * np.log(x)
    ours = {name: ours_score(dtype) for name, dtype in OURS.items()}
    others = {name: subtracted(phi) for name, phi in phis.items()}
    return {**ours, **others, "ProCo recurrence": proco_score}


def ratios() -> dict[str, Ratio]:
    """List the available ratios, ours first."""
    ratios: dict[str, Ratio] = {name: ours_ratio(dtype) for name, dtype in OURS.items()}
    ratios["scipy ive"] = scipy_ratio
    if (log_ive := tensorflow_probability()) is not None:
        ratios["TFP on JAX"] = lambda p, x: np.exp(log_ive(p / 2, x) - log_ive(p / 2 - 1, x))
    return {**ratios, "ProCo recurrence": proco_ratio}


def inverses() -> dict[str, Ratio]:
    """List the estimators of kappa from the dimension and a mean resultant length."""
    return {
        "resultant, float64": lambda p, r: bessel_ratio_inverse(
            p / 2 - 1, torch.from_numpy(r)
        ).numpy(),
        "ProCo: p R / (1 - R²)": lambda p, r: p * r / (1 - r * r),
        "Banerjee: R (p - R²) / (1 - R²)": lambda p, r: r * (p - r * r) / (1 - r * r),
        "scipy.stats.vonmises_fisher.fit": scipy_fit,
    }


def scipy_fit(p: int, r: Array) -> Array:
    """Fit two unit vectors whose mean has length r; NaN where the fit raises."""
    fitted = []
    for length in r:
        x = np.zeros((2, p))
        x[:, 0] = length
        x[:, 1] = math.sqrt((1 - length) * (1 + length)) * np.array([1, -1])
        try:
            with np.errstate(all="ignore"):
                fitted.append(float(stats.vonmises_fisher.fit(x)[1]))
        except (ValueError, RuntimeError):
            fitted.append(math.nan)
    return np.array(fitted)
