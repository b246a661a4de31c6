"""Tables and picture of the records of `benchmarks.longtail_features`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

from benchmarks import HERE
from benchmarks.longtail_features import METHODS, OURS, REFERENCES, SETS, TAILS, measured
from benchmarks.markdown import table

RECORDS = HERE / "longtail_features.jsonl"
# Points of balanced accuracy below the best reference that count as a loss.
LOSS = 0.5


class Cell(NamedTuple):
    """Records of a set at one tail, by method; the seeds that all methods have."""

    set: str
    tail: int
    records: dict[str, list[dict[str, Any]]]

    @property
    def name(self) -> str:
        return f"{self.set}, {self.tail}"

    def mean(self, method: str, key: str) -> float | None:
        values = [row[key] for row in self.records[method]]
        return None if None in values else mean(values)

    def accuracy(self, method: str) -> float:
        return 100 * mean(row["balanced_accuracy"] for row in self.records[method])

    @property
    def best(self) -> str:
        """The reference of the highest balanced accuracy."""
        return max(REFERENCES, key=self.accuracy)

    def lead(self) -> tuple[float, float]:
        """Return points ahead of the best reference, and their standard error over seeds."""
        pairs = zip(self.records[OURS], self.records[self.best], strict=True)
        points = [100 * (a["balanced_accuracy"] - b["balanced_accuracy"]) for a, b in pairs]
        error = stdev(points) / math.sqrt(len(points)) if len(points) > 1 else math.nan
        return mean(points), error


def cells(path: Path = RECORDS) -> list[Cell]:
    """Read records; cells without a seed that all methods have are left out."""
    records = measured(path)
    found = []
    for name in SETS:
        for tail in TAILS:
            own = [row for row in records if (row["set"], row["tail"]) == (name, tail)]
            by_method = {m: {r["seed"]: r for r in own if r["method"] == m} for m in METHODS}
            seeds = sorted(set.intersection(*(set(rows) for rows in by_method.values())))
            if seeds:
                kept = {m: [rows[s] for s in seeds] for m, rows in by_method.items()}
                found.append(Cell(name, tail, kept))
    return found


def verdict(found: Sequence[Cell]) -> str:
    """State in how many cells the vMF classifier leads, and where it loses."""
    leads = [cell for cell in found if cell.lead()[0] >= 0]
    losses = [cell for cell in found if cell.lead()[0] < -LOSS]
    seeds = sorted({len(cell.records[OURS]) for cell in found})
    times = [seconds_ratio(cell) for cell in found]
    where = "; ".join(f"{c.name} by {-c.lead()[0]:.2f} to {c.best}" for c in losses) or "none"
    drawn = " or ".join(str(n) for n in seeds)
    return (
        f"`VMFClassifierCV` leads in {len(leads)} of {len(found)} cells ({drawn} draws each). It "
        f"loses by more than half a point in {len(losses)}: {where}. Its time of choosing and "
        f"fitting is {min(times):.2f} to {max(times):.2f} of that of the best reference, "
        f"{sorted(times)[len(times) // 2]:.2f} in the middle."
    )


def seconds_ratio(cell: Cell) -> float:
    ours, theirs = cell.mean(OURS, "fit_seconds"), cell.mean(cell.best, "fit_seconds")
    assert ours is not None and theirs is not None
    return ours / theirs


def comparison(found: Sequence[Cell]) -> str:
    """Render the vMF classifier next to the best reference of each cell."""
    header = ["set, tail", "rows", "vmf", "best reference", "vmf ahead by", "log-loss"]
    header += ["choose and fit, s", "predict, s"]
    rows = []
    for cell in found:
        points, error = cell.lead()
        best = cell.best
        row = [cell.name, f"{cell.records[OURS][0]['rows']:,}", f"{cell.accuracy(OURS):.2f}"]
        row += [f"{cell.accuracy(best):.2f} ({best})", f"{points:+.2f} ± {error:.2f}"]
        for key in ("log_loss", "fit_seconds", "predict_seconds"):
            row.append(" / ".join(_number(cell.mean(method, key)) for method in (OURS, best)))
        rows.append(row)
    return table(header, rows)


def against(found: Sequence[Cell]) -> str:
    """Compare the vMF classifier with every other method over all cells."""
    rows = []
    for method in METHODS[1:]:
        points = [cell.accuracy(OURS) - cell.accuracy(method) for cell in found]
        losses = [(cell.mean(OURS, "log_loss"), cell.mean(method, "log_loss")) for cell in found]
        better = "none" if losses[0][1] is None else f"{sum(a < b for a, b in losses)}"  # type: ignore[operator]
        seconds = [
            sum(cell.mean(m, "fit_seconds") or 0.0 for cell in found) for m in (OURS, method)
        ]
        ahead = f"{sum(p >= 0 for p in points)} of {len(points)}"
        row = [method, ahead, f"{mean(points):+.2f}", f"{min(points):+.2f}", f"{max(points):+.2f}"]
        rows.append([*row, better, f"{seconds[1] / seconds[0]:.2f}"])
    header = ["method", "cells where vmf is ahead", "mean points", "least", "most"]
    return table([*header, "cells of lower log-loss", "time of the method / of vmf"], rows)


def accuracies(found: Sequence[Cell], key: str = "balanced_accuracy") -> str:
    """Render a measure of all methods, in percent."""
    rows = []
    for cell in found:
        values = [100 * mean(row[key] for row in cell.records[m]) for m in METHODS]
        top = max(values)
        bold = [f"**{v:.2f}**" if v == top else f"{v:.2f}" for v in values]
        rows.append([cell.name, *bold])
    return table(["set, tail", *METHODS], rows)


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.2g}" if value < 1 else f"{value:.2f}"


def picture(found: Sequence[Cell]) -> Any:
    """Draw balanced accuracy and time of choosing and fitting of all methods."""
    import matplotlib.pyplot as plt

    seconds: Callable[[Cell, str], float] = lambda cell, m: cell.mean(m, "fit_seconds") or 1e-3  # noqa: E731
    figure, axes = plt.subplots(
        1, 2, figsize=(9, 0.34 * len(found) + 1.4), sharey=True, layout="constrained"
    )
    for i, method in enumerate(METHODS):
        ours = method == OURS
        style: dict[str, Any] = {"marker": "D" if ours else "o", "zorder": 3 if ours else 2}
        style |= {"s": 42 if ours else 22, "color": "black" if ours else f"C{i - 1}"}
        places = range(len(found))
        lead = [cell.accuracy(method) - cell.accuracy(cell.best) for cell in found]
        axes[0].scatter(lead, places, label=method, **style)
        axes[1].scatter([seconds(cell, method) for cell in found], places, **style)
    axes[0].axvline(0, color="0.7", linewidth=0.8)
    axes[0].set(xlim=(-15, 5), xlabel="points ahead of the best reference")
    axes[0].set_yticks(range(len(found)), [cell.name for cell in found])
    axes[0].invert_yaxis()
    axes[1].set(xscale="log", xlabel="seconds of choosing and fitting")
    figure.legend(loc="outside upper center", ncols=4, fontsize=8)
    return figure
