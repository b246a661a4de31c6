"""Tables of training: parts and steps from training.json, whole jobs from the records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from benchmarks.markdown import table

Row = dict[str, Any]

# Reads and writes of an activation by a norm; a copy has two.
TRANSFERS = {"forward": 3, "forward, residual": 4, "backward": 5, "backward, residual": 8}
# Titles of the parts that training.json has for separate and for fused blocks.
PARTS = {"networks": "network alone", "steps": "whole step"}

STEP_NOTE = """\
ResNet-32, 512 views per run and step. The network alone is its forward and backward pass; the whole
step adds views, loss, statistics and optimizer. Both run as a CUDA graph. {device}, torch
{torch}."""

JOB_NOTE = """\
Every job with records in reproduction/results/, its runs trained together. The loop is training
alone; "all" adds compilation, features, probes and frozen summaries, where the records have it."""


def runs_of(n: int) -> str:
    return "1 run" if n == 1 else f"{n} runs"


def convolution_table(training: Row) -> str:
    """Render the us per run of one 3 x 3 convolution, all three passes; the best layout in bold."""
    rows = training["convolutions"]
    channels = list(dict.fromkeys(row["channels"] for row in rows))
    sums = {(r["runs"], r["block"], r["channels"]): sum(r["us"]) for r in rows}
    copies = {row["channels"]: row["copy"] for row in training["norms"]}
    body = [["a copy of the activation", *(f"{copies[c]:.1f}" for c in channels)]]
    for runs, block in dict.fromkeys((row["runs"], row["block"]) for row in rows):
        layout = f", groups = {runs}" if block == 1 else f", {block} to a block-diagonal kernel"
        cells = []
        for c in channels:
            others = [us for (r, b, k), us in sums.items() if (r, k) == (runs, c) and b != block]
            us = sums[runs, block, c]
            bold = "**" if others and us < min(others) else ""
            cells.append(f"{bold}{us:.1f}{bold}")
        body.append([runs_of(runs) + (layout if runs > 1 else ""), *cells])
    return table(["us per run", *(f"{c} channels" for c in channels)], body)


def norm_table(training: Row) -> str:
    """Render the us per run of norm, residual and ReLU, and their share of the copy rate."""
    rows = training["norms"]
    body = [["a copy", *(f"{row['copy']:.1f}" for row in rows)]]
    for name, transfers in TRANSFERS.items():
        shares = (transfers / 2 * row["copy"] / row[name] for row in rows)
        pairs = zip(rows, shares, strict=True)
        body.append([name, *(f"{row[name]:.1f} ({100 * share:.0f} %)" for row, share in pairs)])
    return table(["us per run", *(f"{row['channels']} channels" for row in rows)], body)


def step_table(training: Row) -> str:
    """Render the us per view by the number of runs, with and without fused blocks."""
    times = {
        (part, row["fuse"], row["runs"]): row["us a view"]
        for part in PARTS
        for row in training[part]
    }
    numbers = sorted({runs for _, _, runs in times})
    body = []
    for part, label in PARTS.items():
        for fuse in (False, True):
            found = (times.get((part, fuse, runs)) for runs in numbers)
            cells = ("" if us is None else f"{us:.2f}" for us in found)
            body.append([f"{label}, {'fused' if fuse else 'separate'} kernels", *cells])
    return table(["us per view", *map(runs_of, numbers)], body)


def jobs(records: Iterable[Row]) -> list[Row]:
    """Collect the jobs of records, with their times.

    Runs that were trained together share the seconds of their loop.
    """
    together: dict[tuple[Any, ...], list[Row]] = {}
    for record in records:
        config = record["config"]
        kind = tuple(config[key] for key in ("dataset", "imbalance", "objective"))
        key = (*kind, record["job_runs"], record["job_seconds"])
        together.setdefault(key, []).append(record)
    found = []
    for (dataset, imbalance, objective, runs, seconds), members in together.items():
        record, config = members[0], members[0]["config"]
        epochs, batch = record.get("job_epochs", config["epochs"]), config["batch_size"]
        views = 2 + config["classification_view"]
        images = record["train_images"] // batch * batch * epochs * runs
        found.append(
            {
                "dataset": dataset,
                "imbalance": imbalance,
                "objective": objective,
                "views": views,
                "runs": runs,
                "device": record["versions"].get("device", "CPU"),
                "beside": record.get("beside", 0),
                "epochs": epochs,
                "fuse": config.get("fuse", False),
                "all views": images * views,
                "seconds": seconds,
                "whole": max(
                    (r["whole_seconds"] for r in members if "whole_seconds" in r), default=None
                ),
            }
        )
    return found


def us_per_view(job: Row, what: str) -> float | None:
    """Return the us per view of the loop (``seconds``) or the whole job (``whole``), if known."""
    if job[what] is None or not job["all views"]:
        return None
    return 1e6 * job[what] / job["all views"]


def job_name(job: Row) -> str:
    return f"{job['dataset'].replace('cifar', 'CIFAR-')}, IF {job['imbalance']:g}"


def job_table(found: Sequence[Row]) -> str:
    body = []
    for job in found:
        times: list[str] = []
        for what in ("seconds", "whole"):
            us = us_per_view(job, what)
            times += [
                "" if job[what] is None else f"{job[what]:.1f}",
                "" if us is None else f"{us:.2f}",
            ]
        kernels = "fused" if job["fuse"] else "separate"
        numbers = [str(job[key]) for key in ("views", "runs", "epochs")]
        place = job["device"] + (f", {job['beside']} concurrent jobs" if job["beside"] else "")
        body.append([job_name(job), job["objective"], *numbers, place, kernels, *times])
    head = ["job", "objective", "views", "runs", "epochs", "on", "kernels"]
    return table([*head, "loop, s", "us per view", "all, s", "us per view"], body)


def report(training: Row, found: Sequence[Row]) -> str:
    return "\n\n".join(
        [step_table(training), STEP_NOTE.format(**training), job_table(found), JOB_NOTE]
    )
