"""The matched binary model: the error transition, the exponents and the effect of the prior."""

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from operator import attrgetter
from typing import Any, Literal

import numpy as np
import torch
from scipy import stats
from torch import Tensor

from resultant.report import style
from resultant.theory.binary_model import BinaryModel, Pair
from resultant.vmf.tails import log_projection_tail
from resultant_reproduction.cells.charts import Curve, shades
from resultant_reproduction.theory.check import Finding, axis, check, near, rounding, uniform

CRITICAL = BinaryModel(2.0, 1.0, 0.3, tau=0.5)
ORDERED = BinaryModel(2.0, 1.0, 0.3, tau=0.5, b_h=0.1)
# Close classes, for which the offsets decide the larger exponent.
CLOSE = BinaryModel(1.2, 1.0, -0.2, tau=1.0, b_h=0.05, b_t=-0.05)
CLASSES = (("head", style.BLUE, "h"), ("tail", style.ORANGE, "t"))
# Limits of a class error by its typical margin.
STEPS = {-0.05: 1.0, 0.0: 0.5, 0.05: 0.0}

Exponents = Callable[[BinaryModel], Pair]
# eq:error-exponent.
of_model: Exponents = attrgetter("exponents")
# (p, samples, label) -> leading and exact margins of the same draws
Draws = Callable[[int, int, Literal["h", "t"]], tuple[Tensor, Tensor]]


def at_margin(R_t: float) -> BinaryModel:
    """Shift an offset of `CRITICAL` so that the tail class has this typical margin."""
    return replace(CRITICAL, b_h=(CRITICAL.typical_margins.t - R_t) / CRITICAL.tau)


def at_head_margin(R_h: float) -> BinaryModel:
    """Shift an offset of `CRITICAL` so that the head class has this typical margin."""
    return replace(CRITICAL, b_h=(R_h - CRITICAL.typical_margins.h) / CRITICAL.tau)


AT_ZERO = at_margin(0.0)


def tail_errors(margins: Tensor, p: int, shifted: Callable[[float], BinaryModel]) -> np.ndarray:
    """Return the tail errors of the leading rule at typical margins R_t, by one quadrature."""
    models = [shifted(R) for R in margins.tolist()]
    xi = torch.tensor([model.xi_0 for model in models], dtype=torch.float64)
    # The offsets change only the threshold.
    beta, kappa = models[0].beta.t, models[0].concentrations(p).t
    return log_projection_tail(xi, beta, kappa, p, upper=True).exp().numpy()


@check
def error_transition(at: Any, shifted: Callable[[float], BinaryModel] = at_margin) -> Finding:
    """Check that the tail error steps at R_t = 0 over a width that falls as nu^-1/2."""
    deviation, x = math.sqrt(CRITICAL.variances.t), axis(at.x)
    scaled = {p: tail_errors(x * deviation / math.sqrt(p / 2 - 1), p, shifted) for p in at.p}
    # The distance between errors of 0.9 and 0.1, over its limit; the quantiles of the error are
    # nearly linear in R_t.
    ends = [float(stats.norm.isf(level)) for level in (0.9, 0.1)]
    widths = []
    for error in scaled.values():
        low, high = np.interp(ends, stats.norm.isf(error.clip(1e-12, 1 - 1e-12)), x)
        widths.append(float(high - low) / (ends[1] - ends[0]))
    errors = tail_errors(axis([*STEPS]), at.p[-1], shifted).tolist()

    def panels() -> list[Any]:
        # Dense near zero, where the step becomes steep.
        R = 0.15 * torch.linspace(-1, 1, 81, dtype=torch.float64) ** 3
        colours = dict(zip(at.p, shades(len(at.p)), strict=True))
        steps = [
            Curve(R, tail_errors(R, p, shifted), "-", f"$p={p}$", c) for p, c in colours.items()
        ]
        limit = stats.norm.sf(x)
        own = [Curve(x, scaled[p] - limit, color=c) for p, c in colours.items()]
        return [steps, own]

    details = {"model": vars(CRITICAL), "scaled_width": widths, "errors": errors}
    return Finding((*errors, widths[-1]), details, abs(widths[-1] - 1) < 0.01, panels)


@check
def head_transition(at: Any, shifted: Callable[[float], BinaryModel] = at_head_margin) -> Finding:
    """Check that the head error of the exact rule steps at R_h = 0 as a normal law."""
    deviation = math.sqrt(CRITICAL.variances.h / (at.p / 2 - 1))
    limits = STEPS | {deviation * float(stats.norm.isf(level)): level for level in (0.9, 0.1)}
    errors = [shifted(R).errors(at.p, "exact").h for R in limits]
    details = {"model": vars(CRITICAL), "R_h": [*limits], "errors": errors}
    return Finding(errors, details, near(errors, limits.values(), 0.002))


@check
def rule_agreement(at: Any, draws: Draws = AT_ZERO.sample_margins) -> Finding:
    """Check that exact scores and the leading rule agree (fig:synthetic-transition, d) on the same
    draws of the tail class at R_t = 0, where most lie near the boundary."""
    torch.manual_seed(at.seed)
    shares = []
    for p in at.p:
        leading, exact = draws(p, at.samples, "t")
        shares.append(float(((leading >= 0) != (exact >= 0)).double().mean()))
    falls = all(b < a for a, b in pairwise(shares))

    def panels() -> list[Any]:
        torch.manual_seed(at.seed)
        shown = at.shown
        counted = [ORDERED.monte_carlo(p, at.samples) for p in shown]
        # The exact rule is a broad band, because the leading one lies on it.
        looks: dict[Any, dict[str, Any]] = {"exact": {"lw": 5, "alpha": 0.35}, "leading": {}}
        errors = {rule: [ORDERED.errors(p, rule) for p in shown] for rule in looks}
        curves = []
        for name, colour, key in CLASSES:
            for rule, look in looks.items():
                line = [getattr(e, key) for e in errors[rule]]
                curves.append(Curve(shown, line, "-", f"{name}, {rule} rule", colour, more=look))
            dots = [getattr(e, key) for e in counted]
            bars = [2 * e.standard_error if e.value else 0 for e in dots]
            heights = [e.displayed for e in dots]
            curves.append(Curve(shown, heights, "o", f"{name}, counted", colour, bars))
        least = Curve(shown, [0.5 / at.samples] * len(shown), ":", "half a count", style.GREY)
        # Both belong to panel (d) of fig:synthetic-transition.
        return [[*curves, least], [Curve(at.p, shares, "o-", color=style.GREEN)]]

    details = {"model": vars(AT_ZERO), "shares": shares}
    values = shares[0], at.p[0], shares[-1], at.p[-1]
    return Finding(values, details, falls and shares[-1] < 2e-3, panels)


@check
def error_exponents(at: Any, exponents: Exponents = of_model) -> Finding:
    """Check that -log(error)/nu tends to the rate at the threshold (eq:error-exponent)."""
    nu = [p / 2 - 1 for p in at.p]
    limit = exponents(ORDERED)._asdict()
    logs = [ORDERED.log_errors(p) for p in at.p]
    reached, steps = {}, {}
    for key, rate in limit.items():
        reached[key] = [-getattr(e, key) / n for e, n in zip(logs, nu, strict=True)]
        pairs = zip(reached[key], nu, strict=True)
        rests = [n * (value - rate) - 0.5 * math.log(n) for value, n in pairs]
        steps[key] = [abs(b - a) for a, b in pairwise(rests)]
    # A wrong rate would add a term that grows as nu.
    holds = all(s[-1] < 0.01 and all(b < 0.7 * a for a, b in pairwise(s)) for s in steps.values())

    def panels() -> list[Any]:
        curves = []
        for name, colour, key in CLASSES:
            curves.append(Curve(nu, reached[key], "o-", name, colour))
            level = (limit[key], limit[key])
            curves.append(Curve((nu[0], nu[-1]), level, "--", f"{name}, limit", colour))
        # Panel (c) of fig:synthetic-transition.
        return [curves]

    details = {"model": vars(ORDERED), "exponents": limit, "reached": reached}
    values = reached["h"][-1], reached["t"][-1], at.p[-1], *limit.values()
    return Finding(values, details | {"steps_of_rest": steps}, holds, panels)


@check
def prior_reversal(at: Any, exponents: Exponents = of_model) -> Finding:
    """Check that exchanged offsets give the tail the larger exponent (fig:prior-control-app)."""
    models = CLOSE, CLOSE.reversed_prior()
    stated, exchanged = map(exponents, models)
    before, after = (model.log_errors(at.p) for model in models)
    holds = stated.h > stated.t and exchanged.h < exchanged.t
    holds = holds and before.h < before.t and after.h > after.t

    def panels() -> list[Any]:
        # Both typical margins stay positive in between.
        offsets = torch.linspace(-0.16, 0.16, 81).tolist()
        rates = [exponents(replace(CLOSE, b_h=b / 2, b_t=-b / 2)) for b in offsets]
        top = max(max(r) for r in rates)
        curves = [
            *(Curve(offsets, [getattr(r, k) for r in rates], "-", n, c) for n, c, k in CLASSES),
            Curve((0.1, 0.1), (0, top), ":", "stated prior", style.GREY),
            Curve((-0.1, -0.1), (0, top), "--", "exchanged prior", style.GREY),
        ]
        return [curves]

    pairs = {"stated": stated, "exchanged": exchanged, "before": before, "after": after}
    details = {"model": vars(CLOSE), **{name: pair._asdict() for name, pair in pairs.items()}}
    return Finding((stated.h - stated.t, exchanged.h - exchanged.t), details, holds, panels)


@check
def exponent_order(at: Any, exponents: Exponents = of_model) -> Finding:
    """Check I_h >= I_t for lambda_h >= lambda_t, b_h >= b_t, R_t > 0."""
    gaps = []
    for a, b, c, tau, offset in uniform(at.seed, at.models, at.ranges):
        model = BinaryModel(max(a, b), min(a, b), c, tau, b_h=offset)
        if model.typical_margins.t > 0:
            rates = exponents(model)
            gaps.append(rates.h - rates.t)
    wrong = sum(gap < 0 for gap in gaps)
    details = {"smallest_gap": min(gaps, default=math.nan)}
    return Finding((wrong, len(gaps)), details, bool(gaps) and wrong == 0)


@check
def exponent_equality(at: Any, exponents: Exponents = of_model) -> Finding:
    """Check that I_h = I_t for equal concentrations and offsets, and only then."""
    equal, unequal = [], []
    for lam, c, tau in uniform(at.seed, at.models, at.ranges):
        model = BinaryModel(lam, lam, c, tau)
        # An offset of a hundredth of the margin that it takes from the tail.
        offset = at.raised * model.typical_margins.t / tau
        others = replace(model, lambda_h=(1 + at.raised) * lam), replace(model, b_h=offset)
        for own, gaps in (((model,), equal), (others, unequal)):
            gaps += [(rates.h - rates.t) / rates.t for rates in map(exponents, own)]
    most, least = max(map(abs, equal)), min(unequal)
    details = {"largest_of_symmetric": most, "least_of_others": least}
    return Finding((rounding(most), least), details, most < 1e-12 and least > 1e-6)
