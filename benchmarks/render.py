"""Every file with generated tables, from the measurements and the training records."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks import (
    frozen_tables,
    growth_tables,
    image_tables,
    loss_tables,
    probe_tables,
    score_tables,
    training_tables,
)
from benchmarks.markdown import amount, insert, number, table

Row = dict[str, Any]

MEASURED = ("results", "gpu", "losses", "frozen", "training", "images", "probes")
# Us per view of a whole job of many small networks, evaluation included.
JOB_BAR = 4.5

# Until these parts are measured again.
STALE = (
    "The figures of the loss, of the score on a GPU, of small calls, of `analyze` and of images "
    "were measured before\nthese parts were simplified, and are to be measured again."
)


def results(root: Path, measured: Row) -> str:
    """Render the few results of the README: the paper's claims beside ours, accuracy and speed."""
    numbers = effects(root)
    rows = {
        "equal gains on frozen CIFAR-100-LT features, points of accuracy": numbers["frozen"],
        "equal gains in training on CIFAR-LT, points of accuracy": numbers["training"],
    }
    body = [[what, effect(row), f"paper: {row['printed']}"] for what, row in rows.items()]
    tuned = "the same with a temperature chosen for each rule"
    body.insert(1, [tuned, effect(numbers["tuned"]), "not in the paper"])
    body += [
        certificate_bar(root),
        score_bar(measured["results"]["accuracy"]),
        speed_bar(measured["results"]["speed"]),
    ]
    return table(["", "resultant", "others"], body)


def effects(root: Path) -> Row:
    """Return the effects of the reproduction with their printed values."""
    return json.loads((root / "reproduction" / "pages" / "headline.json").read_text())


def certificate_bar(root: Path) -> list[str]:
    """Row of the share of queries with a certificate, from Table 4: encoder features."""
    page = root / "reproduction" / "pages" / "table-04.md"
    row = r"\| CIFAR-100 / 100, Encoder \|.*\| ([\d,]+) of ([\d,]+) / ([\d,.]+)"
    cell = re.search(row, page.read_text())
    if cell is None:
        raise ValueError("expected the certified queries of CIFAR-100 / 100 in Table 4")
    printed, queries, ours = (float(x.replace(",", "")) for x in cell.groups())
    what = "rows of CIFAR-100-LT with provably the same prediction as cosine"
    return [what, f"{100 * ours / queries:.1f} %", f"paper: {100 * printed / queries:.1f} %"]


def effect(row: Row) -> str:
    text = f"{row['points']:+.2f} [{row['low']:+.2f}, {row['high']:+.2f}]"
    return text.replace(" ", "\N{NO-BREAK SPACE}")  # an interval stays on one line


def score_bar(accuracy: Sequence[Row]) -> list[str]:
    """Row of the largest errors of the score, ours in float64 and those of others."""
    p = 1024
    rows = {r["method"]: r for r in accuracy if (r["what"], r["p"]) == ("score, wide", p)}

    def shown(name: str, method: str) -> str:
        row = rows[method]
        lost = f" ({100 * row['non_finite']:.0f} % not finite)" if row["non_finite"] else ""
        return f"{name} {'nothing finite' if row['error'] is None else number(row['error'])}{lost}"

    peers = {"TFP": "TFP on JAX", "scipy": "scipy ive", "ProCo": "ProCo recurrence"}
    others = "; ".join(shown(*pair) for pair in peers.items() if pair[1] in rows)
    return [
        "largest relative error of a vMF score in 1,024 dimensions",
        shown("", "resultant, float64").strip(),
        others,
    ]


def speed_bar(speed: Sequence[Row]) -> list[str]:
    """Row of the values per second on one thread of a CPU."""
    rows = {r["method"]: r["million_per_second"] for r in speed}
    peers = {
        "scipy": "scipy.special.ive",
        "TFP": "TFP on JAX, log_bessel_ive",
        "ProCo": "ProCo recurrence",
    }
    others = "; ".join(f"{name} {amount(rows[m])}" for name, m in peers.items() if m in rows)
    ours = amount(rows["resultant, float64, kappa per class"])
    what = "million scores per second, one CPU thread (others: Bessel functions, two per score)"
    return [what, ours, others]


def headline(measured: Row, jobs: Sequence[Row]) -> str:
    """Render the targets and our measurements."""
    body = [*loss_bar(measured["losses"]), *job_bar(jobs), *frozen_bars(measured["frozen"])]
    body += image_tables.bars(measured["images"])
    return table(["what", "measured", "compared with"], body)


def loss_bar(losses: Row) -> Iterator[list[str]]:
    """Rows of the two large sizes, as called: the time that a training loop waits."""
    sizes = loss_tables.by_size(losses)
    for size in list(loss_tables.AUTHORS)[1:]:
        ms, gb = loss_tables.AUTHORS[size]
        plain, row = sizes[size]["native"], sizes[size][f"native, {loss_tables.REPLAYED}"]
        direct = sizes[size][loss_tables.DIRECT]
        called = f"{amount(row['called_us'] / 1e3)} ms with cuda_graph"
        rest = f"{amount(plain['called_us'] / 1e3)} ms without, {amount(row['peak_mb'])} MB"
        times = (ms, direct["called_us"] / 1e3)
        theirs, same = (f"{amount(t)} ms ({amount(1e3 * t / row['called_us'])} x)" for t in times)
        memory = "" if gb is None else f", {amount(1e3 * gb)} MB"
        yield [
            f"a step of the loss, {size}, {losses['device']}",
            f"{called}, {rest}",
            f"the authors' code: {theirs}{memory}; without its host synchronizations: {same}",
        ]


def job_bar(jobs: Sequence[Row]) -> Iterator[list[str]]:
    """Row of the latest job of the main kind without concurrent jobs, of those with most runs."""
    kind = ("cifar10", 100, "contrastive")
    timed = [
        (us, job)
        for job in reversed(jobs)
        if (job["dataset"], job["imbalance"], job["objective"]) == kind
        and not job["beside"]
        and (us := training_tables.us_per_view(job, "whole")) is not None
    ]
    if timed:
        us, job = max(timed, key=lambda pair: pair[1]["runs"])
        what = f"{job['runs']} runs of {training_tables.job_name(job)}, {job['epochs']} epochs"
        yield [
            f"{what}, with evaluation, from loaded images to records, {job['device']}",
            f"{us:.2f} us per view, {amount(job['whole'])} s",
            f"target {JOB_BAR} us, start of the process included",
        ]


def frozen_bars(frozen: Row) -> Iterator[list[str]]:
    for place, memory, block in frozen_tables.places(frozen):
        for row in block["rows"]:
            limit = f", {amount(row['memory'] / 1e6)} MB" if memory == "peak_mb" else ""
            yield [
                f"frozen features of the size of {row['size']}, {place}",
                f"{frozen_tables.seconds(row)} s, {amount(row['measured'][memory])} MB",
                f"target {amount(row['seconds'])} s{limit}",
            ]


def machines(measured: Row) -> str:
    """Render where, when and by which command each group of tables was measured."""
    cpu = measured["results"]["setting"]
    rows = [["the exact score, growth", cpu["environment"], cpu["date"], "make bench"]]
    groups = {
        "gpu": "the exact score on a GPU",
        "losses": "the loss",
        "training": "training",
        "images": "training on image files",
    }
    for name, what in groups.items():
        one = measured[name]
        device = f"{one['device']}, torch {one['torch']}"
        rows.append([what, device, one["date"], f"python -m benchmarks.{name}"])
    for place, _, block in frozen_tables.places(measured["frozen"]):
        option = "" if block is measured["frozen"] else " --device cuda"
        command = f"python -m benchmarks.frozen{option}"
        rows.append(["frozen features", place, block["date"], command])
    rows.append(["linear probes", "CPU", measured["probes"]["date"], "python -m benchmarks.probes"])
    return table(
        ["tables", "machine", "date", "again with"], ([*row[:3], f"`{row[3]}`"] for row in rows)
    )


def documents(root: Path) -> dict[Path, str]:
    """Render each file with tables, by its path below ``root``."""
    here = Path("benchmarks")
    measured = {name: json.loads((root / here / f"{name}.json").read_text()) for name in MEASURED}
    records = (
        json.loads(line)
        for path in sorted((root / "reproduction" / "results").glob("*.jsonl"))
        for line in path.read_text().splitlines()
    )
    jobs, training = training_tables.jobs(records), measured["training"]
    score = score_tables.summary(measured["results"], measured["gpu"])
    sections = {
        "Targets": headline(measured, jobs),
        "The exact score": score,
        "Growth": growth_tables.report(measured["results"]),
        "The loss": loss_tables.report(measured["losses"]),
        "Frozen features": frozen_tables.report(measured["frozen"]),
        "Training": training_tables.report(training, jobs),
        "Training on image files": image_tables.report(measured["images"]),
        "Linear probes": probe_tables.report(measured["probes"]),
        "The exact score in every dimension": score_tables.dimensions(measured["results"]),
        "Machines and dates": machines(measured),
    }
    full = "\n\n".join(f"## {title}\n\n{text}" for title, text in sections.items())
    inserted = {
        Path("README.md"): {"results": results(root, measured)},
        here / "training.md": {
            "convolutions": training_tables.convolution_table(training),
            "norms": training_tables.norm_table(training),
            "steps": training_tables.step_table(training),
        },
    }
    texts = {here / "results.md": f"# Benchmarks\n\n{STALE}\n\n{full}\n"}
    for path, parts in inserted.items():
        text = (root / path).read_text()
        for name, tables in parts.items():
            text = insert(text, name, tables)
        texts[path] = text
    return texts
