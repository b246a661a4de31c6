"""The linear mean of exact scores: probabilities, losses, gradients, and temperatures for which its
error vanishes."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from resultant.classes.realization import realize
from resultant.classes.rule import Rule
from resultant.classes.statistics import ClassState
from resultant.decisions.gradients import loss_gradient
from resultant.score.exact import decompose, vmf_score
from resultant.theory.score_expansion import free_energy_expansion, joint_expansion
from resultant_reproduction.theory.check import (
    SEED,
    Check,
    Numbers,
    check,
    grid,
    half_orders,
    listed,
    lists,
    near,
    power_fits,
    powers_of_two,
    quantiles,
    random_states,
    slopes_of,
)
from resultant_reproduction.theory.realizations import random_queries, random_state

DIMENSIONS = powers_of_two(6, 12)
POWERS = (0.0, 0.2, 0.4)


def mean_scores(rho: Tensor, kappa: Tensor, tau: Tensor | float, p: int) -> Tensor:
    """Return intercept and gain times cosine of exact scores."""
    parts = decompose(rho, kappa, tau, p)
    return parts.intercept + parts.gain * rho


@check
def linear_softmax(linear: Callable[..., Tensor] = mean_scores, states: int = 60) -> Check:
    """Check that probabilities and losses of the linear-mean scores have errors of order nu^-1
    (sec:softmax-geometry)."""
    classes, tau, nu = 10, 0.5, half_orders(DIMENSIONS)
    rho, lam, offset = random_states(states, classes)
    errors: dict[str, list[Tensor]] = {"probabilities": [], "loss": []}
    for p, n in zip(DIMENSIONS, nu.tolist(), strict=True):
        point = (rho, n * lam, tau, p)
        exact, mean = ((offset + f(*point)).log_softmax(-1) for f in (vmf_score, linear))
        errors["probabilities"].append((mean.exp() - exact.exp()).abs().amax(-1))
        errors["loss"].append(mean[:, 0] - exact[:, 0])
    fits = {name: power_fits(nu, torch.stack(rows)) for name, rows in errors.items()}
    medians = [float(a.median()) for a in fits.values()]
    points = {"p": DIMENSIONS, "states": states, "classes": classes, "tau": tau, "seed": SEED}
    return Check(
        ours=listed(medians, "; "),
        holds=near(medians, (-1, -1), 0.1),
        details={"grid": points, "quartiles": {name: quantiles(a) for name, a in fits.items()}},
    )


@check
def growing_temperature(linear: Callable[..., Tensor] = mean_scores, states: int = 200) -> Check:
    """Check that the linear-mean score has a vanishing error for 1/tau = o(sqrt(nu)), with the
    order 2a - 1 for 1/tau = nu^a (sec:expansion-range)."""
    rho, lam, _ = random_states(states, 1)
    dimensions = powers_of_two(8, 19, 2)
    nu = half_orders(dimensions)
    medians = []
    for power in POWERS:
        rows = []
        for p, n in zip(dimensions, nu.tolist(), strict=True):
            point = (rho, n * lam, n**-power, p)
            rows.append((linear(*point) - vmf_score(*point)).flatten())
        medians.append(float(power_fits(nu, torch.stack(rows)).median()))
    expected = [2 * a - 1 for a in POWERS]
    points = {"p": dimensions, "states": states, "powers": POWERS, "seed": SEED}
    return Check(
        ours=listed(medians),
        holds=near(medians, expected, 0.05),
        details={"grid": points, "expected": expected},
    )


@check
def leading_gradient(gradient: Callable[..., Tensor] = loss_gradient) -> Check:
    """Check that the gradient of the linear-mean loss has an error of order nu^-1
    (eq:leading-sphere-gradient), with the intercepts of the text and without them.

    Directions and queries lie in a subspace that does not change with p.
    """
    classes, within, queries, tau, nu = 10, 12, 200, 0.5, half_orders(DIMENSIONS)
    small = random_state(31, classes, within, 0.3, 4.0)
    lam = small.kappa / (within / 2 - 1)
    z, y = random_queries(32, queries, small)
    errors: dict[str, list[Tensor]] = {"with": [], "without": []}
    for p, n in zip(DIMENSIONS, nu.tolist(), strict=True):
        mu, x = (torch.nn.functional.pad(a, (0, p - within)) for a in (small.mu, z))
        rule = realize(ClassState(mu, n * lam, small.count), Rule(tau))
        exact = loss_gradient(x, y, rule)
        for name, rows in errors.items():
            linear = gradient(x, y, rule.linear(intercept=name == "with"))
            rows.append((linear - exact).norm(dim=-1).max())
    slopes = slopes_of(nu, errors).values()
    points = {"p": DIMENSIONS, "classes": classes, "subspace": within, "tau": tau}
    points |= {"lambda": "uniform in [0.3, 4]", "queries": queries, "seeds": (31, 32)}
    return Check(
        ours=listed(slopes, "; "),
        holds=near(slopes, (-1, -1), 0.05),
        details={"grid": points, "largest": lists(errors)},
    )


@check
def free_energy(expansion: Callable[..., Tensor] = free_energy_expansion) -> Check:
    """Check that q/nu tends to the resummed free energy for 1/tau = nu s, where the bounded-t
    expansion does not (sec:expansion-range)."""
    lambdas: Numbers = (0.25, 1.0, 4.0)
    s: Numbers = (0.3, 1.0, 4.0)
    dimensions = powers_of_two(8, 17, 2)
    rho, lam, ratio = grid(tuple(torch.linspace(-1, 1, 41).tolist()), lambdas, s)
    nu = half_orders(dimensions)
    errors: dict[str, list[Tensor]] = {"free energy": [], "bounded t": []}
    for p, n in zip(dimensions, nu.tolist(), strict=True):
        point = (rho, n * lam, 1 / (n * ratio), p)
        q = vmf_score(*point)
        for name, f, order in (("free energy", expansion, 0), ("bounded t", joint_expansion, 2)):
            gap = f(*point, order, validate_args=False) - q
            errors[name].append(gap.abs().max() / n)
    slope = slopes_of(nu, errors)["free energy"]
    first, last = (float(errors["bounded t"][k]) for k in (0, -1))
    return Check(
        ours=f"{slope:.3f}; {last / first:.3f} (error {last:.1f} nu)",
        holds=abs(slope + 1) <= 0.02 and abs(last / first - 1) < 0.1,
        details={
            "grid": {"p": dimensions, "rho": "41 from -1 to 1", "lambda": lambdas, "s": s},
            "largest": lists(errors),
        },
    )
