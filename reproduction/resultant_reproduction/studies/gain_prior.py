"""fig:gain-prior: the effect of equalized gains on frozen projections under three priors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

from resultant.report import style
from resultant_reproduction.cells.cells import Cell, Outcome, load, parse_cell
from resultant_reproduction.cells.charts import BLACK, Chart, Curve, draw_charts
from resultant_reproduction.cells.statistics import Value
from resultant_reproduction.frozen.decisions import BETAS, GAMMAS
from resultant_reproduction.runs.evidence import PACKAGED, Evidence, read_edit
from resultant_reproduction.runs.plans import official, planned_seeds
from resultant_reproduction.studies.tables import backbone

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# sec:prior-dependent-frozen, at beta = 0 and these gammas.
SHOWN = (0.0, -1.0)
OURS, PUBLIC, PLAIN = "CIFAR-100-LT", "ProCo's public recipe", "contrastive-only (packaged)"

# What direct temperature changes from ProCo at the same prior (points), by beta and gamma.
Changes = dict[tuple[float, float], Value]


def gain_prior(evidence: Evidence) -> Outcome:
    """Return accuracy changes over beta for three priors, and the printed ones."""
    config = official("cifar100", 100)
    analyses = [r.get("analysis", {}) for r in evidence.records.seeds(config).values()]
    public = [a.get("projection", {}).get("proco", {}) for a in analyses]
    summaries = evidence.frozen("iNaturalist 2018", "projection").values()
    by_data = {
        OURS: {
            PUBLIC: _changes(public),
            PLAIN: _changes([evidence.summary(PACKAGED, "projection", "proco")]),
        },
        "ImageNet-LT": {"authors' ResNet-50": _changes([backbone(evidence, "ResNet-50")])},
        "iNaturalist 2018": {"authors' network": _changes([*summaries])},
    }
    cells = []
    for title, *texts in load("printed/figures")["gain-prior"]["rows"]:
        for network, changes in by_data[title].items():
            seeds = planned_seeds(config) if network == PUBLIC else 0
            for gamma, text in zip(SHOWN, texts, strict=True):
                value = changes.get((0.0, gamma))
                paper = None if network == PLAIN else parse_cell(text)
                shown = "–" if value is None else value.text(2, sign=True)
                row, column = f"{title}, {network}", f"β = 0, γ = {gamma:g}"
                cells.append(Cell(row, column, paper, value, title != OURS, shown, seeds))
    notes = [
        f"{title}, {network}: {_describe(changes)}."
        for title, networks in by_data.items()
        for network, changes in networks.items()
        if changes
    ]
    return Outcome(cells, draw=lambda: _draw(by_data), notes=notes)


def _changes(summaries: Sequence[Mapping[str, Any]]) -> Changes:
    """Read the changes over the networks of frozen summaries; some may have no grid."""
    changes = {}
    for at in product(BETAS, GAMMAS):
        read = read_edit(*at, "temperature")
        if values := [v for summary in summaries if (v := read(summary)) is not None]:
            changes[at] = Value.over(values)
    return changes


def _over_beta(changes: Changes, gamma: float) -> dict[float, Value]:
    return {beta: value for (beta, own), value in changes.items() if own == gamma}


def _describe(changes: Changes) -> str:
    lines = []
    for gamma in GAMMAS:
        own = {b: v.text(2, sign=True) for b, v in _over_beta(changes, gamma).items() if b != 1}
        line = ", ".join(f"{value} at beta = {beta:g}" for beta, value in own.items())
        lines.append(f"gamma = {gamma:g}: {line}")
    return f"points from ProCo, {'; '.join(lines)}"


def _draw(by_data: Mapping[str, Mapping[str, Changes]]) -> Figure:
    colours = dict(zip(GAMMAS, style.CYCLE, strict=False))
    printed = {title: texts for title, *texts in load("printed/figures")["gain-prior"]["rows"]}
    charts, diamond = [], {"ms": 7, "mec": BLACK, "mew": 0.7}
    for title, networks in by_data.items():
        curves = []
        for (network, changes), (gamma, colour) in product(networks.items(), colours.items()):
            own = _over_beta(changes, gamma)
            mean, sd = [v.mean for v in own.values()], [v.sd or 0.0 for v in own.values()]
            look = "o--" if network == PLAIN else "o-"
            curves.append(Curve([*own], mean, look, None, colour, sd))
        for gamma, text in zip(SHOWN, printed[title], strict=True):
            if cell := parse_cell(text):
                value, more = [cell.value.mean], diamond | {"zorder": 5}
                curves.append(Curve([0.0], value, "D", color=colours[gamma], more=more))
        name = title if any(networks.values()) else f"{title} (paper alone)"
        limits = {"xlim": (-0.1, 1.6)}
        ylabel = "" if charts else "points from ProCo"
        charts.append(Chart(curves, r"$\beta$", ylabel, name, limits))
    for gamma, colour in colours.items():
        charts[0].curves.append(Curve(look="o-", label=rf"$\gamma={gamma:g}$", color=colour))
    charts[0].curves.append(Curve(look="--", label=PLAIN, color=style.GREY))
    charts[0].curves.append(Curve(look="D", label="paper", color=style.GREY, more=diamond))
    return draw_charts(charts, width=3.0, legend=5)
