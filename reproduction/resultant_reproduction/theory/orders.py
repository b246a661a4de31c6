"""Orders of errors in 1/nu: the ratio, the score and its slope, linear means, softmax, gradients,
projections."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from resultant.classes.rule import Rule
from resultant.classes.scores import realize
from resultant.classes.statistics import ClassState
from resultant.decisions.gradients import loss_gradient
from resultant.report import style
from resultant.score.bounds import decomposition_bounds
from resultant.score.exact import decompose, vmf_score, vmf_score_slope
from resultant.special.bessel import bessel_ratio
from resultant.theory.binary_model import projection_variance
from resultant.theory.score_expansion import (
    fixed_expansion,
    free_energy_expansion,
    joint_expansion,
    joint_terms,
    ratio_terms,
)
from resultant.theory.softmax import propagate_loss, propagate_probabilities
from resultant.vmf.tails import log_projection_tail
from resultant_reproduction.cells.charts import BLACK, Chart, Curve
from resultant_reproduction.theory import check as shared
from resultant_reproduction.theory.check import Finding, check

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Expansion = Callable[..., Tensor]

TERMS = {"$B_0$": -1.0, "$B_0+B_1/\\nu$": -2.0, "$B_0+B_1/\\nu+B_2/\\nu^2$": -3.0}


@check
def leading_gain(at: Any, ratio: Callable[..., Tensor] = bessel_ratio) -> Finding:
    """Check that A tends to r0(lambda), not to one, with an error of order 1/nu (eq:main-ratio)."""
    lam = shared.axis(at.lam)
    r0 = ratio_terms(lam).r0
    fitted = shared.over_dimensions(at.p, lambda nu, p: {"A - r0": ratio(nu, nu * lam) - r0})
    slopes = fitted.fits["A - r0"].tolist()
    holds = len(slopes) == len(lam) and shared.near(slopes, [-1] * len(lam), 0.05)
    return Finding(fitted.medians, {"r0": r0.tolist(), "slopes": slopes}, holds)


def joint_errors(expansion: Expansion, dims: Any, rho: Any, lam: Any, t: Any) -> shared.Orders:
    """Fit the orders of errors of the joint expansion up to each term, over a grid."""
    points, lams, ts = shared.grid(rho, lam, t)

    def errors(nu: float, p: int) -> dict[str, Tensor]:
        point = (points, nu * lams, 1 / ts, p)
        q = vmf_score(*point)
        # Unchecked: the grid is valid, and warnings of the range are noise here.
        return {n: expansion(*point, k, validate_args=False) - q for k, n in enumerate(TERMS)}

    return shared.over_dimensions(dims, errors)


@check
def residual_orders(at: Any, approximation: Expansion = joint_expansion) -> Finding:
    """Check the orders of the joint expansion: medians, and largest errors over cosines."""
    fitted = joint_errors(approximation, at.p, at.rho, at.lam, at.t)
    worst = {
        f"{t:.1f}": joint_errors(approximation, at.large_p, at.all_rho, at.lam, [t]).largest.medians
        for t in at.paper_t
    }
    values = [*fitted.medians, *(v for own in worst.values() for v in own)]

    def panels() -> list[Any]:
        def paint(ax: Axes) -> None:
            boxes = ax.boxplot(
                [(a - order).numpy() for a, order in zip(fits, TERMS.values(), strict=True)],
                whis=1.5,
                widths=0.5,
                showfliers=False,
                patch_artist=True,
                medianprops={"color": BLACK},
            )
            for box, colour in zip(boxes["boxes"], style.CYCLE, strict=False):
                box.set(facecolor=colour, alpha=0.6)
            names = zip(TERMS, fitted.medians, strict=True)
            ax.set_xticklabels([f"{name}\nmedian {median:.3f}" for name, median in names])

        fits = fitted.fits.values()
        theory = Curve((1, 2, 3), (0, 0, 0), "D", "theory", style.RED, more={"zorder": 5})
        return [
            Chart([theory], "", "observed less theoretical order", "Residual orders", paint=paint)
        ]

    return Finding(values, {"largest": worst, **fitted.details}, panels=panels)


@check
def fixed_orders(at: Any, approximation: Expansion = fixed_expansion) -> Finding:
    """Check the orders in 1/kappa at fixed p (prop:fixed-dimensional-score)."""
    rho, t = shared.grid(at.rho, at.t)

    def errors(kappa: float) -> dict[str, Tensor]:
        points = [(rho, kappa, 1 / t, p) for p in at.p]
        return {
            name: torch.cat([approximation(*point, k) - vmf_score(*point) for point in points])
            for k, name in enumerate(TERMS)
        }

    return shared.orders(shared.axis(at.kappa), errors).finding


@check
def slope_orders(at: Any, approximation: Expansion = joint_expansion) -> Finding:
    """Check the same orders of the derivative in the cosine, the C1 form."""
    fitted = slope_errors(approximation, at.p, at.rho, at.lam, at.t)
    worst = {
        f"{t:.1f}": slope_errors(approximation, at.large_p, at.all_rho, at.lam, [t]).largest.medians
        for t in at.paper_t
    }
    values = [*fitted.medians, *(v for own in worst.values() for v in own)]
    return Finding(values, {"largest": worst, **fitted.details})


def slope_errors(expansion: Expansion, dims: Any, rho: Any, lam: Any, t: Any) -> shared.Orders:
    """Fit the orders of errors of the slope up to each term, over a grid."""
    points, lams, ts = shared.grid(rho, lam, t)
    points.requires_grad_()

    def errors(nu: float, p: int) -> dict[str, Tensor]:
        point = (points, nu * lams, 1 / ts, p)
        exact, gaps = vmf_score_slope(*point).detach(), {}
        for k, name in enumerate(TERMS):
            expanded = expansion(*point, k, validate_args=False)
            gaps[name] = torch.autograd.grad(expanded.sum(), points)[0] - exact
        return gaps

    return shared.over_dimensions(dims, errors)


@check
def centered_remainder(at: Any, parts: Callable[..., Any] = decompose) -> Finding:
    """Check that the remainder with its slope, and the intercept, are of order 1/nu."""
    rho, lam, t = shared.grid(at.rho, at.lam, at.t)

    def errors(nu: float, p: int) -> dict[str, Tensor]:
        point = (rho, nu * lam, 1 / t, p)
        h, g, r = parts(*point)
        remainder = r.abs() + (vmf_score_slope(*point) - g).abs()
        return {"remainder": remainder.max(), "intercept": h.abs().max()}

    fitted = shared.over_dimensions(at.p, errors)
    nu, sizes = fitted.x, fitted.details["largest"]
    slopes = [float(shared.power_fits(nu[-5:], e[-5:])[0]) for e in fitted.errors.values()]

    return Finding(slopes, {**sizes, "slopes": slopes})


@check
def constant_bounds(at: Any, bounds: Callable[..., Any] = decomposition_bounds) -> Finding:
    """Check that bounds with constants hold for every part, and are attained nearly."""
    rho, lam, t = shared.grid(at.rho, at.lam, at.t)
    names = ("intercept", "remainder", "slope")
    over: dict[str, list[float]] = {name: [] for name in names}
    sizes: dict[str, list[float]] = {"error": [], "bound": []}
    for p in at.p:
        point = (rho, (p / 2 - 1) * lam, 1 / t, p)
        h, g, r = decompose(*point)
        parts = h, r.abs(), (vmf_score_slope(*point) - g).abs()
        limits = bounds(*point)
        for name, part, limit in zip(names, parts, limits, strict=True):
            # At a cosine of zero both are zero.
            over[name].append(float((part / limit.clamp_min(1e-12)).max()))
        sizes["error"].append(float((parts[1] + parts[2]).max()))
        sizes["bound"].append(float((limits.remainder + limits.slope).max()))
    worst = [max(over[name]) for name in names]

    details = {"largest over bound": over, "sizes": sizes}
    return Finding(worst, details, max(worst) <= 1 and min(worst) > 0.3)


def mean_scores(rho: Tensor, kappa: Tensor, tau: Tensor | float, p: int) -> Tensor:
    """Return intercept and gain times cosine of exact scores."""
    parts = decompose(rho, kappa, tau, p)
    return parts.intercept + parts.gain * rho


@check
def linear_softmax(at: Any, linear: Callable[..., Tensor] = mean_scores) -> Finding:
    """Check errors of order 1/nu of linear-mean probabilities and losses."""
    rho, lam, offset = shared.random_states(at.states, at.classes)

    def errors(nu: float, p: int) -> dict[str, Tensor]:
        point = (rho, nu * lam, at.tau, p)
        exact, mean = ((offset + f(*point)).log_softmax(-1) for f in (vmf_score, linear))
        gaps = (mean.exp() - exact.exp()).abs().amax(-1)
        return {"probabilities": gaps, "loss": mean[:, 0] - exact[:, 0]}

    return shared.over_dimensions(at.p, errors).finding


@check
def growing_temperature(at: Any, linear: Callable[..., Tensor] = mean_scores) -> Finding:
    """Check the order 2a - 1 of the linear-mean error for 1/tau = nu^a."""
    rho, lam, _ = shared.random_states(at.states, 1)

    def errors(nu: float, p: int) -> dict[str, Tensor]:
        points = {f"{a:g}": (rho, nu * lam, nu**-a, p) for a in at.powers}
        return {name: linear(*point) - vmf_score(*point) for name, point in points.items()}

    return shared.over_dimensions(at.p, errors).finding


@check
def leading_gradient(at: Any, gradient: Callable[..., Tensor] = loss_gradient) -> Finding:
    """Check the order of the linear-mean gradient, in a subspace that is fixed over p."""
    small = shared.random_state(at.seeds[0], at.classes, at.subspace, at.lam)
    lam = small.kappa / (at.subspace / 2 - 1)
    z, y = shared.random_queries(at.seeds[1], at.queries, small)

    def errors(nu: float, p: int) -> dict[str, Tensor]:
        mu, x = (torch.nn.functional.pad(a, (0, p - at.subspace)) for a in (small.mu, z))
        rule = realize(ClassState(mu, nu * lam, small.count), Rule(at.tau))
        exact = loss_gradient(x, y, rule)
        linear = {"with": rule.linear(), "without": rule.linear(intercept=False)}
        return {n: (gradient(x, y, r) - exact).norm(dim=-1).max() for n, r in linear.items()}

    return shared.over_dimensions(at.p, errors).finding


@check
def free_energy(at: Any, expansion: Callable[..., Tensor] = free_energy_expansion) -> Finding:
    """Check that q/nu tends to the free energy for 1/tau = nu s; bounded-t terms do not."""
    rho, lam, s = shared.grid(at.rho, at.lam, at.s)
    kinds = {"free energy": (expansion, 0), "bounded t": (joint_expansion, 2)}

    def errors(nu: float, p: int) -> dict[str, Tensor]:
        point = (rho, nu * lam, 1 / (nu * s), p)
        q = vmf_score(*point)
        return {
            name: (f(*point, order, validate_args=False) - q).abs().max() / nu
            for name, (f, order) in kinds.items()
        }

    fitted = shared.over_dimensions(at.p, errors)
    bounded = fitted.errors["bounded t"][:, 0]
    change = float(bounded[-1] / bounded[0])
    values = fitted.medians[0], change, float(bounded[-1])
    return Finding(values, fitted.details, abs(change - 1) < 0.1)


def _coupled(at: Any, residual: Callable[..., Tensor]) -> shared.Orders:
    """Fit the orders of residuals with and without the variance term."""
    rho, lam, offset = shared.random_states(at.states, at.classes)

    def errors(nu: float, p: int) -> dict[str, Tensor]:
        point = (rho, nu * lam, at.tau, p)
        B, exact = joint_terms(*point), offset + vmf_score(*point)
        terms = (offset + B[0], B[1], B[2], p)
        return {name: residual(exact, terms, name == "with").abs() for name in ("with", "without")}

    return shared.over_dimensions(at.p, errors)


@check
def softmax_coupling(at: Any, loss: Callable[..., Tensor] = propagate_loss) -> Finding:
    """Check the order of the loss with the variance term V1/2 and without it."""

    def residual(exact: Tensor, terms: Sequence[Any], variance: bool) -> Tensor:
        return loss(*terms, 0, variance=variance) + exact.log_softmax(-1)[:, 0]

    fitted = _coupled(at, residual)

    def panels() -> list[Any]:
        curves, nu = [], fitted.x
        for word, power, colour in (("without", 2, style.ORANGE), ("with", 3, style.BLUE)):
            levels = torch.tensor([0.25, 0.5, 0.75]).double()
            low, median, high = fitted.errors[word].quantile(levels, dim=1)
            name = f"{word} $V_1/2$"
            curves.append(Curve(nu, median, "o-", name, colour, band=(low, high)))
            guide = 3 * median[0] * (nu / nu[0]) ** -power
            curves.append(Curve(nu, guide, ":", rf"slope $-{power}$", colour))
        return [curves]

    return Finding(fitted.medians, fitted.details, panels=panels)


@check
def softmax_probabilities(
    at: Any, probabilities: Callable[..., Tensor] = propagate_probabilities
) -> Finding:
    """Check the order of the probabilities with the variance term and without it."""

    def residual(exact: Tensor, terms: Sequence[Any], variance: bool) -> Tensor:
        return (probabilities(*terms, variance=variance) - exact.softmax(-1)).abs().amax(-1)

    return _coupled(at, residual).finding


@check
def projection_limit(at: Any, variance: Callable[..., Tensor] = projection_variance) -> Finding:
    """Check that a projection is normal on the scale nu^-1/2, everywhere on a grid, with the
    variance that the exact one tends to."""
    x, lams = shared.axis(at.x), shared.axis(at.lam)
    below = 0.5 * torch.erfc(-x / math.sqrt(2))

    def errors(nu: float, p: int) -> dict[str, Tensor]:
        gaps = []
        for lam, beta in zip(*(a.tolist() for a in shared.grid(at.lam, at.cosine)), strict=True):
            r0 = ratio_terms(torch.tensor(lam, dtype=torch.float64)).r0
            scale = (variance(lam, beta, math.sqrt(1 - beta**2)) / nu).sqrt()
            # Thresholds outside the sphere have probability zero or one.
            xi = (r0 * beta + scale * x).clamp(-1, 1)
            exact = log_projection_tail(xi, beta, nu * lam, p, upper=False).exp()
            gaps.append((exact - below).abs().max())
        return {"gap": torch.stack(gaps).max()}

    fitted = shared.over_dimensions(at.p, errors)
    last, nu = float(fitted.errors["gap"][-1]), at.p[-1] / 2 - 1
    # Of a coordinate across and along the mean direction.
    A, kappa = bessel_ratio(nu, nu * lams), nu * lams
    spread = A / kappa
    exact = torch.stack([1 - A.square() - (at.p[-1] - 1) * spread, spread])
    ends = torch.stack([variance(lams, 1.0, 0.0), variance(lams, 0.0, 1.0)])
    apart = float((nu * exact / ends - 1).abs().max())
    values = *fitted.medians, last, at.p[-1], apart
    return Finding(values, {**fitted.details, "variance": apart}, last < 0.01 and apart < 1e-3)
