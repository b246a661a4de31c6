"""Sizes of errors of expansions: the score in its regimes, and the Bessel ratio."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from resultant.report import style
from resultant.score.exact import vmf_score
from resultant.special.bessel import bessel_ratio
from resultant.theory.score_expansion import (
    LEAST_ORDER,
    fixed_expansion,
    joint_expansion,
    ratio_approximation,
    ratio_bound,
)
from resultant_reproduction.cells.charts import BLACK, DIVERGING, Chart, Curve
from resultant_reproduction.theory.check import Finding, check, grid, quantiles
from resultant_reproduction.theory.orders import Expansion, joint_errors

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@check
def ratio_remainder(at: Any, approximation: Callable[..., Tensor] = ratio_approximation) -> Finding:
    """Check that nu^3 |R - A_2| <= 1 for nu >= 10/9 (lem:bessel-ratio-remainder)."""
    orders = [LEAST_ORDER, *at.nu]
    z = torch.logspace(-4, 5, at.number, dtype=torch.float64)
    gaps = {nu: bessel_ratio(nu, nu * z) - approximation(nu, nu * z) for nu in orders}
    scaled = {nu: gap.abs() / ratio_bound(nu) for nu, gap in gaps.items()}
    largest = {f"{nu:g}": float(gap.max()) for nu, gap in scaled.items()}

    worst = max(largest.values())
    return Finding([worst], {"largest_by_nu": largest}, worst <= 1)


@check
def second_order_error(at: Any, approximation: Expansion = joint_expansion) -> Finding:
    """Compare the size of the second-order error (sec:numerical-expansion-validation). The paper
    gives no grid: medians on both sides of the printed one do not decide the claim."""
    *_, second = joint_errors(approximation, at.p, at.rho, at.lam, at.t).errors.values()
    levels = {"5%": 0.05, "25%": 0.25, "50%": 0.5, "75%": 0.75, "95%": 0.95}
    shares = dict(zip(levels, quantiles(second.abs(), [*levels.values()]), strict=True))
    medians = dict(zip(at.p, second.abs().median(1).values.tolist(), strict=True))
    least, most = min(medians.values()), max(medians.values())
    values = shares["50%"], shares["25%"], shares["75%"], most, at.p[0], least, at.p[-1]
    details = {"quantiles": shares, "median_by_p": medians}
    return Finding(values, details, None if least <= at.printed <= most else False)


def _error_ratio(joint: Expansion, fixed: Expansion, at: Any, t: list[float]) -> Tensor:
    """Return the median over rho and t of log10 of the ratio of second-order errors [P, K]."""
    rho, kappa, ts = grid(at.rho, at.kappa, t)
    rows = []
    for p in at.p:
        point = (rho, kappa, 1 / ts, p)
        q = vmf_score(*point)
        # Not below the rounding of q.
        one, other = (
            (f(*point, 2, validate_args=False) - q).abs().clamp_min(1e-16) for f in (joint, fixed)
        )
        ratio = (one / other).log10().reshape(len(at.rho), len(at.kappa), len(t))
        rows.append(ratio.movedim(1, 0).flatten(1).median(1).values)
    return torch.stack(rows)


@check
def regime_map(
    at: Any, joint: Expansion = joint_expansion, fixed: Expansion = fixed_expansion
) -> Finding:
    """Check that the joint expansion is more accurate in the joint regime."""
    dims, kappa = torch.tensor(at.p), torch.tensor(at.kappa, dtype=torch.float64)
    nu = dims.double() / 2 - 1
    lam = kappa / nu[:, None]
    inside = (dims[:, None] >= 64) & (lam >= 0.25) & (lam <= 4)
    maps = {name: _error_ratio(joint, fixed, at, t) for name, t in at.t.items()}
    largest = {name: float(a[inside].max()) for name, a in maps.items()}

    def panels() -> list[Any]:
        rows = torch.arange(len(dims))
        low, high = at.kappa[0], at.kappa[-1]
        within = (nu >= low) & (nu <= high)
        # The joint regime, a band about kappa = nu.
        regime = (dims >= 64) & (nu / 4 <= high)
        left, right = ((nu[regime] * factor).clamp(max=high).tolist() for factor in (0.25, 4.0))
        own = rows[regime].tolist()
        outline = [*left, *reversed(right), left[0]], [*own, *reversed(own), own[0]]
        charts = []
        for name, a in maps.items():

            def paint(ax: Axes, name: str = name, a: Tensor = a) -> None:
                places = kappa.numpy(), rows.numpy(), a.numpy()
                levels: Any = [-6, -4, -3, -2, -1, -0.5, 0, 0.5, 1, 2, 3, 4, 6]
                shade: Any = {"cmap": DIVERGING, "vmin": -6, "vmax": 6, "extend": "both"}
                filled = ax.contourf(*places, levels, **shade)
                ax.contour(*places, [0], colors=BLACK, linewidths=1.2)
                ax.set_yticks(range(len(dims)), [str(d) for d in at.p])
                ax.grid(False)
                if name == [*maps][-1]:
                    label = "median $\\log_{10}$ of joint over fixed error\n(blue: joint is better)"
                    ax.figure.colorbar(filled, ax=ax, label=label)

            curves = [
                Curve(look="-", label="equal errors", color=BLACK, more={"lw": 1.2}),
                Curve(*outline, "-", "joint regime", style.GREEN, more={"lw": 2}),
                Curve(nu[within], rows[within], "--", r"$\kappa=\nu$", style.ORANGE),
            ]
            title = f"$t$ from {at.t[name][0]:g} to {at.t[name][-1]:g}"
            limits = {"xscale": "log", "xlim": (low, high)}
            labels = r"concentration $\kappa$", "" if charts else "dimension $p$"
            charts.append(Chart(curves, *labels, title, limits, paint))
        return charts

    worst = max(largest.values())
    details = {"largest": largest, "log10_ratio": {name: a.tolist() for name, a in maps.items()}}
    return Finding([worst], details, worst < 0, panels)


@check
def fixed_regime(
    at: Any, joint: Expansion = joint_expansion, fixed: Expansion = fixed_expansion
) -> Finding:
    """Check that the fixed-dimension expansion is more accurate at low dimension and high
    concentration (sec:controlled-studies); only a sign that all grids share decides the claim."""
    medians = {}
    for name, t in at.t.items():
        ratios = _error_ratio(joint, fixed, at, t).median(1).values.tolist()
        medians[name] = dict(zip(map(str, at.p), ratios, strict=True))
    cells = {f"p = {p} at {name}": v for name, row in medians.items() for p, v in row.items()}
    nearer = [f"{name} ({value:+.3f})" for name, value in cells.items() if value > 0]
    ranges = ", ".join(f"{low:g} to {high:g} for {name}" for name, (low, _, high) in at.t.items())
    ends = min(cells.values()), max(cells.values())
    values = len(nearer), len(cells), ", ".join(nearer) or "none", *ends
    holds = None if 0 < len(nearer) < len(cells) else bool(nearer)
    values = *values, len(cells) - len(nearer), ranges
    return Finding(values, {"median_log10_ratio": medians}, holds)
