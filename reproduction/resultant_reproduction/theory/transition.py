"""The matched binary model: the error transition, the exponents and the effect of the prior."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
from scipy import stats
from torch import Tensor

from resultant.report import style
from resultant.theory.binary_model import BinaryModel, Pair
from resultant.vmf.tails import log_projection_tail
from resultant_reproduction.figures import LOG, Chart, Curve, shades
from resultant_reproduction.theory.check import WIDE, Check, check, described, listed, near, uniform

CRITICAL = BinaryModel(2.0, 1.0, 0.3, tau=0.5)
ORDERED = BinaryModel(2.0, 1.0, 0.3, tau=0.5, b_h=0.1)
# Close classes, for which the offsets decide the larger exponent.
CLOSE = BinaryModel(1.2, 1.0, -0.2, tau=1.0, b_h=0.05, b_t=-0.05)
CLASSES = (("head", style.BLUE, "h"), ("tail", style.ORANGE, "t"))
# Limits of a class error by its typical margin.
STEPS = {-0.05: 1.0, 0.0: 0.5, 0.05: 0.0}

Exponents = Callable[[BinaryModel], Pair]
# (p, samples, label) -> leading and exact margins of the same draws
Draws = Callable[[int, int, Literal["h", "t"]], tuple[Tensor, Tensor]]


def of_model(model: BinaryModel) -> Pair:
    """Return the exponents of eq:error-exponent."""
    return model.exponents


def at_margin(R_t: float) -> BinaryModel:
    """Shift an offset of `CRITICAL` so that the tail class has this typical margin."""
    return replace(CRITICAL, b_h=(CRITICAL.typical_margins.t - R_t) / CRITICAL.tau)


AT_ZERO = at_margin(0.0)


def tail_errors(margins: Tensor, p: int, at: Callable[[float], BinaryModel]) -> np.ndarray:
    """Return the tail errors of the leading rule at typical margins R_t, by one quadrature."""
    models = [at(R) for R in margins.tolist()]
    xi = torch.tensor([model.xi_0 for model in models], dtype=torch.float64)
    # The offsets change only the threshold.
    beta, kappa = models[0].beta.t, models[0].concentrations(p).t
    return log_projection_tail(xi, beta, kappa, p, upper=True).exp().numpy()


@check
def error_transition(at: Callable[[float], BinaryModel] = at_margin) -> Check:
    """Check that the tail error steps from 1 to 0 at R_t = 0 over a width that falls as nu^-1/2
    (thm:conditional-error-transition)."""
    dimensions = (34, 130, 514, 2050, 8194)
    deviation = math.sqrt(CRITICAL.variances.t)
    x = torch.linspace(-4, 4, 41, dtype=torch.float64)
    scaled = {p: tail_errors(x * deviation / math.sqrt(p / 2 - 1), p, at) for p in dimensions}
    # The distance between errors of 0.9 and 0.1, over its limit; the quantiles of the error are
    # nearly linear in R_t.
    ends = [float(stats.norm.isf(level)) for level in (0.9, 0.1)]
    widths = []
    for error in scaled.values():
        low, high = np.interp(ends, stats.norm.isf(error.clip(1e-12, 1 - 1e-12)), x)
        widths.append(float(high - low) / (ends[1] - ends[0]))
    margins = torch.tensor(list(STEPS), dtype=torch.float64)
    errors = tail_errors(margins, dimensions[-1], at).tolist()

    def panels() -> list[Chart]:
        # Dense near zero, where the step becomes steep.
        R = 0.15 * torch.linspace(-1, 1, 81, dtype=torch.float64) ** 3
        colours = dict(zip(dimensions, shades(len(dimensions)), strict=True))
        steps = [Curve(R, tail_errors(R, p, at), "-", f"$p={p}$", c) for p, c in colours.items()]
        limit = stats.norm.sf(x)
        own = [Curve(x, scaled[p] - limit, color=c) for p, c in colours.items()]
        return [
            Chart(steps, "typical tail margin $R_t$", "tail error", "narrowing at $R_t=0$"),
            Chart(own, r"$\sqrt{\nu}\,R_t/\sigma$", "tail error less its limit", "own scale"),
        ]

    return Check(
        ours=f"{listed(errors)}; {widths[-1]:.4f}",
        holds=near(errors, STEPS.values(), 0.02) and abs(widths[-1] - 1) < 0.01,
        details={
            "model": vars(CRITICAL),
            "p": dimensions,
            "scaled_width": widths,
            "R_t": list(STEPS),
            "errors": errors,
        },
        panels=panels,
    )


@check
def rule_agreement(samples: int = 100_000, draws: Draws = AT_ZERO.sample_margins) -> Check:
    """Check that exact scores and the leading rule agree (fig:synthetic-transition, d).

    Both rules see the same draws of the tail class at R_t = 0, where most draws lie near the
    boundary. The figure counts errors in the dimensions ``shown``.
    """
    shown = (10, 18, 34, 66, 130, 258, 514)
    dimensions = (10, 34, 130, 514, 2050)
    torch.manual_seed(3)
    shares = []
    for p in dimensions:
        leading, exact = draws(p, samples, "t")
        shares.append(float(((leading >= 0) != (exact >= 0)).double().mean()))
    falls = all(b < a for a, b in itertools.pairwise(shares))

    def panels() -> list[Chart]:
        torch.manual_seed(3)
        counted = [ORDERED.monte_carlo(p, samples) for p in shown]
        # The exact rule is a broad band, because the leading one lies on it.
        looks: dict[Any, dict[str, Any]] = {"exact": {"lw": 5, "alpha": 0.35}, "leading": {}}
        errors = {rule: [ORDERED.errors(p, rule) for p in shown] for rule in looks}
        curves = []
        for name, colour, key in CLASSES:
            for rule, look in looks.items():
                line = [getattr(e, key) for e in errors[rule]]
                curves.append(Curve(shown, line, "-", f"{name}, {rule} rule", colour, more=look))
            dots = [getattr(e, key) for e in counted]
            shares_of = [e.displayed for e in dots]
            bars = [2 * e.standard_error if e.value else 0 for e in dots]
            curves.append(Curve(shown, shares_of, "o", f"{name}, counted", colour, bars))
        least = Curve(shown, [0.5 / samples] * len(shown), ":", "half a count", style.GREY)
        xlabel, limits = "dimension $p$", {**LOG, "ylim": (0.2 / samples, 1)}
        differ = Curve(dimensions, shares, "o-", color=style.GREEN)
        title = "decided differently at $R_t=0$"
        # Both belong to panel (d) of fig:synthetic-transition.
        return [
            Chart([*curves, least], xlabel, "class error", "errors", limits),
            Chart([differ], xlabel, "share of draws", title, LOG),
        ]

    return Check(
        ours=f"{shares[0]:.2%} at p = {dimensions[0]}, {shares[-1]:.2%} at p = {dimensions[-1]}",
        holds=falls and shares[-1] < 2e-3,
        details={
            "model": vars(AT_ZERO),
            "p": dimensions,
            "samples": samples,
            "seed": 3,
            "shares": shares,
        },
        panels=panels,
        layout={"legend": 4},
    )


@check
def error_exponents(exponents: Exponents = of_model) -> Check:
    """Check that -log(error)/nu tends to the rate at the threshold (eq:error-exponent).

    The remainder after Laplace's prefactor, -log(error) - nu I - log(nu)/2, must converge.
    """
    dimensions = (64, 256, 1024, 4096, 16384, 65536)
    nu = [p / 2 - 1 for p in dimensions]
    limit = exponents(ORDERED)
    logs = [ORDERED.log_errors(p) for p in dimensions]
    reached, steps = {}, {}
    for key in Pair._fields:
        reached[key] = [-getattr(e, key) / n for e, n in zip(logs, nu, strict=True)]
        rests = [
            n * (value - getattr(limit, key)) - 0.5 * math.log(n)
            for value, n in zip(reached[key], nu, strict=True)
        ]
        steps[key] = [abs(b - a) for a, b in itertools.pairwise(rests)]
    # A wrong rate would add a term that grows as nu.
    holds = all(
        s[-1] < 0.01 and all(b < 0.7 * a for a, b in itertools.pairwise(s)) for s in steps.values()
    )

    def panels() -> list[Chart]:
        curves = []
        for name, colour, key in CLASSES:
            rate = getattr(limit, key)
            curves.append(Curve(nu, reached[key], "o-", name, colour))
            curves.append(Curve((nu[0], nu[-1]), (rate, rate), "--", f"{name}, limit", colour))
        labels = r"$\nu=p/2-1$", r"$-\nu^{-1}\log\,$error", "errors reach the exponents"
        # Panel (c) of fig:synthetic-transition.
        return [Chart(curves, *labels, {"xscale": "log", "ylim": (0, None)})]

    return Check(
        paper=f"I = {limit.h:.5f}, {limit.t:.5f} by formula",
        ours=f"{reached['h'][-1]:.5f}, {reached['t'][-1]:.5f} at p = {dimensions[-1]}",
        holds=holds,
        details={
            "model": vars(ORDERED),
            "p": dimensions,
            "exponents": limit._asdict(),
            "reached": reached,
            "steps_of_rest": steps,
        },
        panels=panels,
        layout=WIDE,
    )


@check
def prior_reversal(exponents: Exponents = of_model) -> Check:
    """Check that exchanged offsets give the tail the larger exponent (fig:prior-control-app)."""
    models = CLOSE, CLOSE.reversed_prior()
    stated, exchanged = map(exponents, models)
    errors = [model.log_errors(4096) for model in models]
    holds = (
        stated.h > stated.t
        and exchanged.h < exchanged.t
        and errors[0].h < errors[0].t
        and errors[1].h > errors[1].t
    )

    def panels() -> list[Chart]:
        # Both typical margins stay positive in between.
        offsets = torch.linspace(-0.16, 0.16, 81).tolist()
        rates = [exponents(replace(CLOSE, b_h=b / 2, b_t=-b / 2)) for b in offsets]
        top = max(max(r) for r in rates)
        curves = [
            *(Curve(offsets, [getattr(r, k) for r in rates], "-", n, c) for n, c, k in CLASSES),
            Curve((0.1, 0.1), (0, top), ":", "stated prior", style.GREY),
            Curve((-0.1, -0.1), (0, top), "--", "exchanged prior", style.GREY),
        ]
        labels = "offset difference $b_h-b_t$", "error exponent", "The prior orders the exponents"
        return [Chart(curves, *labels, {"ylim": (0, None)})]

    return Check(
        ours=f"{stated.h - stated.t:+.4f}; {exchanged.h - exchanged.t:+.4f}",
        holds=holds,
        details={
            "model": vars(CLOSE),
            "stated": stated._asdict(),
            "exchanged": exchanged._asdict(),
            "log_errors": [e._asdict() for e in errors],
        },
        panels=panels,
        layout=WIDE,
    )


@check
def exponent_order(exponents: Exponents = of_model) -> Check:
    """Check I_h >= I_t for lambda_h >= lambda_t, b_h >= b_t, R_t > 0
    (sec:large-deviation-exponent)."""
    ranges = {"lambda": (0.05, 10.0), "other lambda": (0.05, 10.0), "cosine": (-1.0, 0.95)}
    ranges |= {"tau": (0.05, 2.0), "b_h - b_t": (0.0, 0.2)}
    gaps = []
    for a, b, c, tau, offset in uniform(11, 400, ranges):
        model = BinaryModel(max(a, b), min(a, b), c, tau, b_h=offset)
        if model.typical_margins.t > 0:
            rates = exponents(model)
            gaps.append(rates.h - rates.t)
    wrong = sum(gap < 0 for gap in gaps)
    return Check(
        ours=f"{wrong} of {len(gaps)}",
        holds=bool(gaps) and wrong == 0,
        details={
            "grid": {**described(ranges), "kept": "R_t > 0", "seed": 11},
            "smallest_gap": min(gaps, default=math.nan),
        },
    )
