"""Exact identities: Bregman forms, differences of realizations, the failure state, finite
samples."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from resultant.classes.finite_sample import (
    cross_fit_temperature,
    expected_square_resultant,
    fold_statistics,
    self_inclusion,
    unbiased_square_resultant,
)
from resultant.classes.rule import EDITED, Rule
from resultant.classes.scores import class_scores, cosines, target_temperature
from resultant.decisions.gradients import GradientDifference, intercept_gradient_difference
from resultant.score.exact import decompose, vmf_score, vmf_score_slope
from resultant.special.bessel import bessel_ratio, bessel_ratio_integral
from resultant.theory.score_expansion import directional_cumulants
from resultant.vmf.distribution import VonMisesFisher
from resultant_reproduction.cells.cells import load
from resultant_reproduction.theory import check as shared
from resultant_reproduction.theory.check import Finding, check

# Relative error that rounding leaves in identities of float64 numbers.
ROUNDING = 1e-11


@check
def bregman_identities(at: Any, score: Callable[..., Tensor] = vmf_score) -> Finding:
    """Check three forms of the score (prop:bregman-view, eq:bregman-variance, eq:score-integral)"""
    nodes, weights = (torch.tensor(a) for a in np.polynomial.legendre.leggauss(200))
    rho, lam, t = shared.grid(at.rho, at.lam, at.t)
    least = []

    def gaps() -> Iterator[dict[str, Tensor]]:
        for p in at.p:
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
            least.append(float((q - linear).min()))
            integral = bessel_ratio_integral(nu, kappa, end)
            yield {"variance": (q - linear - divergence) / t, "integral": (q - integral) / t}

    worst = shared.largest(gaps())
    details = {"largest_difference_over_t": worst, "least_divergence": min(least)}
    holds = max(worst.values()) < ROUNDING and min(least) >= 0
    return Finding((*map(shared.rounding, worst.values()), min(least)), details, holds)


@check
def realization_differences(at: Any, scores: Callable[..., Tensor] = class_scores) -> Finding:
    """Check that realizations differ by intercepts and by remainders, for every beta."""
    state = shared.random_state(at.seeds[0], at.classes, at.p, at.lam)
    z, _ = shared.random_queries(at.seeds[1], at.queries, state)
    rho = cosines(z, state.mu).clamp(-1, 1)
    h0, _, r0 = decompose(rho, state.kappa, at.tau, state.dim)

    def gaps() -> Iterator[dict[str, Tensor]]:
        for beta in at.beta:
            cooled = target_temperature(state, at.tau, beta)
            h1, _, r1 = decompose(rho, state.kappa, cooled, state.dim)
            hot, kept, angular = (scores(z, state, at.tau, name, beta) for name in EDITED)
            both = {"intercept": hot - kept - (h1 - h0), "remainder": kept - angular - (r1 - r0)}
            yield {name: gap * cooled for name, gap in both.items()}

    worst = shared.largest(gaps())
    details = {"largest_difference_times_tau": worst}
    return Finding([*map(shared.rounding, worst.values())], details, max(worst.values()) < ROUNDING)


def tangent_loss_gradient(z: Tensor, y: Tensor, scores: Callable[[Tensor], Tensor]) -> Tensor:
    """Return the gradient on the sphere [N, p] of the cross-entropy of scores, by autograd."""
    leaf = z.detach().clone().requires_grad_()
    loss = torch.nn.functional.cross_entropy(scores(leaf), y, reduction="sum")
    (G,) = torch.autograd.grad(loss, leaf)
    return G - (G * z).sum(-1, keepdim=True) * z


@check
def intercept_gradients(
    at: Any, formula: Callable[..., GradientDifference] = intercept_gradient_difference
) -> Finding:
    """Check that gradients differ by the probabilities only."""
    state = shared.random_state(at.seeds[0], at.classes, at.p, at.lam)
    z, y = shared.random_queries(at.seeds[1], at.queries, state)
    hot, kept = (
        tangent_loss_gradient(z, y, lambda x, name=name: class_scores(x, state, at.tau, name))
        for name in ("temperature", "preserve")
    )
    predicted = formula(z, y, state, Rule(at.tau)).predicted
    size = float((hot - kept).norm(dim=-1).max())
    gap = float((hot - kept - predicted).norm(dim=-1).max()) / size
    details = {"largest_gradient_difference": size}
    return Finding([shared.rounding(gap)], details, size > 1e-3 and gap < ROUNDING)


def failure_values(
    at: Any, kappa: float, gbar: float, score: Callable[..., Tensor]
) -> dict[str, float]:
    """Return the six numbers of the collapsed class."""
    A = float(bessel_ratio(at.p / 2 - 1, kappa))
    cooled = A / gbar
    return {
        "A": A,
        "tau*": cooled,
        "q(0; tau_0)": float(score(0.0, kappa, at.tau_0, at.p)),
        "q(0; tau*)": float(score(0.0, kappa, cooled, at.p)),
        "slope, temperature": float(vmf_score_slope(0.0, kappa, cooled, at.p)),
        "slope, angular": float(vmf_score_slope(0.0, kappa, at.tau_0, at.p)) + gbar - A / at.tau_0,
    }


@check
def failure_state(at: Any, score: Callable[..., Tensor] = vmf_score) -> Finding:
    """Check the printed numbers of the collapsed class (sec:same-state-diagnostic), up to half of
    the last digits of these, of kappa and of the mean gain."""
    printed = load("theory/checks")["failure-state"]["paper"].split(", ")
    ours = failure_values(at, at.kappa, at.gbar, score)
    corners = [
        failure_values(at, at.kappa + at.half_digit * a, at.gbar + at.half_digit * b, score)
        for a, b in itertools.product((-1, 1), repeat=2)
    ]
    rows = {}
    for (name, own), text in zip(ours.items(), printed, strict=True):
        values = [corner[name] for corner in corners]
        digit = 0.5 * 10.0 ** -len(text.partition(".")[2])
        low, high = min(values) - digit, max(values) + digit
        holds = low <= float(text) <= high
        rows[name] = {"paper": float(text), "ours": own, "range": [low, high], "holds": holds}

    holds = all(row["holds"] for row in rows.values())
    return Finding([*ours.values()], {"values": rows}, holds)


@check
def finite_sample(
    at: Any,
    square: Callable[..., Tensor] = expected_square_resultant,
    inclusion: Callable[..., Tensor] = self_inclusion,
) -> Finding:
    """Check the identities of finite samples (eq:finite-resultant-identity,
    eq:unbiased-resultant-square, eq:self-inclusion) over all samples of four weighted vectors."""
    generator = torch.Generator().manual_seed(at.seed)
    x = torch.randn(4, 3, generator=generator, dtype=torch.float64)
    x = x / x.norm(dim=-1, keepdim=True)
    weight = torch.tensor(at.weights, dtype=torch.float64)
    A = float((weight @ x).norm())

    def gaps() -> Iterator[dict[str, Tensor]]:
        for n in at.n:
            indices = torch.tensor(list(itertools.product(range(4), repeat=n)))
            chance, sample = weight[indices].prod(-1), x[indices]
            mean = sample.mean(1)
            R, rest = mean.norm(dim=-1), sample[:, 1:].mean(1)
            gain = (sample[:, 0] * (mean - rest)).sum(-1) / at.tau
            yield {
                "square": (chance @ R**2) - square(A, n),
                "unbiased": (chance @ unbiased_square_resultant(R.clamp(max=1), n)) - A**2,
                "self-inclusion": (chance @ gain) - inclusion(A, at.tau, n),
            }

    worst = shared.largest(gaps())

    details = {"vectors": x.tolist(), "A": A, "largest_difference": worst}
    holds = max(worst.values()) < 1e-13
    return Finding([*map(shared.rounding, worst.values())], details, holds)


@check
def cross_fitting(at: Any, r_max: float = 10.0) -> Finding:
    """Check that held-out gains are equal, and that the score gap falls with p."""
    gains, gaps = [], []
    for p in at.p:
        torch.manual_seed(at.seeds[0])
        state = shared.random_state(at.seeds[1], at.classes, p, at.lam)
        z = VonMisesFisher(state.mu, state.kappa).sample((at.samples,)).flatten(0, 1)
        y = torch.arange(at.classes).repeat(at.samples)
        fold = torch.randint(2, (len(z),))
        parts = fold_statistics(z, y, fold, at.classes, 2)
        fit = cross_fit_temperature(parts, at.tau, at.A_ref, r_min=0.1, r_max=r_max)
        gain = torch.stack([s.resultant for s in fit.states]) / fit.temperature
        gains.append(float((gain * at.tau / at.A_ref - 1).abs().max()))
        gap = 0.0
        for k, held in enumerate(fit.states):
            rows = z[fold == k]
            q = class_scores(rows, held, fit.temperature[k])
            gap = max(gap, float((q - at.A_ref / at.tau * cosines(rows, state.mu)).abs().max()))
        gaps.append(gap)
    falls = all(b < a / 2 for a, b in itertools.pairwise(gaps))
    details = {"gain_difference": gains, "score_gap": gaps}
    return Finding((shared.rounding(max(gains)), *gaps), details, max(gains) < 1e-9 and falls)
