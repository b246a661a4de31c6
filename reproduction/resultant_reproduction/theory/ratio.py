"""The Bessel ratio: its limit as the gain, and the remainder of its expansion."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from resultant.report import style
from resultant.special.bessel import bessel_ratio
from resultant.theory.ratio_expansion import (
    LEAST_ORDER,
    ratio_approximation,
    ratio_bound,
    ratio_terms,
)
from resultant_reproduction.figures import LOG, Chart, Curve, shades
from resultant_reproduction.theory.check import Check, check, half_orders, power_fits
from resultant_reproduction.theory.expansions import DIMENSIONS, LAMBDA


@check
def leading_gain(ratio: Callable[..., Tensor] = bessel_ratio) -> Check:
    """Check that A tends to r0(lambda), not to one, with an error of order 1/nu (eq:main-ratio)."""
    lam = torch.tensor(LAMBDA, dtype=torch.float64)
    nu, r0 = half_orders(DIMENSIONS), ratio_terms(lam).r0
    fits = power_fits(nu, torch.stack([ratio(n, n * lam) - r0 for n in nu.tolist()]))
    return Check(
        ours=f"{float(fits.median()):.3f}",
        holds=len(fits) == len(LAMBDA) and float((fits + 1).abs().max()) <= 0.05,
        details={
            "grid": {"p": DIMENSIONS, "lambda": LAMBDA},
            "r0": r0.tolist(),
            "slopes": fits.tolist(),
        },
    )


@check
def ratio_remainder(approximation: Callable[..., Tensor] = ratio_approximation) -> Check:
    """Check that nu^3 |R - A_2| <= 1 for nu >= 10/9 (lem:bessel-ratio-remainder)."""
    orders = (LEAST_ORDER, 1.5, 2.0, 3.0, 5.0, 10.0, 31.0, 63.0, 127.0, 511.0, 2047.0)
    z = torch.logspace(-4, 5, 901, dtype=torch.float64)
    gaps = (bessel_ratio(nu, nu * z) - approximation(nu, nu * z) for nu in orders)
    scaled = torch.stack(
        [gap.abs() / ratio_bound(nu) for gap, nu in zip(gaps, orders, strict=True)]
    )
    largest = float(scaled.max())

    def panels() -> list[Chart]:
        shown = (LEAST_ORDER, 2.0, 5.0, 31.0, 511.0)
        curves = []
        for nu, colour in zip(shown, shades(len(shown)), strict=True):
            name = r"$\nu=10/9$" if nu == LEAST_ORDER else rf"$\nu={nu:g}$"
            curves.append(Curve(z, scaled[orders.index(nu)], "-", name, colour))
        curves.append(Curve((1e-3, 1e3), (1, 1), "--", "bound", style.RED))
        labels = r"$x/\nu$", r"$\nu^3\,|R_\nu(x)-A_{2,\nu}(x)|$", "Remainder of the Bessel ratio"
        return [Chart(curves, *labels, {**LOG, "xlim": (1e-3, 1e3), "ylim": (1e-6, 3)})]

    return Check(
        ours=f"{largest:.4f}",
        holds=largest <= 1,
        details={
            "grid": {"nu": orders, "x/nu": "901 from 1e-4 to 1e5, equally spaced in the logarithm"},
            "largest_by_nu": scaled.max(1).values.tolist(),
        },
        panels=panels,
        layout={"width": 4.6, "height": 3.2},
    )
