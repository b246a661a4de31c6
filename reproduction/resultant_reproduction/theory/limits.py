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
from resultant_reproduction.theory.check import Check, Numbers, half_orders, power_fits, rounding
from resultant_reproduction.theory.transition import CRITICAL, Exponents, of_model


def at_head_margin(R_h: float) -> BinaryModel:
    """Shift an offset of `CRITICAL` so that the head class has this typical margin."""
    return replace(CRITICAL, b_h=(R_h - CRITICAL.typical_margins.h) / CRITICAL.tau)


def head_transition(at: Callable[[float], BinaryModel] = at_head_margin) -> Check:
    """Check that the head error of the exact rule steps from 1 to 0 at R_h = 0, as a normal
    distribution on the scale nu^-1/2 (thm:conditional-error-transition)."""
    p = 8194
    deviation = math.sqrt(CRITICAL.variances.h / (p / 2 - 1))
    levels = (0.9, 0.1)
    steps = {-0.05: 1.0, 0.0: 0.5, 0.05: 0.0}
    steps |= {deviation * float(stats.norm.isf(level)): level for level in levels}
    errors = [at(R).errors(p, "exact").h for R in steps]
    return Check(
        name="head-transition",
        label="thm:conditional-error-transition",
        claim="head error at R_h = -0.05, 0, 0.05; at the limits of 0.9 and 0.1",
        paper="1, 1/2, 0; 0.9, 0.1",
        ours="; ".join(", ".join(f"{e:.3f}" for e in part) for part in (errors[:3], errors[3:])),
        holds=all(abs(a - b) < 0.02 for a, b in zip(errors, steps.values(), strict=True)),
        details={
            "model": vars(CRITICAL),
            "rule": f"errors of the exact rule within 0.02 of their limits, at p = {p}",
            "R_h": list(steps),
            "limits": list(steps.values()),
            "errors": errors,
        },
    )


def projection_limit(variance: Callable[..., Tensor] = projection_variance) -> Check:
    """Check that a projection is normal on the scale nu^-1/2 (eq:projection-clt).

    The largest difference of the distribution functions, over concentrations, directions and
    thresholds, must fall as nu^-1/2.
    """
    p = tuple(2**k + 2 for k in range(6, 15, 2))
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
    return Check(
        name="projection-limit",
        label="eq:projection-clt",
        claim="order of the largest difference to the normal distribution; its last size",
        paper="-1/2 (an error of a CLT); 0",
        ours=f"{slope:.3f}; {gaps[-1]:.4f} at p = {p[-1]}",
        holds=abs(slope + 0.5) <= 0.02 and gaps[-1] < 0.01,
        details={
            "grid": {"p": p, "lambda": lambdas, "cosine": betas, "x": "81 from -4 to 4"},
            "rule": "slope within 0.02 of -1/2, last difference below 0.01",
            "largest": gaps,
        },
    )


def exponent_equality(exponents: Exponents = of_model) -> Check:
    """Check that I_h = I_t for equal concentrations and offsets, and only then
    (sec:large-deviation-exponent)."""
    models, generator = 200, torch.Generator().manual_seed(12)
    draws = torch.rand(models, 3, generator=generator, dtype=torch.float64)
    low = torch.tensor([0.2, -1.0, 0.05], dtype=torch.float64)
    high = torch.tensor([10.0, 0.8, 2.0], dtype=torch.float64)
    raised = 1.01
    equal, unequal = [], []
    for lam, c, tau in (low + (high - low) * draws).tolist():
        model = BinaryModel(lam, lam, c, tau)
        # An offset of a hundredth of the margin that it takes from the tail.
        offset = (raised - 1) * model.typical_margins.t / tau
        others = replace(model, lambda_h=raised * lam), replace(model, b_h=offset)
        for own, gaps in (((model,), equal), (others, unequal)):
            for rates in map(exponents, own):
                gaps.append((rates.h - rates.t) / rates.t)
    most, least = max(map(abs, equal)), min(unequal)
    return Check(
        name="exponent-equality",
        label="sec:large-deviation-exponent",
        claim="relative I_h - I_t, largest of symmetric models; least of others",
        paper="0; > 0",
        ours=f"{rounding(most)}; {least:.1e}",
        holds=most < 1e-12 and least > 1e-6,
        details={
            "grid": {
                "lambda": "uniform in [0.2, 10]",
                "cosine": "uniform in [-1, 0.8]",
                "tau": "uniform in [0.05, 2]",
                "others": "lambda_h larger by 1 %, or an offset of 1 % of R_t",
                "models": models,
                "seed": 12,
            },
            "rule": "symmetric below 1e-12; others above 1e-6",
            "largest_of_symmetric": most,
            "least_of_others": least,
        },
    )
