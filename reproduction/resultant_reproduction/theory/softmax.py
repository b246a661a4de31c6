"""Corrections coupled through softmax."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from resultant.report import style
from resultant.score.exact import vmf_score
from resultant.theory.score_expansion import joint_terms
from resultant.theory.softmax import propagate_loss, propagate_probabilities
from resultant_reproduction.figures import LOG, Chart, Curve
from resultant_reproduction.theory.check import (
    SEED,
    WIDE,
    Check,
    check,
    half_orders,
    near,
    power_fits,
    powers_of_two,
    quantiles,
    random_states,
)

DIMENSIONS = powers_of_two(6, 12)
TAU, STATES, CLASSES = 0.5, 60, 10


@check
def softmax_coupling(loss: Callable[..., Tensor] = propagate_loss) -> Check:
    """Check that the error of the loss is of order nu^-3 with the variance term V1/2 and nu^-2
    without it (thm:multiclass-propagation)."""

    def residual(
        offset: Tensor, q: Tensor, B: tuple[Tensor, ...], p: int, variance: bool
    ) -> Tensor:
        exact = -(offset + q).log_softmax(-1)[:, 0]
        return loss(offset + B[0], B[1], B[2], p, 0, variance=variance) - exact

    residuals = _residuals(residual)

    def panels() -> list[Chart]:
        curves, nu = [], half_orders(DIMENSIONS)
        looks = ((False, 2, "without", style.ORANGE), (True, 3, "with", style.BLUE))
        for variance, power, word, colour in looks:
            levels = torch.tensor([0.25, 0.5, 0.75]).double()
            low, median, high = residuals[variance].quantile(levels, dim=1)
            name = f"{word} $V_1/2$"
            curves.append(Curve(nu, median, "o-", name, colour, band=(low, high)))
            guide = 3 * median[0] * (nu / nu[0]) ** -power
            curves.append(Curve(nu, guide, ":", rf"slope $-{power}$", colour))
        labels = r"$\nu=p/2-1$", "|loss residual|, median and quartiles"
        return [Chart(curves, *labels, "Variance coupling in the loss", LOG)]

    return Check(*_orders(residuals), panels, WIDE | {"legend": 2})


@check
def softmax_probabilities(probabilities: Callable[..., Tensor] = propagate_probabilities) -> Check:
    """Check that the error of the probabilities is of order nu^-3 with the second-order term and
    nu^-2 without its variance (eq:multiclass-prob-expansion)."""

    def residual(
        offset: Tensor, q: Tensor, B: tuple[Tensor, ...], p: int, variance: bool
    ) -> Tensor:
        expanded = probabilities(offset + B[0], B[1], B[2], p, variance=variance)
        return (expanded - (offset + q).softmax(-1)).abs().amax(-1)

    return Check(*_orders(_residuals(residual)))


def _residuals(residual: Callable[..., Tensor]) -> dict[bool, Tensor]:
    """Return the residuals [P, states] with and without the variance term."""
    rho, lam, offset = random_states(STATES, CLASSES)
    rows: dict[bool, list[Tensor]] = {True: [], False: []}
    for p, n in zip(DIMENSIONS, half_orders(DIMENSIONS).tolist(), strict=True):
        point = (rho, n * lam, TAU, p)
        q, B = vmf_score(*point), joint_terms(*point)
        for variance, errors in rows.items():
            errors.append(residual(offset, q, B, p, variance))
    return {variance: torch.stack(errors).abs() for variance, errors in rows.items()}


def _orders(residuals: dict[bool, Tensor]) -> tuple[str, bool, dict[str, object]]:
    """Return the orders of residuals as text, the verdict, and the details."""
    fits = [power_fits(half_orders(DIMENSIONS), a) for a in residuals.values()]
    medians = [float(a.median()) for a in fits]
    drawn = {"rho": "uniform in [-0.9, 0.9]", "lambda": "uniform in [0.3, 4]"}
    drawn |= {"offset": "uniform in [-1, 1]"}
    details = {
        "grid": {"p": DIMENSIONS, "states": STATES, "tau": TAU, **drawn, "seed": SEED},
        "quartiles": dict(zip(("with", "without"), map(quantiles, fits), strict=True)),
    }
    return "; ".join(f"{m:.3f}" for m in medians), near(medians, (-3, -2), 0.1), details
