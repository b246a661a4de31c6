"""Figures of frozen projection features, from the packaged network and from stores of the user.

The packaged one is a native network of CIFAR-100-LT, IF 100. Approximations are hollow marks,
because a line would cover the exact one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from resultant.analysis.metrics import rank_correlation
from resultant.report import style
from resultant.score.exact import vmf_score
from resultant.theory.score_expansion import joint_expansion
from resultant_reproduction.cells.cells import Cell, Outcome, load, parse_cell, say
from resultant_reproduction.cells.charts import HOLLOW, Chart, Curve, draw_charts, labelled
from resultant_reproduction.cells.statistics import Value
from resultant_reproduction.cells.text import markdown_table
from resultant_reproduction.frozen.pairs import margin_directions
from resultant_reproduction.frozen.questions import Analysis
from resultant_reproduction.frozen.summarize import SPACES
from resultant_reproduction.runs.evidence import (
    PACKAGED,
    Evidence,
    by_condition,
    is_external,
    packaged,
    read_path,
    trained_as,
)
from resultant_reproduction.runs.items import catalog
from resultant_reproduction.runs.plans import planned_seeds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STORES = {
    "CIFAR-100-LT": PACKAGED,
    "ImageNet-LT": "imagenet-lt",
    "iNaturalist 2018": "inaturalist18",
}
OURS = ("CIFAR-100-LT",)
SIDES = (style.BLUE, style.ORANGE)

# Analyses by dataset, with every part; the packaged network first.
Shown = Mapping[str, Any]


def _outcome(
    name: str,
    evidence: Evidence,
    panels: Callable[[Shown], Sequence[Any]],
    numbers: Callable[[Any], Mapping[str, Any]] | None = None,
    of: Iterable[str] = STORES,
    counted: Iterable[str] = STORES,
) -> Outcome:
    """Draw the ``panels`` ``of`` the available datasets, describe each with the sentence of
    ``items.toml`` and its ``numbers``, and count the datasets of the paper as parts."""
    shown = {
        title: evidence.analysis(STORES[title], "projection")
        for title in of
        if evidence.has(STORES[title], "projection")
    }
    entry, notes = catalog()[name], []
    if numbers is not None:
        notes = [f"{title}: {entry.says.format(**numbers(a))}." for title, a in shown.items()]
    draw = lambda: draw_charts(labelled(panels(shown), entry.charts), **entry.layout)  # noqa: E731
    return Outcome(draw=draw, parts={title: title in shown for title in counted}, notes=notes)


def closest_pair(a: Analysis) -> int:
    """Choose the closest head and tail classes with a boundary before and after."""
    assert a.boundaries is not None
    b, placed = a.boundaries, ~a.boundaries.shift_degrees.isnan()
    mixed = torch.tensor([kind == "HT" for kind in b.kind])
    allowed = next((m for m in (placed & mixed, placed) if m.any()), torch.ones_like(placed))
    return int(b.cosine.where(allowed, -math.inf).argmax())


def _names_of(pair: Tensor) -> list[str]:
    """Names of a pair [2] of classes of the packaged network."""
    with packaged() as store:
        names = store.metadata["class_names"]
    return [names[c].replace("_", " ") for c in pair.tolist()]


def gain_discovery(evidence: Evidence) -> Outcome:
    """Return fig:gain-discovery: a pair of classes, their scores, and all gains."""
    drawn = _outcome("gain-discovery", evidence, _draw_gains)
    cells = []
    for (title, store), space in product(STORES.items(), SPACES[::-1]):
        if evidence.has(store, space):
            g = evidence.space(store, space).gains()
            numbers = {"least": g.minimum, "mean": g.mean, "largest": g.maximum}
            for column, value in (numbers | {"standard deviation": g.standard_deviation}).items():
                row = f"{title}, {space.capitalize()}"
                cells.append(Cell(row, column, None, Value(value), text=f"{value:.2f}"))
    a: Any = evidence.analysis(PACKAGED, "projection")
    pair = a.boundaries.pairs[closest_pair(a)]
    known = zip(_names_of(pair), a.gains.gain[pair].tolist(), strict=True)
    classes = " and ".join(f"{name} with A_c / tau_0 = {gain:.2f}" for name, gain in known)
    return replace(drawn, cells=cells, notes=[f"In (a) and (b) {classes}."])


def _draw_gains(analyses: Shown) -> list[Any]:
    a = next(iter(analyses.values()))
    i = closest_pair(a)
    pair, theta = a.boundaries.pairs[i], math.radians(float(a.boundaries.theta_degrees[i]))
    g, kappa, names = a.gains.gain[pair].tolist(), a.gains.kappa[pair].tolist(), _names_of(pair)
    rho = torch.linspace(-1, 1, 201, dtype=torch.float64)
    residuals, shares = [], []
    for side, colour in enumerate(SIDES):
        q = vmf_score(rho, kappa[side], a.space.tau, a.space.dim)
        q = q - vmf_score(0.0, kappa[side], a.space.tau, a.space.dim) - g[side] * rho
        residuals.append(Curve(rho, q, "-", f"{names[side]}, $g={g[side]:.2f}$", colour))
    for title, other in analyses.items():
        ordered = other.gains.gain.sort().values
        share = torch.arange(1, len(ordered) + 1) / len(ordered)
        shares.append(Curve(ordered, share, label=title, more={"drawstyle": "steps-pre"}))
    # The linear-mean boundary on the half sphere seen from between the prototypes: x runs along
    # their difference, and x (g_a + g_b) sin(theta/2) = z (g_a - g_b) cos(theta/2).
    y = torch.linspace(-1, 1, 201, dtype=torch.float64)
    slope = (g[0] - g[1]) / ((g[0] + g[1]) * math.tan(theta / 2))
    boundary = slope * (1 - y * y).sqrt() / math.hypot(1, slope)
    sphere = [
        Curve(boundary, y, "-", "original boundary", style.RED),
        Curve((0, 0), (-1, 1), "--", "equalized", style.GREEN),
        Curve((), (), "o", "prototypes", style.GREY),
    ]

    def paint(ax: Axes) -> None:
        edge = (1 - y * y).sqrt()
        regions = ((-1, -edge, boundary), (1, boundary, edge))
        for (side, low, high), colour, name in zip(regions, SIDES, names, strict=True):
            ax.fill_betweenx(y.numpy(), low.numpy(), high.numpy(), color=colour, alpha=0.2, lw=0)
            ax.plot(side * math.sin(theta / 2), 0, "o", color=colour, ms=6)
            ax.annotate(name, (0.55 * side, 0.4), ha="center", fontsize=10)
        ax.set_aspect("equal")
        ax.axis("off")

    return [Chart(sphere, paint=paint), residuals, shares]


MEASURED = {"MAE (degrees)": "mae", "pairs with a root before and after": "comparable"}


def main_boundaries(evidence: Evidence) -> Outcome:
    """Return fig:main-boundaries: margins of a pair, displacements, and the caption."""
    recorded = _recorded_displacements(evidence)
    drawn = _outcome(
        "main-boundaries", evidence, lambda shown: _draw_boundaries(shown, recorded), counted=()
    )
    cells = []
    for condition, *texts in load("printed/figures")["main-boundaries"]["rows"]:
        external = is_external(condition)
        seeds = 0 if external else planned_seeds(trained_as(condition))
        for (column, name), text in zip(MEASURED.items(), texts, strict=True):
            read = read_path(f"boundaries.joint_leading.{name}")
            values = by_condition(evidence, read, (condition,), ("projection",)).values()
            paper, own = parse_cell(text), Value.of(next(iter(values), []))
            cells.append(Cell(condition, column, paper, own, external, planned=seeds))
    note = f"Records that keep displacements: {'; '.join(recorded) or 'none of CIFAR-10'}."
    return replace(drawn, cells=cells, notes=[note], sections={HEADING: boundary_means(evidence)})


def _recorded_displacements(evidence: Evidence) -> dict[str, dict[str, list[float]]]:
    """Displacements of CIFAR-10 networks whose records keep them, of either round."""
    config, found = trained_as("CIFAR-10 / 100"), {}
    for records in (evidence.records, evidence.second):
        for record in records.trainings(config):
            kept = record.get("analysis", {}).get("projection", {}).get("proco", {})
            if pairs := kept.get("boundaries", {}).get("displacements"):
                name = f"CIFAR-10 / 100, seed {record['seed']}, {len(pairs['exact'])} of 45 pairs"
                found[name] = pairs
    return found


def _draw_boundaries(
    analyses: Shown, recorded: Mapping[str, Mapping[str, Sequence[float]]]
) -> list[Any]:
    a = next(iter(analyses.values()))
    i, b = closest_pair(a), a.boundaries
    pair, theta = b.pairs[i], float(b.theta_degrees[i])
    kappa, A = a.gains.kappa[pair], a.gains.resultant[pair]
    ends = sorted((float(b.before_degrees[i]), float(b.after_degrees[i])))
    u = torch.linspace(ends[0] - 3, ends[1] + 3, 101, dtype=torch.float64)
    rho = torch.stack([u.deg2rad().cos(), (theta - u).deg2rad().cos()])
    states = (
        ("original", torch.full((2,), a.space.tau).double(), style.BLUE),
        ("equalized", A / a.gains.mean, style.ORANGE),
    )
    margins, points, reach = [], [], 0.0
    for name, tau, colour in states:
        point = (rho, kappa[:, None], tau[:, None], a.space.dim)
        exact, lead = vmf_score(*point), joint_expansion(*point, 0, validate_args=False)
        margins.append(Curve(u, exact[0] - exact[1], "-", name, colour))
        few = (lead[0] - lead[1])[::10]
        margins.append(Curve(u[::10], few, "o", color=colour, more=HOLLOW))
    margins.append(Curve((), (), "o", "joint leading", style.GREY, more=HOLLOW))
    margins.append(Curve((u[0], u[-1]), (0, 0), color=style.GREY, more={"lw": 1}))
    for title, other in analyses.items():
        x = other.boundaries.shift_degrees
        y = other.boundaries.predicted["joint_leading"].shift_degrees
        both = ~(x.isnan() | y.isnan())
        points.append(Curve(x[both], y[both], ".", f"{title}, {int(both.sum())} of {len(x)} pairs"))
        reach = max(reach, float(x[both].abs().max()) * 1.05)
    if recorded:
        x, y = (
            [v for own in recorded.values() for v in own[kind]] for kind in ("exact", "leading")
        )
        name = f"CIFAR-10-LT, {len(x)} pairs of {len(recorded)} networks"
        points.append(Curve(x, y, "x", name, style.RED, more={"ms": 3, "mew": 0.7}))
    line = {"zorder": 0}
    points.append(Curve((-reach, reach), (-reach, reach), "--", color=style.GREY, more=line))
    way = "degrees from {} to {}".format(*_names_of(pair))
    return [Chart(margins, way, "margin"), points]


def _rank(rank: float | None) -> str:
    return "none" if rank is None else f"{rank:+.2f}"


def real_scope(evidence: Evidence) -> Outcome:
    """Return fig:real-scope-app: class counts and concentrations; held-out goodness of fit."""

    def numbers(a: Any) -> dict[str, Any]:
        count, kappa, fit = a.gains.count, a.gains.kappa, a.fit
        return {
            "classes": len(count),
            "count": [int(count.min()), int(count.max())],
            "kappa": [float(kappa.min()), float(kappa.max())],
            "rank": _rank(rank_correlation(count, kappa)),
            "rejected": [100 * fit.rejected, 100 * fit.expected],
            "distance": float(fit.kolmogorov.median()),
            "cosine": [float(fit.mean_cosine.mean()), float(fit.fitted.mean())],
        }

    return _outcome("real-scope-app", evidence, _draw_scope, numbers, counted=OURS)


def _draw_scope(analyses: Shown) -> list[Any]:
    sizes, laws = [], []
    for (title, a), colour in zip(analyses.items(), style.CYCLE, strict=False):
        sizes.append(Curve(a.gains.count, a.gains.kappa, ".", title, colour))
        for counts, look in ((a.fit.histogram, "-"), (a.fit.expected_histogram, "--")):
            share = counts.double() / counts.sum() * len(counts)
            edges = torch.linspace(0, 1, len(share) + 1)
            steps = torch.cat([share, share[-1:]])
            laws.append(Curve(edges, steps, look, color=colour, more={"drawstyle": "steps-post"}))
    laws.append(Curve((), (), "-", "held-out queries", style.GREY))
    laws.append(Curve((), (), "--", "one vMF per class", style.GREY))
    return [sizes, laws]


def real_margin(evidence: Evidence) -> Outcome:
    """Return fig:real-margin-app: centre and typical margins, and errors between classes."""

    def numbers(a: Any) -> dict[str, Any]:
        t = a.typical
        ranks = [_rank(rank) for rank in (t.centre_correlation, t.typical_correlation)]
        mean = 100 * float(t.observed.mean())
        return {"ranks": ranks, "pairs": t.observed.numel(), "mean": mean}

    drawn = _outcome("real-margin-app", evidence, _draw_margins, numbers, counted=OURS)
    return replace(drawn, sections={HEADING: margin_means(evidence, STORES)})


def _draw_margins(analyses: Shown) -> list[Any]:
    centre, typical = [], []
    for title, a in analyses.items():
        t = a.typical
        kinds = ((t.centre, t.centre_correlation), (t.typical, t.typical_correlation))
        for curves, (margin, rank) in zip((centre, typical), kinds, strict=True):
            name = title if rank is None else f"{title}, rank correlation {rank:+.2f}"
            curves.append(Curve(margin.flatten(), 100 * t.observed.flatten(), ".", name))
    return [centre, typical]


def finite_sample(evidence: Evidence) -> Outcome:
    """Return fig:finite-sample: small supports and self-inclusion on real features."""

    def numbers(a: Any) -> dict[str, Any]:
        s, own = a.support, a.self_inclusion
        # Exact over leading self-inclusion shifts (eq:self-inclusion), by class.
        ratios = own.exact / own.predicted
        return {
            "error": [float(s.error[i]) for i in (0, -1)],
            "size": [s.sizes[i] for i in (0, -1)],
            "bias": [float(s.predicted_bias[i]) for i in (0, -1)],
            "ratio": [float(v) for v in (ratios.min(), ratios.max(), ratios.median())],
            "classes": len(ratios),
        }

    return _outcome("finite-sample", evidence, _draw_support, numbers, OURS, OURS)


def _draw_support(analyses: Shown) -> list[Any]:
    (a,) = analyses.values()
    s, own = a.support, a.self_inclusion
    supports = [
        Curve(s.sizes, s.error, "o-", "mean, SD over classes", error=s.error_sd),
        Curve(s.sizes, s.predicted_bias, "--", "expected bias"),
    ]
    thin, hollow = {"elinewidth": 0.6, "capsize": 0}, {**HOLLOW, "ms": 6, "mew": 0.8}
    name = "one class, SD over queries"
    gained = [
        Curve(own.count, own.exact, ".", name, error=own.exact_sd, more=thin),
        Curve(own.count, own.predicted, "o", r"$(1-A^2)/(\tau n)$", style.RED, more=hollow),
    ]
    return [supports, gained]


HEADING = "The two linear means"
WITHOUT = "without intercepts, b_c + g_c rho (as printed)"
WITH = "with intercepts, b_c + q_c(0) + g_c rho (as in the text)"
# Errors of boundaries predicted by each, in degrees.
ERRORS = [read_path(f"boundaries.{name}.mae") for name in ("linear_mean", "linear_intercept")]


def boundary_means(evidence: Evidence) -> str:
    """Table of the errors of predicted boundaries by either linear mean."""
    rows = []
    for condition, printed in load("printed/figures")["main-boundaries"]["errors"].items():
        found = (by_condition(evidence, read, (condition,), ("projection",)) for read in ERRORS)
        own = [Value.of(values.get((condition, "projection"), [])) for values in found]
        rows.append((condition, printed, *(f"{v.text(4)} [{v.n}]" if v else "–" for v in own)))
    packaged = [read(evidence.summary(PACKAGED, "projection", "proco")) for read in ERRORS]
    texts = ("–" if error is None else f"{error:.4f}" for error in packaged)
    rows.append(("CIFAR-100 / 100, the packaged network", "–", *texts))
    table = markdown_table(rows, ("mean error (degrees)", "paper", WITHOUT, WITH))
    return f"{say('linear-means')} In brackets: networks.\n\n{table}"


def margin_means(evidence: Evidence, stores: Mapping[str, str]) -> str:
    """Table of the predicted directions of margin changes by either linear mean."""
    rows = []
    for title, store in stores.items():
        if not evidence.has(store, "projection"):
            continue
        space = evidence.space(store, "projection")
        own = [margin_directions(space, intercept=intercept) for intercept in (False, True)]
        shares = {"directions": [m.agreement for m in own], "covered": [m.coverage for m in own]}
        texts = load("printed/figures")["real-margin-app"]["margins"][title]
        for (what, values), printed in zip(shares.items(), texts, strict=True):
            cells = (f"{100 * v:.2f}" if v is not None else "–" for v in values)
            rows.append((f"{title}: {what} (%)", printed, *cells))
        wrong = (f"{m.certified_wrong} of {m.incidences:,}" for m in own)
        rows.append((f"{title}: covered and wrong", "0", *wrong))
    table = markdown_table(rows, ("margin changes", "paper", WITHOUT, WITH))
    return f"{say('linear-means')} {say('margin-means')}\n\n{table}"
