"""Comparisons of the records of `benchmarks.longtail`, as rows of tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any, NamedTuple

from benchmarks import HERE, Row
from benchmarks.longtail import METHODS, OURS, REFERENCES, SEEDS, SETS, TAILS, Key, measured

RECORDS = HERE / "longtail.jsonl"
# Points of balanced accuracy below the best reference that count as a loss.
LOSS = 0.5


class Cell(NamedTuple):
    """Records of a set at one tail, by method; the seeds that all methods have."""

    name: str
    records: dict[str, list[dict[str, Any]]]

    def mean(self, method: str, key: str) -> float | None:
        values = [row[key] for row in self.records[method]]
        return None if None in values else mean(values)

    def accuracies(self, method: str, key: str = "balanced_accuracy") -> list[float]:
        return [100 * row[key] for row in self.records[method]]

    def seconds(self, method: str) -> float:
        return mean(row["fit_seconds"] for row in self.records[method])

    @property
    def best(self) -> str:
        """The reference of the highest balanced accuracy."""
        return max(REFERENCES, key=lambda method: mean(self.accuracies(method)))

    def lead(self, method: str) -> tuple[float, float]:
        """Return points ahead of a method, and their standard error over seeds."""
        pairs = zip(self.accuracies(OURS), self.accuracies(method), strict=True)
        points = [a - b for a, b in pairs]
        error = stdev(points) / math.sqrt(len(points)) if len(points) > 1 else math.nan
        return mean(points), error


def cells(path: Path = RECORDS) -> list[Cell]:
    """Read records; cells without a seed that all methods have are left out."""
    by_key = {tuple(row[name] for name in Key._fields): row for row in measured(path)}
    kept = []
    for name, tail in product(SETS, TAILS):
        seeds = [s for s in SEEDS if all((name, tail, s, m) in by_key for m in METHODS)]
        if seeds:
            rows = {m: [by_key[name, tail, s, m] for s in seeds] for m in METHODS}
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


def comparison(all_cells: Sequence[Cell]) -> list[Row]:
    """Compare the vMF classifier with the best reference of each cell."""
    rows: list[Row] = []
    for cell in all_cells:
        best = cell.best
        points, error = cell.lead(best)

        def pair(key: str, cell: Cell = cell, best: str = best) -> str:
            return " / ".join(_number(cell.mean(method, key)) for method in (OURS, best))

        rows.append(
            {
                "set, tail": cell.name,
                "rows": cell.records[OURS][0]["rows"],
                "vmf": f"{mean(cell.accuracies(OURS)):.2f}",
                "best reference": f"{mean(cell.accuracies(best)):.2f} ({best})",
                "vmf ahead by": f"{points:+.2f} ± {error:.2f}",
                "log-loss": pair("log_loss"),
                "choose and fit, s": pair("fit_seconds"),
                "predict, s": pair("predict_seconds"),
            }
        )
    return rows


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.2g}" if value < 1 else f"{value:.2f}"


def against(all_cells: Sequence[Cell]) -> list[Row]:
    """Compare the vMF classifier with every other method over all cells."""
    rows: list[Row] = []
    for method in METHODS[1:]:
        points = [cell.lead(method)[0] for cell in all_cells]
        losses = [(c.mean(OURS, "log_loss"), c.mean(method, "log_loss")) for c in all_cells]
        lower = [a < b for a, b in losses if a is not None and b is not None]
        times = [sum(cell.seconds(m) for cell in all_cells) for m in (method, OURS)]
        rows.append(
            {
                "method": method,
                "cells where vmf is ahead": f"{sum(p >= 0 for p in points)} of {len(points)}",
                "mean points": f"{mean(points):+.2f}",
                "least": f"{min(points):+.2f}",
                "most": f"{max(points):+.2f}",
                "cells of lower log-loss": sum(lower) if lower else "none",
                "time of the method / of vmf": f"{times[0] / times[1]:.2f}",
            }
        )
    return rows


def accuracies(all_cells: Sequence[Cell], key: str = "balanced_accuracy") -> list[Row]:
    """List a measure of all methods in percent, the largest in bold."""
    rows: list[Row] = []
    for cell in all_cells:
        values = {method: mean(cell.accuracies(method, key)) for method in METHODS}
        top = max(values.values())
        bold = {m: f"**{v:.2f}**" if v == top else f"{v:.2f}" for m, v in values.items()}
        rows.append({"set, tail": cell.name, **bold})
    return rows
