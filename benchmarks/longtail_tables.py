"""Comparisons of the records of `benchmarks.longtail`, as rows of tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from statistics import mean, median
from typing import NamedTuple

from scipy.stats import sem

from benchmarks import HERE, Row
from benchmarks.longtail import METHODS, OURS, REFERENCES, SEEDS, SETS, TAILS, measured

# Points of balanced accuracy below the best reference that count as a loss.
LOSS = 0.5


class Cell(NamedTuple):
    """Records of a set at one tail, by method; the seeds that all methods have."""

    name: str
    records: dict[str, list[Row]]

    def mean(self, method: str, key: str, factor: float = 1) -> float:
        """Average a number over the seeds; NaN where a method has none."""
        values = [row[key] for row in self.records[method]]
        return math.nan if None in values else mean(factor * value for value in values)

    def accuracy(self, method: str, key: str = "balanced_accuracy") -> float:
        return self.mean(method, key, 100)

    def seconds(self, method: str) -> float:
        return self.mean(method, "fit_seconds")

    @property
    def best(self) -> str:
        """The reference of the highest balanced accuracy."""
        return max(REFERENCES, key=self.accuracy)

    def lead(self, method: str) -> tuple[float, float]:
        """Return points ahead of a method, and their standard error over seeds."""
        rows = zip(self.records[OURS], self.records[method], strict=True)
        points = [100 * a["balanced_accuracy"] - 100 * b["balanced_accuracy"] for a, b in rows]
        return mean(points), float(sem(points))


def cells() -> list[Cell]:
    """Read the records; cells without a seed that all methods have are left out."""
    known, kept = measured(HERE / "longtail.jsonl"), []
    for name, tail in product(SETS, TAILS):
        seeds = [s for s in SEEDS if all((name, tail, s, m) in known for m in METHODS)]
        if seeds:
            rows = {m: [known[name, tail, s, m] for s in seeds] for m in METHODS}
            kept.append(Cell(f"{name}, {tail}", rows))
    return kept


def summary(all_cells: Sequence[Cell]) -> str:
    """State in how many cells the vMF classifier leads, and where it loses."""
    leads = [(cell, cell.lead(cell.best)[0]) for cell in all_cells]
    losses = [f"{c.name} by {-points:.2f} to {c.best}" for c, points in leads if points < -LOSS]
    times = [cell.seconds(OURS) / cell.seconds(cell.best) for cell in all_cells]
    draws = " or ".join(str(n) for n in sorted({len(c.records[OURS]) for c in all_cells}))
    return (
        f"`VMFClassifierCV` leads in {sum(points >= 0 for _, points in leads)} of "
        f"{len(all_cells)} cells ({draws} draws each). It loses by more than half a point in "
        f"{len(losses)}: {'; '.join(losses) or 'none'}. Its time of choosing and fitting is "
        f"{min(times):.2f} to {max(times):.2f} of that of the best reference, {median(times):.2f} "
        f"in the middle."
    )


def comparison(cell: Cell) -> Row:
    """Compare the vMF classifier with the best reference of a cell."""
    best = cell.best
    points, error = cell.lead(best)
    row = {
        "set, tail": cell.name,
        "rows": cell.records[OURS][0]["rows"],
        "vmf": f"{cell.accuracy(OURS):.2f}",
        "best reference": f"{cell.accuracy(best):.2f} ({best})",
        "vmf ahead by": f"{points:+.2f} ± {error:.2f}",
    }
    for name, key in (
        ("log-loss", "log_loss"),
        ("choose and fit, s", "fit_seconds"),
        ("predict, s", "predict_seconds"),
    ):
        pair = (cell.mean(method, key) for method in (OURS, best))
        shown = (f"{value:.2g}" if value < 1 else f"{value:.2f}" for value in pair)
        row[name] = " / ".join(shown).replace("nan", "none")
    return row


def against(all_cells: Sequence[Cell], method: str) -> Row:
    """Compare the vMF classifier with another method over all cells."""
    points = [cell.lead(method)[0] for cell in all_cells]
    losses = [(c.mean(OURS, "log_loss"), c.mean(method, "log_loss")) for c in all_cells]
    lower = "none" if math.isnan(losses[0][1]) else sum(a < b for a, b in losses)
    ours, other = (sum(cell.seconds(name) for cell in all_cells) for name in (OURS, method))
    return {
        "method": method,
        "cells where vmf is ahead": f"{sum(p >= 0 for p in points)} of {len(points)}",
        "mean points": f"{mean(points):+.2f}",
        "least": f"{min(points):+.2f}",
        "most": f"{max(points):+.2f}",
        "cells of lower log-loss": lower,
        "time of the method / of vmf": f"{other / ours:.2f}",
    }


def accuracies(cell: Cell, key: str = "balanced_accuracy") -> Row:
    """List a measure of all methods in percent, the largest in bold."""
    values = {method: cell.accuracy(method, key) for method in METHODS}
    top = max(values.values())
    bold = {m: f"**{v:.2f}**" if v == top else f"{v:.2f}" for m, v in values.items()}
    return {"set, tail": cell.name, **bold}
