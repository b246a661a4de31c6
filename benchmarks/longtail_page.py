"""Tables and sentences of the records of `benchmarks.longtail`."""

import json
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import t

from benchmarks import ROOT, Row
from benchmarks.longtail import (
    DEFAULT,
    METHODS,
    OURS,
    REFERENCES,
    SEEDS,
    SETS,
    TABLES,
    TAILS,
    TRAINED,
    WHITENED,
)

# Points of balanced accuracy below the best reference that count as a loss.
LOSS = 0.5
# References that every cell of the tables has.
FIRST = ("logistic", "svm", "lda", "knn", "centroid", "random")


@cache
def records() -> Any:
    """Return the records; a cell is a set at one tail."""
    lines = (ROOT / "benchmarks/longtail.jsonl").read_text().splitlines()
    every = pd.DataFrame(map(json.loads, lines))
    return every.assign(cell=every["set"] + ", " + every["tail"].astype(str))


@cache
def measure(key: str) -> Any:
    """Return a measure of the records [cells and seeds, methods] of cells with all draws of our
    method and of the first references."""
    draws = records().groupby(["cell", "method"]).size().unstack(fill_value=0)
    cells = [f"{name}, {tail}" for name, tail in product(SETS, TAILS)]
    cells = [cell for cell in cells if cell in draws.index]
    cells = [cell for cell in cells if (draws[[OURS, *FIRST]].loc[cell] == len(SEEDS)).all()]
    every = records().pivot(index=["cell", "seed"], columns="method", values=key)
    return every.loc[cells].reindex(columns=[*METHODS])


def means(key: str, factor: float = 1) -> Any:
    """Average a measure over the seeds, [cells, methods]; NaN where a method lacks a draw."""
    draws = (factor * measure(key)).groupby(level=0, sort=False)
    return draws.mean().where(draws.count() == len(SEEDS))


def leads(method: str) -> Any:
    """Return points ahead of a method on the same draws, and half of their 95 % interval of
    Student's t over draws, by cell."""
    accuracy = 100 * measure("balanced_accuracy")
    ahead = (accuracy[OURS] - accuracy[method]).groupby(level=0, sort=False)
    points = ahead.agg(["mean", "sem", "count"])
    points["half"] = points["sem"] * t.ppf(0.975, (points["count"] - 1).clip(lower=1))
    return points


def best() -> Any:
    """Return the reference of the highest balanced accuracy by cell, of those with all draws."""
    return means("balanced_accuracy")[[*REFERENCES]].idxmax(axis=1)


def seen(cell: str) -> bool:
    """Return True for features of rows that their network was trained on."""
    return cell.rpartition("-")[0] in TRAINED


def summary() -> str:
    """State in how many cells the vMF classifier leads, and where it loses."""
    points = {cell: leads(method)["mean"][cell] for cell, method in best().items()}
    seconds = means("fit_seconds")
    times = [seconds[OURS][cell] / seconds[method][cell] for cell, method in best().items()]
    sharper = means("log_loss")
    fewest = sharper[OURS] <= sharper[[*REFERENCES]].min(axis=1)
    kinds = (
        ("features of pretrained networks and pixels", False),
        ("features of rows that their network was trained on", True),
    )
    sentences = []
    for kind, trained in kinds:
        own = {cell: p for cell, p in points.items() if seen(cell) == trained}
        losses = [f"{c} by {-p:.2f} to {best()[c]}" for c, p in own.items() if p < -LOSS]
        sentences.append(
            f"On {kind} `VMFClassifierCV` leads in {sum(p >= 0 for p in own.values())} of "
            f"{len(own)} cells ({len(SEEDS)} draws each), on average by "
            f"{np.mean([*own.values()]):+.2f} points. Behind by more than half a point: "
            f"{'; '.join(losses) or 'nowhere'}."
        )
    return (
        f"{' '.join(sentences)} Its log-loss is the least in {fewest.sum()} of {len(points)} "
        f"cells. Its time of choosing and fitting is {min(times):.2f} to {max(times):.2f} of that "
        f"of the best reference, {np.median(times):.2f} in the middle."
    )


def comparison() -> list[Row]:
    """Compare the vMF classifier with the best reference of each cell."""
    rows, accuracy = [], means("balanced_accuracy", 100)
    pairs = {"log-loss": means("log_loss"), "choose and fit, s": means("fit_seconds")}
    pairs["predict, s"] = means("predict_seconds")
    for cell, method in best().items():
        points, half = leads(method).loc[cell, ["mean", "half"]]
        row = {
            "set, tail": cell,
            "rows": int(measure("rows")[OURS][cell].iloc[0]),
            "refined": f"{accuracy[OURS][cell]:.2f}",
            "best reference": f"{accuracy[method][cell]:.2f} ({method})",
            "refined ahead by": f"{points:+.2f} [{points - half:+.2f}, {points + half:+.2f}]",
        }
        for name, measured in pairs.items():
            values = measured.loc[cell, [OURS, method]]
            shown = (f"{value:.2g}" if value < 1 else f"{value:.2f}" for value in values)
            row[name] = " / ".join(shown).replace("nan", "none")
        rows.append(row)
    return rows


def against(method: str) -> Row:
    """Compare the vMF classifier with another method over all cells, on the draws of both."""
    losses, seconds = (measure(key)[[OURS, method]].dropna() for key in ("log_loss", "fit_seconds"))
    losses, seconds = losses.groupby(level=0).mean(), seconds.sum()
    found = leads(method).dropna(subset="mean")
    points, draws = found["mean"], found["count"].sum()
    lower = f"{(losses[OURS] < losses[method]).sum()} of {len(losses)}"
    return {
        "method": method,
        "draws": int(draws),
        "cells where refined is ahead": f"{(points >= 0).sum()} of {len(points)}",
        "mean points": f"{points.mean():+.2f}",
        "least": f"{points.min():+.2f}",
        "most": f"{points.max():+.2f}",
        "cells of lower log-loss": lower if len(losses) else "none",
        "time of the method / of refined": f"{seconds[method] / seconds[OURS]:.2f}",
    }


def ours() -> Any:
    """Return balanced accuracy in percent, log-loss and seconds of fitting of `VMFClassifier` as it
    is, whitened, and refined [cells, measures and methods], in all cells of the first two."""
    keys = ["balanced_accuracy", "log_loss", "fit_seconds"]
    every = records()[records()["method"].isin([DEFAULT, WHITENED, OURS])]
    table = every.pivot_table(index="cell", columns="method", values=keys, sort=False)
    table["balanced_accuracy"] *= 100
    names = [f"{name}, {tail}" for name, tail in product((*SETS, *TABLES), TAILS)]
    known = table.index[table["balanced_accuracy"][WHITENED].notna()]
    return table.loc[[name for name in names if name in known]]


def default_metric() -> str:
    """Apply the rule of the default metric."""
    table = ours()
    ahead = table["balanced_accuracy"][WHITENED] - table["balanced_accuracy"][DEFAULT]
    half = ahead.sem() * t.ppf(0.975, len(ahead) - 1)
    worse = [f"{cell} by {-points:.1f}" for cell, points in ahead.items() if points < -LOSS]
    sharper = table["log_loss"][WHITENED] < table["log_loss"][DEFAULT]
    raw = [cell.rpartition(",")[0] in TABLES for cell in ahead.index]
    features = ahead[~np.array(raw)]
    changes = ahead.mean() > half and not worse and sharper.mean() >= 3 / 4
    return (
        f"In {len(ahead)} cells the whitened classifier is ahead of the plain one by "
        f"{ahead.mean():+.2f} points on average [{ahead.mean() - half:+.2f}, "
        f"{ahead.mean() + half:+.2f}], and its log-loss is lower in {sharper.sum()}. It is behind "
        f"by more than half a point in {len(worse)}: {'; '.join(worse) or 'none'}. In the "
        f"{len(features)} cells of embeddings and pixels alone it is ahead by "
        f"{features.mean():+.2f}, at least {features.min():+.2f}. By the rule below the default "
        f"{'changes' if changes else 'stays without a metric'}."
    )


def defaults() -> list[Row]:
    """List accuracy, log-loss and seconds of our classifiers by cell."""
    rows = []
    for cell, own in ours().iterrows():
        points, losses = own["balanced_accuracy"], own["log_loss"]
        rows.append(
            {"set, tail": cell}
            | {m: f"{points[m]:.2f}" for m in (DEFAULT, WHITENED)}
            | {"whitened ahead by": f"{points[WHITENED] - points[DEFAULT]:+.2f}"}
            | {OURS: f"{points.get(OURS, np.nan):.2f}".replace("nan", "")}
            | {"log-loss": " / ".join(f"{losses[m]:.3f}" for m in (DEFAULT, WHITENED))}
            | {"fit, s": " / ".join(f"{own['fit_seconds'][m]:.2f}" for m in (DEFAULT, WHITENED))}
        )
    return rows


def accuracies(key: str = "balanced_accuracy") -> list[Row]:
    """List a measure of all methods in percent by cell, the largest in bold."""
    rows = []
    for cell, values in means(key, 100).iterrows():
        bold = {m: f"**{v:.2f}**" if v == values.max() else f"{v:.2f}" for m, v in values.items()}
        rows.append({"set, tail": cell} | {m: v.replace("nan", "") for m, v in bold.items()})
    return rows
