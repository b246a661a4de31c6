"""The matched binary model: the error transition, the exponents and what the prior does to them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from scipy import stats
from torch import Tensor

from resultant.decisions.binary_model import BinaryModel, Pair, Rule
from resultant.report import style
from resultant.vmf.tails import log_projection_tail
from resultant_reproduction.theory.check import Check

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CRITICAL = BinaryModel(2.0, 1.0, 0.3, tau=0.5)
ORDERED = BinaryModel(2.0, 1.0, 0.3, tau=0.5, b_h=0.1)
# Close classes: here the offsets decide which exponent is the larger.
CLOSE = BinaryModel(1.2, 1.0, -0.2, tau=1.0, b_h=0.05, b_t=-0.05)

Exponents = Callable[[BinaryModel], Pair]
# (p, samples, label) -> leading and exact margins of the same draws
Draws = Callable[[int, int, Literal["h", "t"]], tuple[Tensor, Tensor]]


def of_model(model: BinaryModel) -> Pair:
    """The exponents of eq:error-exponent."""
    return model.exponents


def at_margin(R_t: float, model: BinaryModel = CRITICAL) -> BinaryModel:
    """The model with its offsets moved so that the tail class has this typical margin."""
    flat = replace(model, b_h=0.0, b_t=0.0)
    return replace(flat, b_h=(flat.typical_margins.t - R_t) / model.tau)


AT_ZERO = at_margin(0.0)


def tail_errors(margins: Tensor, p: int, at: Callable[[float], BinaryModel]) -> np.ndarray:
    """The tail errors of the leading rule at typical margins R_t, by one quadrature."""
    models = [at(R) for R in margins.tolist()]
    xi = torch.tensor([model.xi_0 for model in models], dtype=torch.float64)
    # The offsets move the threshold only.
    beta, kappa = models[0].beta.t, models[0].concentrations(p).t
    return log_projection_tail(xi, beta, kappa, p, upper=True).exp().numpy()


def error_transition(at: Callable[[float], BinaryModel] = at_margin) -> Check:
    r"""thm:conditional-error-transition: the tail error steps from 1 to 0 at R_t = 0, over a width
    that falls as nu^-1/2."""
    dimensions = (34, 130, 514, 2050, 8194)
    deviation = math.sqrt(CRITICAL.variances.t)
    x = torch.linspace(-4, 4, 41, dtype=torch.float64)
    scaled = {p: tail_errors(x * deviation / math.sqrt(p / 2 - 1), p, at) for p in dimensions}
    # Between errors of 0.9 and 0.1, over what it is in the limit; the quantiles of the error are
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

    def draw() -> Figure:
        # Dense near zero, where the step becomes steep.
        R = 0.15 * torch.linspace(-1, 1, 81, dtype=torch.float64) ** 3
        with style.style():
            figure, axes = style.panels(2)
            for p, colour in zip(dimensions, style.shades(len(dimensions)), strict=True):
                axes[0].plot(R, tail_errors(R, p, at), color=colour, label=f"$p={p}$")
                axes[1].plot(x, scaled[p], color=colour)
            axes[1].plot(x, stats.norm.sf(x), "--", color=style.RED, zorder=5)
            axes[0].plot([], [], "--", color=style.RED, label="limit in (b)")
            axes[0].set_xlabel("typical tail margin $R_t$")
            axes[0].set_ylabel("tail error")
            axes[1].set_xlabel(r"$\sqrt{\nu}\,R_t/\sigma$")
            axes[0].set_title("narrowing at $R_t=0$", loc="left")
            axes[1].set_title("on its own scale", loc="left")
            style.letter(axes)
            style.legend_below(figure, axes[0])
        return figure

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
        draw=draw,
    )


def rule_agreement(samples: int = 100_000, draws: Draws = AT_ZERO.sample_margins) -> Check:
    """fig:synthetic-transition (d): exact scores and the leading rule decide alike.

    Compared on the same draws of the tail class at R_t = 0, where most of them lie near the
    boundary.
    """
    dimensions = (10, 34, 130, 514, 2050)
    torch.manual_seed(3)
    shares = []
    for p in dimensions:
        leading, exact = draws(p, samples, "t")
        shares.append(float(((leading >= 0) != (exact >= 0)).double().mean()))
    falls = all(b < a for a, b in itertools.pairwise(shares))

    def draw() -> Figure:
        torch.manual_seed(3)
        shown = (10, 18, 34, 66, 130, 258, 514)
        counted = [ORDERED.monte_carlo(p, samples) for p in shown]
        # The exact rule as a broad band: the leading one lies on it.
        looks: dict[Rule, dict[str, Any]] = {"exact": {"lw": 5, "alpha": 0.35}, "leading": {}}
        errors = {rule: [ORDERED.errors(p, rule) for p in shown] for rule in looks}
        with style.style():
            figure, axes = style.panels(2)
            for name, colour, key in (("head", style.BLUE, "h"), ("tail", style.ORANGE, "t")):
                dots = [getattr(e, key) for e in counted]
                for rule, look in looks.items():
                    line = [getattr(e, key) for e in errors[rule]]
                    axes[0].loglog(shown, line, color=colour, label=f"{name}, {rule} rule", **look)
                axes[0].errorbar(
                    shown,
                    [e.displayed for e in dots],
                    yerr=[2 * e.standard_error if e.value else 0 for e in dots],
                    fmt="o",
                    color=colour,
                    capsize=2,
                    label=f"{name}, counted",
                )
            axes[0].axhline(0.5 / samples, color=style.GREY, ls=":", label="half a count")
            axes[0].set_ylim(0.2 / samples, 1)
            axes[0].set_ylabel("class error")
            axes[0].set_title("errors", loc="left")
            axes[1].loglog(dimensions, shares, "o-", color=style.GREEN)
            axes[1].set_ylabel("share of draws")
            axes[1].set_title("decided differently at $R_t=0$", loc="left")
            for ax in axes:
                ax.set_xlabel("dimension $p$")
            # Both belong to panel (d) of fig:synthetic-transition.
            style.letter(axes, "dd")
            style.legend_below(figure, axes[0], columns=4)
        return figure

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
        draw=draw,
    )


def error_exponents(exponents: Exponents = of_model) -> Check:
    r"""eq:error-exponent: -log(error)/nu tends to the rate at the threshold.

    The rest after Laplace's prefactor, -log(error) - nu I - log(nu)/2, has to settle.
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
    # Strict falls: a wrong rate would add a term that grows as nu.
    holds = all(
        s[-1] < 0.01 and all(b < 0.7 * a for a, b in itertools.pairwise(s)) for s in steps.values()
    )

    def draw() -> Figure:
        with style.style():
            figure, (ax,) = style.panels(width=4.4, height=3.2)
            for key, name, colour in (("h", "head", style.BLUE), ("t", "tail", style.ORANGE)):
                ax.semilogx(nu, reached[key], "o-", color=colour, label=name)
                ax.axhline(getattr(limit, key), color=colour, ls="--", label=f"{name}, limit")
            ax.set_ylim(bottom=0)
            ax.set_xlabel(r"$\nu=p/2-1$")
            ax.set_ylabel(r"$-\nu^{-1}\log\,$error")
            ax.set_title("errors reach the exponents", loc="left")
            # As fig:synthetic-transition has it.
            style.letter([ax], "c")
            style.legend_below(figure, ax, columns=4)
        return figure

    return Check(
        name="error-exponents",
        label="eq:error-exponent",
        claim="-log(error)/nu of head, tail, beside the rates I_h, I_t",
        paper=f"I = {limit.h:.5f}, {limit.t:.5f} by formula",
        ours=f"{reached['h'][-1]:.5f}, {reached['t'][-1]:.5f} at p = {dimensions[-1]}",
        holds=holds,
        details={
            "model": vars(ORDERED),
            "p": dimensions,
            "rule": "-log(error) - nu I - log(nu)/2 settles: each step is below 0.7 of the one "
            "before, the last below 0.01",
            "exponents": limit._asdict(),
            "reached": reached,
            "steps_of_rest": steps,
        },
        draw=draw,
    )


def prior_reversal(exponents: Exponents = of_model) -> Check:
    """fig:prior-control-app: with the offsets exchanged the tail has the larger exponent."""
    stated, exchanged = exponents(CLOSE), exponents(CLOSE.reversed_prior())
    p = 4096
    errors = [model.log_errors(p) for model in (CLOSE, CLOSE.reversed_prior())]
    holds = (
        stated.h > stated.t
        and exchanged.h < exchanged.t
        and errors[0].h < errors[0].t
        and errors[1].h > errors[1].t
    )

    def draw() -> Figure:
        # Both typical margins stay positive in between.
        offsets = torch.linspace(-0.16, 0.16, 81).tolist()
        models = [replace(CLOSE, b_h=b / 2, b_t=-b / 2) for b in offsets]
        rates = [exponents(model) for model in models]
        with style.style():
            figure, (ax,) = style.panels(width=4.4, height=3.2)
            ax.plot(offsets, [r.h for r in rates], color=style.BLUE, label="head")
            ax.plot(offsets, [r.t for r in rates], color=style.ORANGE, label="tail")
            for b, name in ((0.1, "stated"), (-0.1, "exchanged")):
                ax.axvline(b, color=style.GREY, ls=":")
                ax.annotate(
                    name, (b, 1), xycoords=("data", "axes fraction"), ha="center", va="bottom"
                )
            ax.set_ylim(bottom=0)
            ax.set_xlabel("offset difference $b_h-b_t$")
            ax.set_ylabel("error exponent")
            ax.set_title("The prior orders the exponents", loc="left", pad=16)
            style.legend_below(figure, ax)
        return figure

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
        draw=draw,
    )


def exponent_order(exponents: Exponents = of_model, models: int = 400) -> Check:
    """sec:large-deviation-exponent: I_h >= I_t where lambda_h >= lambda_t, b_h >= b_t, R_t > 0."""
    generator = torch.Generator().manual_seed(11)
    draws = torch.rand(models, 5, generator=generator, dtype=torch.float64)
    low = torch.tensor([0.05, 0.05, -1.0, 0.05, 0.0], dtype=torch.float64)
    high = torch.tensor([10.0, 10.0, 0.95, 2.0, 0.2], dtype=torch.float64)
    found = []
    for a, b, c, tau, offset in (low + (high - low) * draws).tolist():
        model = BinaryModel(max(a, b), min(a, b), c, tau, b_h=offset)
        if model.typical_margins.t > 0:
            rates = exponents(model)
            found.append(rates.h - rates.t)
    wrong = sum(gap < 0 for gap in found)
    return Check(
        name="exponent-order",
        label="sec:large-deviation-exponent",
        claim="random models with the exponent of the tail the larger",
        paper="0",
        ours=f"{wrong} of {len(found)}",
        holds=bool(found) and wrong == 0,
        details={
            "grid": {
                "lambda": "uniform in [0.05, 10]",
                "cosine": "uniform in [-1, 0.95]",
                "tau": "uniform in [0.05, 2]",
                "b_h - b_t": "uniform in [0, 0.2]",
                "kept": "R_t > 0",
                "seed": 11,
            },
            "smallest_gap": min(found, default=math.nan),
        },
    )
