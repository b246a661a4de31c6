"""Tables of the analysis of frozen features, from frozen.json."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.markdown import amount, table

Row = dict[str, Any]

NOTE = """\
Statistics and every question of `resultant analyze`, on synthetic float32 features in a file.
Memory is the peak resident memory on the CPU, which the bar limits, and device memory on a GPU.
The GPU time is that of a first call, with the start of the device and its libraries; "again" is a
second call."""


def places(frozen: Row) -> Iterator[tuple[str, str, Row]]:
    """Iterate over the devices: name, key of the memory, and rows; the CPU first."""
    yield f"CPU, {frozen['threads']} threads", "peak_mb", frozen
    for block in frozen.get("devices", {}).values():
        yield block["name"], "device_mb", block


def seconds(row: Row) -> str:
    return amount(row["measured"]["seconds"]) + ("" if row["within"] else " (bar not met)")


def frozen_table(frozen: Row) -> str:
    body = (
        [
            row["size"],
            *(f"{row[what]:,}" for what in ("train", "test", "dim", "classes")),
            place,
            seconds(row),
            amount(row["seconds"]),
            amount(row["measured"][memory]),
            amount(row["memory"] / 1e6) if memory == "peak_mb" else "",
            amount(row["measured"]["again"]["seconds"]) if "again" in row["measured"] else "",
        ]
        for place, memory, block in places(frozen)
        for row in block["rows"]
    )
    head = ["frozen features", "fitted", "scored", "p", "classes", "on", "seconds", "bar"]
    return table([*head, "MB", "bar", "again, s"], body)


def step_table(frozen: Row) -> str:
    """Render the seconds of every question."""
    columns: dict[str, dict[str, float]] = {}
    for place, _, block in places(frozen):
        for row in block["rows"]:
            found = row["measured"]
            for again, steps in (("", found), (", again", found.get("again", {}))):
                if "steps" in steps:
                    columns[f"{row['size']}, {place}{again}"] = steps["steps"]
    names = dict.fromkeys(name for steps in columns.values() for name in steps)
    body = (
        [name, *(f"{steps[name]:.1f}" if name in steps else "" for steps in columns.values())]
        for name in names
    )
    return table(["seconds of", *columns], body)


def report(frozen: Row) -> str:
    return "\n\n".join([frozen_table(frozen), NOTE, step_table(frozen)])
