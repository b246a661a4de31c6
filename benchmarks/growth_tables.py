"""Tables of the time of scores as sizes grow, from results.json."""

from __future__ import annotations

from typing import Any

from benchmarks.markdown import amount, table

Row = dict[str, Any]

WHOLE_NOTE = """\
Milliseconds of processor time of `class_scores` on float32 queries, one thread, and of the matrix
product of queries and class directions alone. One size grows; the others are 1,000 queries, 1,000
classes and p = 512."""

VALUE_NOTE = """\
Microseconds of processor time per value, in calls of 2,000 values in float64 (500 for the
recurrence of ProCo, 20 for mpmath), kappa around p, tau = 0.1, one thread. Ours is a score with
its slope; the others are one value of a Bessel function (mpmath: a ratio of two), and a score needs
two. The series of mpmath does not converge where its row is empty."""


def whole(rows: list[Row]) -> str:
    """Render the time of all scores of a batch, one line per size."""
    by = {(row["grows"], row["size"], row["method"]): row["seconds"] for row in rows}
    methods = list(dict.fromkeys(row["method"] for row in rows))
    sizes = list(dict.fromkeys((row["grows"], row["size"]) for row in rows))
    body = (
        [f"{size:,} {grows}" if grows != "dimension" else f"p = {size:,}"]
        + [amount(1e3 * by[grows, size, method]) for method in methods]
        for grows, size in sizes
    )
    return table(["ms", *methods], body)


def value(rows: list[Row]) -> str:
    """Render the time per value over the dimension, one line per method."""
    by = {(row["method"], row["p"]): row["us"] for row in rows}
    dimensions = list(dict.fromkeys(row["p"] for row in rows))
    methods = list(dict.fromkeys(row["method"] for row in rows))
    body = (
        [method] + [amount(by[method, p]) if (method, p) in by else "" for p in dimensions]
        for method in methods
    )
    return table(["us per value", *(f"p = {p:,}" for p in dimensions)], body)


def report(results: Row) -> str:
    parts = [whole(results["growth"]), WHOLE_NOTE, value(results["growth_value"]), VALUE_NOTE]
    return "\n\n".join(parts)
