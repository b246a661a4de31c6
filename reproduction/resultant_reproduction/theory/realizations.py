"""Exact identities: Bregman and variance forms, differences of realizations, the failure state."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from resultant.classes.cosines import cosines
from resultant.classes.realization import class_scores, target_temperature
from resultant.classes.rule import EDITED, Rule
from resultant.classes.statistics import ClassState
from resultant.decisions.gradients import GradientDifference, intercept_gradient_difference
from resultant.report import style
from resultant.score.exact import decompose, vmf_score, vmf_score_slope
from resultant.special.bessel import bessel_ratio, bessel_ratio_integral
from resultant.theory.score_expansion import directional_cumulants
from resultant_reproduction.figures import BLACK, Chart, Curve
from resultant_reproduction.theory.check import Check, Numbers, check, grid, rounding

# Relative error that rounding leaves in identities of float64 numbers.
ROUNDING = 1e-11


def random_state(seed: int, classes: int, p: int, low: float, high: float) -> ClassState:
    """Draw random directions with kappa/nu uniform between low and high."""
    generator = torch.Generator().manual_seed(seed)
    mu = torch.randn(classes, p, generator=generator, dtype=torch.float64)
    lam = low + (high - low) * torch.rand(classes, generator=generator, dtype=torch.float64)
    count = torch.ones(classes, dtype=torch.int64)
    return ClassState(mu / mu.norm(dim=-1, keepdim=True), (p / 2 - 1) * lam, count)


def random_queries(seed: int, number: int, state: ClassState) -> tuple[Tensor, Tensor]:
    """Draw unit vectors [N, p] at all distances from a class, and the class [N] of each."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(state.num_classes, (number,), generator=generator)
    noise = torch.randn(number, state.dim, generator=generator, dtype=torch.float64)
    pull = 3 * torch.rand(number, 1, generator=generator, dtype=torch.float64)
    z = noise / noise.norm(dim=-1, keepdim=True) + pull * state.mu[y]
    return z / z.norm(dim=-1, keepdim=True), y


@check
def bregman_identities(score: Callable[..., Tensor] = vmf_score) -> Check:
    r"""Check three forms of the score (prop:bregman-view, eq:bregman-variance, eq:score-integral).

    :math:`q=t\rho R_\nu(\kappa)+\int_0^t(t-u)\mathrm{Var}_{\eta+uz}(z^\top X)\,du
    =\int_\kappa^{\tilde\kappa}R_\nu`; Gauss-Legendre quadrature computes the first integral.
    """
    dimensions = (3, 16, 128, 1024)
    axes: tuple[Numbers, ...] = ((-0.95, -0.5, 0.0, 0.4, 1.0), (0.3, 1.0, 3.0), (0.5, 2.0, 10.0))
    nodes, weights = (torch.tensor(a) for a in np.polynomial.legendre.leggauss(200))
    rho, lam, t = grid(*axes)
    worst = {"variance": 0.0, "integral": 0.0}
    least = torch.inf
    for p in dimensions:
        nu = p / 2 - 1
        kappa = nu * lam
        q = score(rho, kappa, 1 / t, p)
        linear = t * rho * bessel_ratio(nu, kappa)
        # The tilt u runs along the last axis.
        u = (t[:, None] / 2) * (nodes + 1)
        tilted = (kappa[:, None] ** 2 + 2 * (kappa * rho)[:, None] * u + u**2).sqrt()
        cosine = ((kappa * rho)[:, None] + u) / tilted
        variance = directional_cumulants(cosine.clamp(-1, 1), tilted, p, 2)[1]
        divergence = (weights * (t[:, None] - u) * variance).sum(-1) * t / 2
        end = (kappa**2 + 2 * kappa * t * rho + t**2).sqrt()
        gaps = {
            "variance": q - linear - divergence,
            "integral": q - bessel_ratio_integral(nu, kappa, end),
        }
        for name, gap in gaps.items():
            worst[name] = max(worst[name], float((gap.abs() / t).max()))
        least = min(least, float((q - linear).min()))
    return Check(
        ours=f"{rounding(worst['variance'])}; {rounding(worst['integral'])}; {least:.1e}",
        holds=max(worst.values()) < ROUNDING and least >= 0,
        details={
            "grid": {"p": dimensions, "rho": axes[0], "lambda": axes[1], "t": axes[2]},
            "largest_difference_over_t": worst,
            "least_divergence": least,
        },
    )


@check
def realization_differences(scores: Callable[..., Tensor] = class_scores) -> Check:
    r"""Check that temp - preserve is :math:`h^\star-h^0` and preserve - angular is
    :math:`r^\star-r^0` for every beta (eq:realization-differences)."""
    tau, betas = 0.1, (0.0, 0.5, 1.0, 1.5)
    state = random_state(1, 20, 128, 0.5, 2.0)
    z, _ = random_queries(2, 200, state)
    rho = cosines(z, state.mu).clamp(-1, 1)
    h0, _, r0 = decompose(rho, state.kappa, tau, state.dim)
    worst = {"intercept": 0.0, "remainder": 0.0}
    for beta in betas:
        cooled = target_temperature(state, tau, beta)
        h1, _, r1 = decompose(rho, state.kappa, cooled, state.dim)
        temperature, preserve, angular = (scores(z, state, tau, name, beta) for name in EDITED)
        gaps = {
            "intercept": temperature - preserve - (h1 - h0),
            "remainder": preserve - angular - (r1 - r0),
        }
        for name, gap in gaps.items():
            worst[name] = max(worst[name], float((gap.abs() * cooled).max()))
    return Check(
        ours="; ".join(map(rounding, worst.values())),
        holds=max(worst.values()) < ROUNDING,
        details={
            "state": {"classes": 20, "p": 128, "lambda": "uniform in [0.5, 2]", "seed": 1},
            "queries": {"number": 200, "seed": 2},
            "tau": tau,
            "beta": betas,
            "largest_difference_times_tau": worst,
        },
    )


def tangent_loss_gradient(z: Tensor, y: Tensor, scores: Callable[[Tensor], Tensor]) -> Tensor:
    """Return the gradient on the sphere [N, p] of the cross-entropy of scores, by autograd."""
    leaf = z.detach().clone().requires_grad_()
    loss = torch.nn.functional.cross_entropy(scores(leaf), y, reduction="sum")
    (G,) = torch.autograd.grad(loss, leaf)
    return G - (G * z).sum(-1, keepdim=True) * z


@check
def intercept_gradients(
    formula: Callable[..., GradientDifference] = intercept_gradient_difference,
) -> Check:
    """Check that gradients differ by the probabilities only
    (eq:intercept-gradient-difference)."""
    tau = 0.1
    state = random_state(3, 20, 128, 0.2, 2.0)
    z, y = random_queries(4, 200, state)
    hot, kept = (
        tangent_loss_gradient(z, y, lambda x, name=name: class_scores(x, state, tau, name))
        for name in ("temperature", "preserve")
    )
    predicted = formula(z, y, state, Rule(tau)).predicted
    size = float((hot - kept).norm(dim=-1).max())
    gap = float((hot - kept - predicted).norm(dim=-1).max()) / size
    return Check(
        ours=rounding(gap),
        holds=size > 1e-3 and gap < ROUNDING,
        details={
            "state": {"classes": 20, "p": 128, "lambda": "uniform in [0.2, 2]", "seed": 3},
            "queries": {"number": 200, "seed": 4},
            "tau": tau,
            "beta": 0.0,
            "largest_gradient_difference": size,
        },
    )


def failure_values(kappa: float, gbar: float, score: Callable[..., Tensor]) -> dict[str, float]:
    """Return the six numbers of the collapsed class at p = 128 and tau_0 = 0.1."""
    p, tau = 128, 0.1
    A = float(bessel_ratio(p / 2 - 1, kappa))
    cooled = A / gbar
    return {
        "A": A,
        "tau*": cooled,
        "q(0; tau_0)": float(score(0.0, kappa, tau, p)),
        "q(0; tau*)": float(score(0.0, kappa, cooled, p)),
        "slope, temperature": float(vmf_score_slope(0.0, kappa, cooled, p)),
        "slope, angular": float(vmf_score_slope(0.0, kappa, tau, p)) + gbar - A / tau,
    }


@check
def failure_state(score: Callable[..., Tensor] = vmf_score) -> Check:
    """Check the printed numbers of the collapsed class (sec:same-state-diagnostic).

    kappa and the mean gain are printed to five digits, so each number is known up to a range. The
    printed number must lie in this range, extended by half of its own last digit.
    """
    kappa, gbar, half = 5.4415, 7.4057, 5e-5
    printed = ("0.04244", "0.005730", "0.3888", "79.1456", "3.8058", "7.4032")
    ours = failure_values(kappa, gbar, score)
    corners = [
        failure_values(kappa + half * a, gbar + half * b, score)
        for a, b in itertools.product((-1, 1), repeat=2)
    ]
    rows = {}
    for (name, own), text in zip(ours.items(), printed, strict=True):
        values = [corner[name] for corner in corners]
        digit = 0.5 * 10.0 ** -len(text.partition(".")[2])
        low, high = min(values) - digit, max(values) + digit
        holds = low <= float(text) <= high
        rows[name] = {"paper": float(text), "ours": own, "range": [low, high], "holds": holds}

    def panels() -> list[Chart]:
        rho = torch.linspace(-1, 1, 201, dtype=torch.float64)
        p, tau = 128, 0.1
        native, cooled = score(rho, kappa, tau, p), score(rho, kappa, ours["tau*"], p)
        preserve = cooled - ours["q(0; tau*)"] + ours["q(0; tau_0)"]
        curves = [
            Curve(rho, native, "-", "native", BLACK),
            Curve(rho, cooled, "-", "temperature", style.RED),
            Curve(rho, preserve, "-", "preserve", style.ORANGE),
            Curve(rho, native + (gbar - ours["A"] / tau) * rho, "--", "angular", style.BLUE),
        ]
        xlabel = r"cosine $\rho$"
        return [
            Chart(curves, xlabel, "score", "intercept of the collapsed class"),
            Chart(curves, xlabel, "", "near zero", {"ylim": (-9, 9)}),
        ]

    return Check(
        paper=", ".join(printed),
        ours=", ".join(f"{value:.6g}" for value in ours.values()),
        holds=all(row["holds"] for row in rows.values()),
        details={
            "inputs": {"kappa": kappa, "gbar": gbar, "p": 128, "tau_0": 0.1, "half digit": half},
            "values": rows,
        },
        panels=panels,
        layout={"legend": 4},
    )
