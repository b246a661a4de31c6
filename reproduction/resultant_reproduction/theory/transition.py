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
from resultant_reproduction.theory.check import Check

CRITICAL = BinaryModel(2.0, 1.0, 0.3, tau=0.5)
ORDERED = BinaryModel(2.0, 1.0, 0.3, tau=0.5, b_h=0.1)
# Close classes, for which the offsets decide the larger exponent.
CLOSE = BinaryModel(1.2, 1.0, -0.2, tau=1.0, b_h=0.05, b_t=-0.05)

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
    last = dimensions[-1]
    steps = {-0.05: 1.0, 0.0: 0.5, 0.05: 0.0}
    errors = tail_errors(torch.tensor(list(steps), dtype=torch.float64), last, at).tolist()
    near = all(abs(a - b) < 0.02 for a, b in zip(errors, steps.values(), strict=True))
    holds = near and abs(widths[-1] - 1) < 0.01

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
        name="error-transition",
        label="thm:conditional-error-transition",
        claim="tail error at R_t = -0.05, 0, 0.05; width x sqrt(nu) over its limit",
        paper="1, 1/2, 0; 1",
        ours=", ".join(f"{e:.3f}" for e in errors) + f"; {widths[-1]:.4f}",
        holds=holds,
        details={
            "model": vars(CRITICAL),
            "p": dimensions,
            "rule": f"errors within 0.02 of their limits and width within 0.01, at p = {last}",
            "scaled_width": widths,
            "R_t": list(steps),
            "errors": errors,
        },
        panels=panels,
    )


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
        for name, colour, key in (("head", style.BLUE, "h"), ("tail", style.ORANGE, "t")):
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
        return [
            Chart([*curves, least], xlabel, "class error", "errors", limits),
            Chart([differ], xlabel, "share of draws", title, LOG),
        ]
        # Both belong to panel (d) of fig:synthetic-transition.

    return Check(
        name="rule-agreement",
        label="fig:synthetic-transition",
        claim="tail draws at R_t = 0 that exact scores and leading rule decide differently",
        paper="agree",
        ours=f"{shares[0]:.2%} at p = {dimensions[0]}, {shares[-1]:.2%} at p = {dimensions[-1]}",
        holds=falls and shares[-1] < 2e-3,
        details={
            "model": vars(AT_ZERO),
            "p": dimensions,
            "samples": samples,
            "seed": 3,
            "rule": "the share falls with p, and is below 0.002 at the last",
            "shares": shares,
        },
        panels=panels,
        layout={"legend": 4},
    )


def error_exponents(exponents: Exponents = of_model) -> Check:
    """Check that -log(error)/nu tends to the rate at the threshold (eq:error-exponent).

    The remainder after Laplace's prefactor, -log(error) - nu I - log(nu)/2, must converge.
    """
    dimensions = (64, 256, 1024, 4096, 16384, 65536)
    nu = [p / 2 - 1 for p in dimensions]
    limit = exponents(ORDERED)
    logs = [ORDERED.log_errors(p) for p in dimensions]
    reached = {
        key: [-getattr(e, key) / n for e, n in zip(logs, nu, strict=True)] for key in Pair._fields
    }
    rests = {
        key: [
            n * (value - getattr(limit, key)) - 0.5 * math.log(n)
            for value, n in zip(values, nu, strict=True)
        ]
        for key, values in reached.items()
    }
    steps = {key: [abs(b - a) for a, b in itertools.pairwise(r)] for key, r in rests.items()}
    # A wrong rate would add a term that grows as nu.
    holds = all(
        s[-1] < 0.01 and all(b < 0.7 * a for a, b in itertools.pairwise(s)) for s in steps.values()
    )

    def panels() -> list[Chart]:
        curves = []
        for key, name, colour in (("h", "head", style.BLUE), ("t", "tail", style.ORANGE)):
            rate = getattr(limit, key)
            curves.append(Curve(nu, reached[key], "o-", name, colour))
            curves.append(Curve((nu[0], nu[-1]), (rate, rate), "--", f"{name}, limit", colour))
        labels = r"$\nu=p/2-1$", r"$-\nu^{-1}\log\,$error", "errors reach the exponents"
        chart = Chart(curves, *labels, {"xscale": "log", "ylim": (0, None)})
        # Panel (c) of fig:synthetic-transition.
        return [chart]

    return Check(
        name="error-exponents",
        label="eq:error-exponent",
        claim="-log(error)/nu of head and tail, and the rates I_h, I_t",
        paper=f"I = {limit.h:.5f}, {limit.t:.5f} by formula",
        ours=f"{reached['h'][-1]:.5f}, {reached['t'][-1]:.5f} at p = {dimensions[-1]}",
        holds=holds,
        details={
            "model": vars(ORDERED),
            "p": dimensions,
            "rule": "-log(error) - nu I - log(nu)/2 converges: each step is below 0.7 of the "
            "previous one, the last below 0.01",
            "exponents": limit._asdict(),
            "reached": reached,
            "steps_of_rest": steps,
        },
        panels=panels,
        layout={"width": 4.4, "height": 3.2, "legend": 4},
    )


def prior_reversal(exponents: Exponents = of_model) -> Check:
    """Check that exchanged offsets give the tail the larger exponent (fig:prior-control-app)."""
    stated, exchanged = exponents(CLOSE), exponents(CLOSE.reversed_prior())
    p = 4096
    errors = [model.log_errors(p) for model in (CLOSE, CLOSE.reversed_prior())]
    holds = (
        stated.h > stated.t
        and exchanged.h < exchanged.t
        and errors[0].h < errors[0].t
        and errors[1].h > errors[1].t
    )

    def panels() -> list[Chart]:
        # Both typical margins stay positive in between.
        offsets = torch.linspace(-0.16, 0.16, 81).tolist()
        models = [replace(CLOSE, b_h=b / 2, b_t=-b / 2) for b in offsets]
        rates = [exponents(model) for model in models]
        top = max(max(r) for r in rates)
        curves = [
            Curve(offsets, [r.h for r in rates], "-", "head", style.BLUE),
            Curve(offsets, [r.t for r in rates], "-", "tail", style.ORANGE),
            Curve((0.1, 0.1), (0, top), ":", "stated prior", style.GREY),
            Curve((-0.1, -0.1), (0, top), "--", "exchanged prior", style.GREY),
        ]
        labels = "offset difference $b_h-b_t$", "error exponent", "The prior orders the exponents"
        chart = Chart(curves, *labels, {"ylim": (0, None)})
        return [chart]

    return Check(
        name="prior-reversal",
        label="fig:prior-control-app",
        claim="head less tail exponent, prior as stated; exchanged",
        paper="> 0; < 0",
        ours=f"{stated.h - stated.t:+.4f}; {exchanged.h - exchanged.t:+.4f}",
        holds=holds,
        details={
            "model": vars(CLOSE),
            "rule": f"order of the exponents, and of the errors at p = {p}",
            "stated": stated._asdict(),
            "exchanged": exchanged._asdict(),
            "log_errors": [e._asdict() for e in errors],
        },
        panels=panels,
        layout={"width": 4.4, "height": 3.2, "legend": 4},
    )


def exponent_order(exponents: Exponents = of_model) -> Check:
    """Check I_h >= I_t for lambda_h >= lambda_t, b_h >= b_t, R_t > 0
    (sec:large-deviation-exponent)."""
    models, generator = 400, torch.Generator().manual_seed(11)
    draws = torch.rand(models, 5, generator=generator, dtype=torch.float64)
    low = torch.tensor([0.05, 0.05, -1.0, 0.05, 0.0], dtype=torch.float64)
    high = torch.tensor([10.0, 10.0, 0.95, 2.0, 0.2], dtype=torch.float64)
    gaps = []
    for a, b, c, tau, offset in (low + (high - low) * draws).tolist():
        model = BinaryModel(max(a, b), min(a, b), c, tau, b_h=offset)
        if model.typical_margins.t > 0:
            rates = exponents(model)
            gaps.append(rates.h - rates.t)
    wrong = sum(gap < 0 for gap in gaps)
    return Check(
        name="exponent-order",
        label="sec:large-deviation-exponent",
        claim="random models in which the tail has the larger exponent",
        paper="0",
        ours=f"{wrong} of {len(gaps)}",
        holds=bool(gaps) and wrong == 0,
        details={
            "grid": {
                "lambda": "uniform in [0.05, 10]",
                "cosine": "uniform in [-1, 0.95]",
                "tau": "uniform in [0.05, 2]",
                "b_h - b_t": "uniform in [0, 0.2]",
                "kept": "R_t > 0",
                "seed": 11,
            },
            "smallest_gap": min(gaps, default=math.nan),
        },
    )
