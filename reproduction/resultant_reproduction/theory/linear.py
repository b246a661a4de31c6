"""The linear-mean version of a softmax over exact scores, and how far its error vanishes."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from resultant.score.exact import decompose, vmf_score
from resultant_reproduction.theory.check import (
    SEED,
    Check,
    half_orders,
    power_fits,
    quantiles,
    random_states,
)

DIMENSIONS = tuple(2**k + 2 for k in range(6, 12))
POWERS = (0.0, 0.2, 0.4)


def mean_scores(rho: Tensor, kappa: Tensor, tau: Tensor | float, p: int) -> Tensor:
    """Return intercept and gain times cosine of exact scores."""
    parts = decompose(rho, kappa, tau, p)
    return parts.intercept + parts.gain * rho


def linear_softmax(linear: Callable[..., Tensor] = mean_scores, states: int = 60) -> Check:
    """Check that probabilities and losses of the linear-mean scores have errors of order nu^-1
    (sec:softmax-geometry)."""
    classes = 10
    rho, lam, offset = random_states(states, classes)
    tau, nu = 0.5, half_orders(DIMENSIONS)
    errors: dict[str, list[Tensor]] = {"probabilities": [], "loss": []}
    for p, n in zip(DIMENSIONS, nu.tolist(), strict=True):
        point = (rho, n * lam, tau, p)
        exact, mean = ((offset + f(*point)).log_softmax(-1) for f in (vmf_score, linear))
        errors["probabilities"].append((mean.exp() - exact.exp()).abs().amax(-1))
        errors["loss"].append(mean[:, 0] - exact[:, 0])
    fits = {name: power_fits(nu, torch.stack(rows)) for name, rows in errors.items()}
    medians = [float(a.median()) for a in fits.values()]
    return Check(
        name="linear-softmax",
        label="sec:softmax-geometry",
        claim="orders of the errors of linear-mean probabilities and losses (medians)",
        paper="-1; -1",
        ours="; ".join(f"{a:.3f}" for a in medians),
        holds=all(abs(a + 1) <= 0.1 for a in medians),
        details={
            "grid": {
                "p": DIMENSIONS,
                "states": states,
                "classes": classes,
                "tau": tau,
                "seed": SEED,
            },
            "rule": "both medians within 0.1 of -1",
            "quartiles": {name: quantiles(a) for name, a in fits.items()},
        },
    )


def growing_temperature(linear: Callable[..., Tensor] = mean_scores, states: int = 200) -> Check:
    """Check that the linear-mean score has a vanishing error for 1/tau = o(sqrt(nu)), with the
    order 2a - 1 for 1/tau = nu^a (sec:expansion-range)."""
    rho, lam, _ = random_states(states, 1)
    dimensions = tuple(2**k + 2 for k in range(8, 19, 2))
    nu = half_orders(dimensions)
    medians = []
    for power in POWERS:
        rows = []
        for p, n in zip(dimensions, nu.tolist(), strict=True):
            point = (rho, n * lam, n**-power, p)
            rows.append((linear(*point) - vmf_score(*point)).flatten())
        medians.append(float(power_fits(nu, torch.stack(rows)).median()))
    expected = [2 * a - 1 for a in POWERS]
    return Check(
        name="growing-temperature",
        label="sec:expansion-range",
        claim="order of the linear-mean error at 1/tau = nu^a, a = 0, 0.2, 0.4 (medians)",
        paper="below 0",
        ours=", ".join(f"{a:.3f}" for a in medians),
        holds=all(abs(m - e) <= 0.05 for m, e in zip(medians, expected, strict=True)),
        details={
            "grid": {"p": dimensions, "states": states, "powers": POWERS, "seed": SEED},
            "rule": "each median within 0.05 of 2a - 1, which is below 0 for a < 1/2",
            "expected": expected,
        },
        note="The paper gives the condition; the order 2a - 1 follows from the variance term.",
    )
