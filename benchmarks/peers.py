"""The vMF score, the Bessel ratio and kappa as other libraries compute them.

A method takes NumPy arrays and an int p: rho, kappa and tau for the score q, kappa for the ratio
R_nu with nu = p/2 - 1, and R for kappa. Scores except for ours are phi(kt) - phi(kappa) with
phi(x) = log I_nu(x) - nu log x, two values subtracted.
"""

import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from scipy import special
from torch import Tensor

from resultant import bessel_ratio, bessel_ratio_inverse, vmf_score

Array = np.ndarray[Any, np.dtype[Any]]
Method = Callable[..., Array]

OURS = {"resultant, float64": torch.float64, "resultant, float32": torch.float32}
PRIVATE = "scipy _iv_ratio, private"
RESCALE_EVERY = 8  # float32 holds the growth of this many steps of the recurrence


def ours(function: Callable[..., Tensor]) -> dict[str, Method]:
    """Return a function of tensors and p as methods in both precisions."""

    def method(*given: Any, dtype: torch.dtype) -> Array:
        x = (torch.from_numpy(a).to(dtype) for a in given[:-1])
        return function(*x, given[-1]).detach().double().numpy()

    return {name: partial(method, dtype=dtype) for name, dtype in OURS.items()}


def tilted(rho: Array, kappa: Array, tau: Array) -> Array:
    """Return kt, the length of kappa mu + z / tau."""
    t = 1 / tau
    return np.sqrt(np.maximum(kappa * kappa + 2 * kappa * t * rho + t * t, 0.0))


def miller(order: int, x: Tensor) -> tuple[Tensor, Tensor]:
    """Evaluate log I_order(x) - x and log I_{order+1}(x) - x by recurrence from 2 order down to 0,
    where I_0 is known.

    ProCo starts at twice the order, which is too low for x far above the order. Order 0 (p = 2
    and 3) has no start: NaN.
    """
    if order == 0:
        return torch.full_like(x, math.nan), torch.full_like(x, math.nan)
    reciprocal, high, low = 2 / x, torch.zeros_like(x), torch.ones_like(x)
    shift, recorded = torch.zeros_like(x), {}
    for i in range(2 * order, 0, -1):
        if i in (order, order + 1):
            recorded[i] = low.log() + shift
        high, low = low, torch.addcmul(high, reciprocal, low, value=i)
        if i % RESCALE_EVERY == 0:
            shift, high, low = shift + low.log(), high / low, torch.ones_like(x)
    known = torch.special.i0e(x).log() - low.log() - shift
    return known + recorded[order], known + recorded[order + 1]


def proco_score(rho: Array, kappa: Array, tau: Array, p: int) -> Array:
    """Score as in ProCo: kt and nu log x in float32, recurrence in float64, order truncated."""
    x = torch.from_numpy(np.stack([tilted(rho, kappa, tau), kappa])).float()
    log, _ = miller(int(p / 2 - 1), x.double())
    # float32 as x; only the result of the recurrence is float64.
    after, before = log + x - (p / 2 - 1) * torch.log(x + 1e-20)
    return (after - before).numpy()


@cache
def tensorflow_probability() -> dict[str, Method]:
    """Return log I_nu(x) - x of TensorFlow Probability on JAX in double precision, if installed."""
    try:
        import jax  # type: ignore[import-not-found]
        from tensorflow_probability.substrates import jax as tfp  # type: ignore[import-not-found]
    except Exception:  # under a newer JAX the import raises other errors than ImportError
        return {}
    jax.config.update("jax_enable_x64", True)
    log_ive = jax.jit(tfp.math.log_bessel_ive)
    return {"TFP on JAX": lambda nu, x: np.asarray(log_ive(np.float64(nu), x))}


def scores() -> dict[str, Method]:
    """List the available scores, ours first."""

    def score(log_ive: Method, rho: Array, kappa: Array, tau: Array, p: int) -> Array:
        nu, x = p / 2 - 1, np.stack([tilted(rho, kappa, tau), kappa])
        after, before = log_ive(nu, x) + x - nu * np.log(x)
        return after - before

    logs = {"scipy ive": lambda nu, x: np.log(special.ive(nu, x)), **tensorflow_probability()}
    others = {name: partial(score, log) for name, log in logs.items()}
    return {**ours(vmf_score), **others, "ProCo recurrence": proco_score}


def ratios() -> dict[str, Method]:
    """List the available ratios, ours first."""

    def proco_ratio(x: Array, p: int) -> Array:
        value, above = miller(int(p / 2 - 1), torch.from_numpy(x).float().double())
        return (above - value).exp().clamp(max=1.0).numpy()

    known = ours(lambda x, p: bessel_ratio(p / 2 - 1, x))
    known["scipy ive"] = lambda x, p: special.ive(p / 2, x) / special.ive(p / 2 - 1, x)
    # Not public, and absent before scipy 1.14.
    if (ratio := getattr(special._ufuncs, "_iv_ratio", None)) is not None:
        known[PRIVATE] = lambda x, p: ratio(p / 2, x)
    for name, log in tensorflow_probability().items():
        known[name] = lambda x, p: np.exp(log(p / 2, x) - log(p / 2 - 1, x))
    return {**known, "ProCo recurrence": proco_ratio}


def inverses() -> dict[str, Method]:
    """List the estimators of kappa from a mean resultant length and the dimension."""
    double = next(iter(OURS))
    return {
        double: ours(lambda r, p: bessel_ratio_inverse(p / 2 - 1, r))[double],
        "ProCo: p R / (1 - R²)": lambda r, p: p * r / (1 - r * r),
        "Banerjee: R (p - R²) / (1 - R²)": lambda r, p: r * (p - r * r) / (1 - r * r),
    }
