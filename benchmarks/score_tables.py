"""Tables of the exact score: errors and speed compared with other libraries, on CPU and GPU."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from benchmarks.markdown import number, table

Row = dict[str, Any]


def cell(rows: Sequence[Row]) -> str:
    """Format the largest error of rows, and the share of results that are not finite."""
    if not rows:
        return ""
    errors = [row["error"] for row in rows if row["error"] is not None]
    share = sum(row["non_finite"] for row in rows) / len(rows)
    if not errors:
        return "nothing finite"
    lost = f", {max(100 * share, 1):.0f} % not finite" if share else ""
    return f"{number(max(errors))}{lost}"


def select(rows: Sequence[Row], what: str, method: str, low: int, high: int) -> list[Row]:
    return [r for r in rows if (r["what"], r["method"]) == (what, method) and low <= r["p"] <= high]


def methods(rows: Sequence[Row], what: str) -> list[str]:
    return list(dict.fromkeys(r["method"] for r in rows if r["what"] == what))


def accuracy_table(rows: Sequence[Row]) -> str:
    columns = {
        "q, any input, p = 3 and 17": ("score, wide", 3, 17),
        "p = 128 to 2048": ("score, wide", 128, 2048),
        "p = 65536": ("score, wide", 65536, 65536),
        "q in training, p = 128 to 2048": ("score, training", 128, 2048),
        "ratio R, p = 128 to 2048": ("ratio", 128, 2048),
    }
    body = (
        [name, *(cell(select(rows, what, name, *span)) for what, *span in columns.values())]
        for name in methods(rows, "score, wide")
    )
    return table(["largest error", *columns], body)


def kappa_table(rows: Sequence[Row]) -> str:
    columns = {"p = 3": (3, 3), "17": (17, 17), "128 to 2048": (128, 2048), "65536": (65536,) * 2}
    body = (
        [name, *(cell(select(rows, "kappa", name, *span)) for span in columns.values())]
        for name in methods(rows, "kappa")
    )
    return table(["largest relative error of kappa from R", *columns], body)


def derivative_table(rows: Sequence[Row]) -> str:
    spans = {"p = 3 and 17": (3, 17), "128 to 2048": (128, 2048), "65536": (65536, 65536)}
    columns = {
        f"{what}, {name}": (what, *span)
        for what in ("dq/dkappa", "dq/dtau")
        for name, span in spans.items()
    }
    body = (
        [name, *(cell(select(rows, what, name, *span)) for what, *span in columns.values())]
        for name in methods(rows, "dq/dkappa")
    )
    return table(["largest error of a derivative", *columns], body)


def by_dimension(rows: Sequence[Row], what: str) -> str:
    dimensions = list(dict.fromkeys(r["p"] for r in rows if r["what"] == what))
    body = (
        [name, *(cell(select(rows, what, name, p, p)) for p in dimensions)]
        for name in methods(rows, what)
    )
    return table([what, *(f"p = {p}" for p in dimensions)], body)


def speed_table(rows: Sequence[Row]) -> str:
    body = (
        [
            r["method"],
            r["computes"],
            number(r["million_per_second"]),
            f"{r['ratio_to_scipy']:.2g} x",
            "" if r["error"] is None else number(r["error"]),
        ]
        for r in rows
    )
    head = ["speed", "computes", "million per second", "ratio to scipy", "error of q"]
    return table(head, body)


def calls_table(rows: Sequence[Row]) -> str:
    def time(us: float | None) -> str:
        if us is None:
            return ""
        size, unit = (1e6, "s") if us >= 1e6 else (1.0, "us") if us >= 1 else (1e-3, "ns")
        return f"{number(us / size)} {unit}"

    columns = {"ours": "ours", "bar": "target", "scipy": "scipy", "tfp": "TFP on JAX"}
    shown = {key: title for key, title in columns.items() if any(r[key] for r in rows)}
    body = ([r["what"], *(time(r[key]) for key in shown)] for r in rows)
    return table(["time", *shown.values()], body)


def gpu_table(gpu: Row) -> str:
    def shown(x: Any) -> str:
        if isinstance(x, (int, float)) and math.isfinite(x):
            return number(float(x))
        return "" if x is None else str(x)

    body = ([shown(r.get(k)) for k in ("what", "value", "reference", "ratio")] for r in gpu["rows"])
    return table([str(gpu["device"]), "value", "reference", "ratio"], body)


ACCURACY_NOTE = """\
Largest errors of an adversarial search: random points (300, or 30 at p = 65536, where Arb is slow),
and the ends of hill climbs from them that maximize our error in float64 (120 starts of 250 trials,
fewer from p = 1024 on) and in float32 (300 of 400). Every error is against Arb, and all methods are
judged at the same points. Errors of q are relative to max(|q|, |rho dq/drho|). Any input is
kappa = 1e-6 to 1e6, 1/tau = .01 to 1000, rho in [-1, 1] with both ends; in training is kappa = p/10
to 10 p, tau = 0.1. Errors of R are relative, over kappa = 1e-6 to 1e6. The other
scores subtract two values of log I. The ProCo recurrence is our implementation of it."""

DERIVATIVE_NOTE = """\
Any input as above, by the same search. Errors are relative to the derivative and to its change
under a change of rho, kappa and tau by their own sizes, which is what a rounding of the inputs
costs."""

KAPPA_NOTE = """\
kappa = 1e-4 to 1e6, by the same search; R is the nearest float64; the reference is the kappa of
that float64."""

SPEED_NOTE = """\
p = 1024, {queries:,} queries x {classes:,} classes, kappa around p, tau = 0.1, one thread. Medians
of rates and of ratios, by processor time. Ours computes the score and its slope; the others compute
one Bessel value, and a score needs two. The error is measured on 200 of the timed values.
{environment}"""


CALLS_NOTE = """\
One pinned core, by the least processor time of several turns. Calls are of p = 3 in float64. Of a
million elements each has its own kappa, up to 2p, tau = 0.1; the time is that of one element with q
and its slope. The others compute one Bessel value (a score needs two), the log density or the
entropy."""


def summary(results: Row, gpu: Row) -> str:
    """Render the errors over ranges of dimensions, and the speed."""
    rows = results["accuracy"]
    parts = [accuracy_table(rows), ACCURACY_NOTE, derivative_table(rows), DERIVATIVE_NOTE]
    parts += [kappa_table(rows), KAPPA_NOTE]
    parts += [speed_table(results["speed"]), SPEED_NOTE.format(**results["setting"])]
    parts += [calls_table(results["calls"]), CALLS_NOTE]
    return "\n\n".join([*parts, gpu_table(gpu)])


def dimensions(results: Row) -> str:
    """Render the errors of every dimension."""
    whats = ("score, wide", "score, training", "ratio")
    return "\n\n".join(by_dimension(results["accuracy"], what) for what in whats)
