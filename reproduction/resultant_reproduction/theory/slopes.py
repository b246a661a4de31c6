"""Orders of the derivative of the joint expansion."""

from __future__ import annotations

import torch

from resultant.score.exact import vmf_score_slope
from resultant.score.expansion import joint_expansion
from resultant_reproduction.theory.check import Check, grid, half_orders, power_fits
from resultant_reproduction.theory.expansions import DIMENSIONS, LAMBDA, RHO, Expansion, T


def slope_orders(approximation: Expansion = joint_expansion) -> Check:
    """Check the same orders of the derivative in the cosine, the C1 form of
    thm:joint-score-expansion."""
    rho, lam, t = grid(RHO, LAMBDA, T)
    rho.requires_grad_()
    medians, counts = [], []
    for order in range(3):
        rows = []
        for k in DIMENSIONS:
            point = (rho, (k / 2 - 1) * lam, 1 / t, k)
            expanded = approximation(*point, order, validate_args=False)
            (slope,) = torch.autograd.grad(expanded.sum(), rho)
            rows.append(slope - vmf_score_slope(*point).detach())
        fits = power_fits(half_orders(DIMENSIONS), torch.stack(rows))
        medians.append(float(fits.median()))
        counts.append(len(fits))
    return Check(
        name="slope-orders",
        label="thm:joint-score-expansion",
        claim="residual orders of the slopes of B0, B0+B1, B0+B1+B2 (medians)",
        paper="-1, -2, -3",
        ours=", ".join(f"{a:.3f}" for a in medians),
        holds=all(abs(m + 1 + order) <= 0.02 for order, m in enumerate(medians)),
        details={
            "grid": {"p": DIMENSIONS, "rho": RHO, "lambda": LAMBDA, "t": T},
            "rule": "each median within 0.02 of -1, -2, -3",
            "fits": counts,
            "of": len(rho),
        },
    )
