"""Beyond the paper: the law of dimension, group 3 of ``protocol.md``.

Errors of the leading geometry on learned features, against nu = p/2 - 1 on a log scale.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from resultant.report import style
from resultant_reproduction.evidence import Evidence
from resultant_reproduction.figures import LOG, Chart, Curve, draw_charts
from resultant_reproduction.plan import DIMENSIONS, controlled, plan
from resultant_reproduction.records import Records
from resultant_reproduction.spec import Cell, Outcome
from resultant_reproduction.value import Value
from resultant_reproduction.verdicts import LEVEL

if TYPE_CHECKING:
    from matplotlib.figure import Figure

THEORY = -1.0
# Fewer dimensions leave a slope open.
LEAST_DIMENSIONS = 4

Summary = Mapping[str, Any]


def _share(summary: Summary, number: float) -> float:
    """Share of the queries (%); none counts as half a query."""
    return 100 * max(number, 0.5) / summary["cosine"]["queries"]


# Measures of a frozen summary, by title.
MEASURES: dict[str, Callable[[Summary], float]] = {
    "boundary error (degrees)": lambda s: s["boundaries"]["joint_leading"]["mae"],
    "gradient error (%)": lambda s: s["gradients"]["gradient_error"],
    "disagreement (%)": lambda s: _share(s, s["cosine"]["disagreements"]),
    "not certified (%)": lambda s: _share(s, s["cosine"]["queries"] - s["cosine"]["certified"]),
}


class Slope(NamedTuple):
    """Least-squares line of log10 y against log10 x, with the 95 % interval of the slope."""

    slope: float
    intercept: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """Compare the interval with the slope of the theory."""
        if self.low <= THEORY <= self.high:
            return "confirmed"
        return "steeper" if self.high < THEORY else "flatter"


def fit_slope(x: Sequence[float], y: Sequence[float]) -> Slope:
    """Fit a power law to points with positive coordinates."""
    from scipy.stats import linregress, t

    line: Any = linregress([math.log10(v) for v in x], [math.log10(v) for v in y])
    reach = float(t.ppf(1 - LEVEL / 2, len(x) - 2)) * line.stderr
    return Slope(line.slope, line.intercept, line.slope - reach, line.slope + reach)


def summaries(records: Records) -> dict[int, list[Summary]]:
    """Frozen summaries of projections by dimension, ProCo's kappa, of the seeds of the plan."""
    found = {
        p: [
            record["analysis"]["projection"]["proco"]
            for seed, record in records.seeds(controlled("cifar100", 100, dim=p)).items()
            if seed in plan("dimension").seeds and "analysis" in record
        ]
        for p in sorted(DIMENSIONS)
    }
    return {p: own for p, own in found.items() if own}


def points(
    networks: Mapping[int, Sequence[Summary]], measure: Callable[[Summary], float]
) -> tuple[list[float], list[float]]:
    """nu and the measure of every network."""
    pairs = [(p / 2 - 1, measure(s)) for p, own in networks.items() for s in own]
    return [nu for nu, _ in pairs], [value for _, value in pairs]


def dimension(evidence: Evidence) -> Outcome:
    """Errors by dimension, and their slopes against the slope of the theory."""
    networks = summaries(evidence.every)
    cells, slopes = [], {}
    for p in sorted(DIMENSIONS):
        own = networks.get(p, [])
        for title, measure in MEASURES.items():
            cells.append(_cell(f"p = {p}", title, [measure(s) for s in own]))
        lengths = [s["gains"]["mean"] * s["tau"] for s in own]
        cells.append(_cell(f"p = {p}", "mean resultant length", lengths))
    if len(networks) >= LEAST_DIMENSIONS:
        slopes = {title: fit_slope(*points(networks, m)) for title, m in MEASURES.items()}
        for title, s in slopes.items():
            text = f"{s.slope:.2f} [{s.low:.2f}, {s.high:.2f}]: {s.verdict}"
            cells.append(Cell("slope (theory -1)", title, None, text=text))
    note = (
        "Native networks, CIFAR-100-LT, imbalance 100, projection features. Means with standard "
        "deviation and [networks]. Slopes of log error against log nu by least squares over all "
        f"networks; fewer than {LEAST_DIMENSIONS} dimensions leave them open. The theory bounds "
        "the errors at a fixed ratio of kappa to nu, which learned features need not keep."
    )
    number = sum(map(len, networks.values()))
    headline = "; ".join(
        f"{title.partition(' (')[0]} {s.slope:.2f}, {s.verdict}" for title, s in slopes.items()
    )
    return Outcome(
        cells,
        parts={f"p = {p}": p in networks for p in DIMENSIONS},
        notes=[note],
        headline=f"Slope against nu on a log scale, {number} networks, theory -1: {headline}."
        if slopes
        else "",
        draw=(lambda: _draw(networks, slopes)) if slopes else None,
    )


def _cell(row: str, column: str, values: Sequence[float]) -> Cell:
    value = Value.of(values)
    text = "no run" if value is None else f"{value.text(4)} [{value.n}]"
    return Cell(row, column, None, value, text=text)


def _draw(networks: Mapping[int, Sequence[Summary]], slopes: Mapping[str, Slope]) -> Figure:
    charts = []
    for title, measure in MEASURES.items():
        x, y = points(networks, measure)
        ends, s = [min(x), max(x)], slopes[title]
        fitted = [10**s.intercept * v**s.slope for v in ends]
        middle = 10 ** fmean(math.log10(v) for v in x), 10 ** fmean(math.log10(v) for v in y)
        theory = [middle[1] * (v / middle[0]) ** THEORY for v in ends]
        curves = [
            Curve(x, y, ".", "networks", style.BLUE),
            Curve(ends, fitted, "-", "fitted slope", style.BLUE),
            Curve(ends, theory, "--", "slope -1", style.ORANGE),
        ]
        name = f"{title.partition(' (')[0]}: {s.slope:.2f}"
        charts.append(Chart(curves, r"$\nu = p/2 - 1$", title, name, more=LOG))
    return draw_charts(charts, columns=2, width=4.0, height=3.0)
