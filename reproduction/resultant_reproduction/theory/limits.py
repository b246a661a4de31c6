"""Limits of the matched binary model: the head error, a projection, equal exponents."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from scipy import stats
from torch import Tensor

from resultant.theory.binary_model import BinaryModel
from resultant.theory.rates import projection_variance
from resultant.theory.ratio_expansion import ratio_terms
from resultant.vmf.tails import log_projection_tail
from resultant_reproduction.theory.check import (
    Check,
    Numbers,
    check,
    described,
    half_orders,
    listed,
    near,
    power_fits,
    powers_of_two,
    rounding,
    uniform,
)
from resultant_reproduction.theory.transition import CRITICAL, STEPS, Exponents, of_model


def at_head_margin(R_h: float) -> BinaryModel:
    """Shift an offset of `CRITICAL` so that the head class has this typical margin."""
    return replace(CRITICAL, b_h=(R_h - CRITICAL.typical_margins.h) / CRITICAL.tau)


@check
def head_transition(at: Callable[[float], BinaryModel] = at_head_margin) -> Check:
    """Check that the head error of the exact rule steps from 1 to 0 at R_h = 0, as a normal
    distribution on the scale nu^-1/2 (thm:conditional-error-transition)."""
    p = 8194
    deviation = math.sqrt(CRITICAL.variances.h / (p / 2 - 1))
    limits = STEPS | {deviation * float(stats.norm.isf(level)): level for level in (0.9, 0.1)}
    errors = [at(R).errors(p, "exact").h for R in limits]
    return Check(
        ours="; ".join(map(listed, (errors[:3], errors[3:]))),
        holds=near(errors, limits.values(), 0.02),
        details={
            "model": vars(CRITICAL),
            "R_h": list(limits),
            "limits": list(limits.values()),
            "errors": errors,
        },
    )


@check
def projection_limit(variance: Callable[..., Tensor] = projection_variance) -> Check:
    """Check that a projection is normal on the scale nu^-1/2 (eq:projection-clt).

    The largest difference of the distribution functions, over concentrations, directions and
    thresholds, must fall as nu^-1/2.
    """
    p = powers_of_two(6, 15, 2)
    lambdas: Numbers = (0.25, 1.0, 4.0)
    betas: Numbers = (-1.0, -0.6, 0.0, 0.6, 1.0)
    nu = half_orders(p)
    x = torch.linspace(-4, 4, 81, dtype=torch.float64)
    below = 0.5 * torch.erfc(-x / math.sqrt(2))
    gaps = []
    for k, n in zip(p, nu.tolist(), strict=True):
        largest = 0.0
        for lam in lambdas:
            r0 = float(ratio_terms(torch.tensor(lam, dtype=torch.float64)).r0)
            for beta in betas:
                scale = math.sqrt(float(variance(lam, beta, math.sqrt(1 - beta**2))) / n)
                # Thresholds outside the sphere have probability zero or one.
                xi = (r0 * beta + scale * x).clamp(-1, 1)
                exact = log_projection_tail(xi, beta, n * lam, k, upper=False).exp()
                largest = max(largest, float((exact - below).abs().max()))
        gaps.append(largest)
    slope = float(power_fits(nu, torch.tensor(gaps, dtype=torch.float64)[:, None])[0])
    points = {"p": p, "lambda": lambdas, "cosine": betas, "x": "81 from -4 to 4"}
    return Check(
        ours=f"{slope:.3f}; {gaps[-1]:.4f} at p = {p[-1]}",
        holds=abs(slope + 0.5) <= 0.02 and gaps[-1] < 0.01,
        details={"grid": points, "largest": gaps},
    )


@check
def exponent_equality(exponents: Exponents = of_model) -> Check:
    """Check that I_h = I_t for equal concentrations and offsets, and only then
    (sec:large-deviation-exponent)."""
    ranges = {"lambda": (0.2, 10.0), "cosine": (-1.0, 0.8), "tau": (0.05, 2.0)}
    models, seed, raised = 200, 12, 1.01
    equal, unequal = [], []
    for lam, c, tau in uniform(seed, models, ranges):
        model = BinaryModel(lam, lam, c, tau)
        # An offset of a hundredth of the margin that it takes from the tail.
        offset = (raised - 1) * model.typical_margins.t / tau
        others = replace(model, lambda_h=raised * lam), replace(model, b_h=offset)
        for own, gaps in (((model,), equal), (others, unequal)):
            for rates in map(exponents, own):
                gaps.append((rates.h - rates.t) / rates.t)
    most, least = max(map(abs, equal)), min(unequal)
    others = "lambda_h larger by 1 %, or an offset of 1 % of R_t"
    return Check(
        ours=f"{rounding(most)}; {least:.1e}",
        holds=most < 1e-12 and least > 1e-6,
        details={
            "grid": {**described(ranges), "others": others, "models": models, "seed": seed},
            "largest_of_symmetric": most,
            "least_of_others": least,
        },
    )
