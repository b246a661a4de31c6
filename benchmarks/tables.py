"""Tables of all measurements: results.md, and the marked place in the README."""

import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks import Row
from resultant._core.text import with_minus

BENCHMARKS = {
    "accuracy": "Accuracy of the exact score",
    "speed": "Speed on a CPU",
    "gpu": "The exact score on a GPU",
    "losses": "The loss",
    "training": "Training many small networks",
    "images": "Training on image files",
    "analyze": "The command analyze",
    "outliers": "Out-of-distribution detection",
    "sets": "Sets of classes with a promise",
    "label_errors": "Wrong labels, compared with cleanlab",
}


def shown(value: Any) -> str:
    """Format a cell: text as it is, a number with three digits."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if value and not 1e-3 <= abs(value) < 1e6:
        return f"{value:,}" if isinstance(value, int) else f"{value:.1e}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def table(rows: Sequence[Row]) -> str:
    """Render rows as a Markdown table; the columns are those of all rows, in their order."""
    head = list(dict.fromkeys(column for row in rows for column in row))
    body = [[shown(row.get(column)) for column in head] for row in rows]
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *body]
    return with_minus("\n".join("| " + " | ".join(line) + " |" for line in lines))


def insert(text: str, name: str, tables: str) -> str:
    """Replace the part of ``text`` between the two markers of a name."""
    start, end = f"<!-- {name}:start -->", f"<!-- {name}:end -->"
    place = re.fullmatch(f"(.*{start}\n).*(\n{end}.*)", text, re.S)
    if place is None:
        raise ValueError(f"expected {start} and after it {end}")
    return place[1] + tables + place[2]


def read(root: Path, name: str) -> dict[str, Any]:
    return json.loads((root / "benchmarks" / f"{name}.json").read_text())


def documents(root: Path) -> dict[Path, str]:
    """Render each file with tables, by its path below ``root``."""
    parts, rows = ["# Benchmarks"], []
    for name, title in BENCHMARKS.items():
        measured = read(root, name)
        tables = (f"{t['note']}\n\n{table(t['rows'])}" for t in measured["tables"])
        parts += [f"## {title}", *tables]
        setting = {"machine": measured["machine"], "date": measured["date"]}
        rows.append({"tables": title, **setting, "measure again": f"`python -m benchmarks {name}`"})
    parts += ["## Long-tailed features", *long_tails()]
    parts.append(f"## Machines and dates\n\n{table(rows)}")
    readme = (root / "README.md").read_text()
    return {
        Path("benchmarks/results.md"): with_minus("\n\n".join(parts)) + "\n",
        Path("README.md"): insert(readme, "results", table(headline(root))),
    }


@cache
def long_tails() -> list[str]:
    """Return a sentence and a table of the benchmark of long tails."""
    # Needs pandas, which other tables do without.
    from benchmarks.longtail_page import comparison, summary

    return [summary(), table(comparison())]


def headline(root: Path) -> list[Row]:
    """Return the rows of the README: effects of the paper, accuracy and speed."""
    known = effects(root)
    frozen, training = (f"paper: {known[name]['printed']}" for name in ("frozen", "training"))
    tuned, photos = (
        f"encoders {effect(known[f'{name}-encoder'])}, "
        f"projections {effect(known[f'{name}-projection'])}"
        for name in ("tuned", "tuned-photos")
    )
    settings = sorted(known["training"]["by setting"].values())
    trained = f"{effect(known['training'])}; by setting {settings[0]:+.2f} to {settings[-1]:+.2f}"
    number = {name: row["networks"] for name, row in known.items()}
    largest, lost, *_ = (t["rows"] for t in read(root, "accuracy")["tables"])
    errors = {row["method"]: shown(row["p = 1,024"]) for row in largest}
    for row in lost:
        if share := row["p = 1,024"]:
            errors[row["method"]] += f" ({100 * share:.0f} % not finite)"
    speed = read(root, "speed")["tables"][0]["rows"]
    rates = {row["method"]: shown(row["million per second"]) for row in speed}

    def others(cells: dict[str, str]) -> str:
        names = {"TFP": "TFP on JAX", "scipy": "scipy ive", "ProCo": "ProCo recurrence"}
        return "; ".join(f"{name} {cells[long]}" for name, long in names.items() if long in cells)

    points = "points of accuracy"
    score = "largest relative error of a vMF score in 1,024 dimensions"
    rate = "million scores per second, one CPU thread (others: Bessel functions, two per score)"
    rows = [
        (
            f"equal gains on frozen CIFAR-100-LT encoders, {number['frozen']} networks, {points}",
            *(effect(known["frozen"]), frozen),
        ),
        (
            f"a temperature chosen for each rule, {number['tuned-encoder']} other networks",
            *(tuned, "not in the paper"),
        ),
        (
            f"the same on Tiny-ImageNet-LT, {number['tuned-photos-encoder']} networks",
            *(photos, "not in the paper"),
        ),
        (
            f"equal gains in training, six settings, {number['training']} networks, {points}",
            *(trained, training),
        ),
        (score, errors["resultant, float64"], others(errors)),
        (rate, rates["resultant, float64, kappa per class"], others(rates)),
    ]
    return [dict(zip(("", "resultant", "others"), row, strict=True)) for row in rows]


def effects(root: Path) -> Row:
    """Return the effects of the reproduction with their printed values."""
    return json.loads((root / "reproduction" / "pages" / "headline.json").read_text())


def effect(row: Row) -> str:
    text = f"{row['points']:+.2f} [{row['low']:+.2f}, {row['high']:+.2f}]"
    return text.replace(" ", "\N{NO-BREAK SPACE}")  # an interval stays on one line
