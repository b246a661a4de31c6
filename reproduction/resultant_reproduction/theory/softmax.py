"""Corrections coupled through softmax."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from resultant.report import style
from resultant.score.exact import vmf_score
from resultant.score.expansion import joint_terms
from resultant.score.softmax import propagate_loss
from resultant_reproduction.figures import LOG, Chart, Curve, draw_charts
from resultant_reproduction.theory.check import Check, half_orders, power_fits, quantiles

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DIMENSIONS = tuple(2**k + 2 for k in range(6, 12))


def softmax_coupling(
    loss: Callable[..., Tensor] = propagate_loss, states: int = 60, classes: int = 10
) -> Check:
    """Check that the error of the loss is of order nu^-3 with the variance term V1/2 and nu^-2
    without it (thm:multiclass-propagation)."""
    generator = torch.Generator().manual_seed(7)

    def uniform(low: float, high: float) -> Tensor:
        draws = torch.rand(states, classes, generator=generator, dtype=torch.float64)
        return low + (high - low) * draws

    rho, lam, offset = uniform(-0.9, 0.9), uniform(0.3, 4.0), uniform(-1.0, 1.0)
    tau, y = 0.5, 0
    nu = half_orders(DIMENSIONS)
    errors: dict[bool, list[Tensor]] = {True: [], False: []}
    for p, n in zip(DIMENSIONS, nu.tolist(), strict=True):
        point = (rho, n * lam, tau, p)
        exact = -(offset + vmf_score(*point)).log_softmax(-1)[:, y]
        B0, B1, B2 = joint_terms(*point)
        for variance, rows in errors.items():
            rows.append(loss(offset + B0, B1, B2, p, y, variance=variance) - exact)
    residuals = {variance: torch.stack(rows).abs() for variance, rows in errors.items()}
    fits = {variance: power_fits(nu, a) for variance, a in residuals.items()}
    kept, dropped = (float(fits[variance].median()) for variance in (True, False))

    def draw() -> Figure:
        curves = []
        looks = ((False, 2, "without", style.ORANGE), (True, 3, "with", style.BLUE))
        for variance, power, word, colour in looks:
            levels = torch.tensor([0.25, 0.5, 0.75]).double()
            low, median, high = residuals[variance].quantile(levels, dim=1)
            name = f"{word} $V_1/2$"
            curves.append(Curve(nu, median, "o-", name, colour, band=(low, high)))
            guide = 3 * median[0] * (nu / nu[0]) ** -power
            curves.append(Curve(nu, guide, ":", rf"slope $-{power}$", colour))
        labels = r"$\nu=p/2-1$", "|loss residual|, median and quartiles"
        chart = Chart(curves, *labels, "Variance coupling in the loss", LOG)
        return draw_charts([chart], width=4.4, height=3.2, legend=2)

    return Check(
        name="softmax-coupling",
        label="fig:softmax-coupling",
        claim="order of the loss residual with the variance term; without",
        paper="-3; -2",
        ours=f"{kept:.3f}; {dropped:.3f}",
        holds=abs(kept + 3) <= 0.1 and abs(dropped + 2) <= 0.1,
        details={
            "grid": {
                "p": DIMENSIONS,
                "states": states,
                "classes": classes,
                "tau": tau,
                "rho": "uniform in [-0.9, 0.9]",
                "lambda": "uniform in [0.3, 4]",
                "offset": "uniform in [-1, 1]",
                "seed": 7,
            },
            "rule": "medians within 0.1 of -3 and -2",
            "quartiles": {"with": quantiles(fits[True]), "without": quantiles(fits[False])},
        },
        draw=draw,
    )
