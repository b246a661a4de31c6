"""Tables of all measurements: results.md, and the marked place in the README."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
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
    if not re.search(f"{start}.*{end}", text, re.S):
        raise ValueError(f"expected {start} and after it {end}")
    before, _, rest = text.partition(start)
    return f"{before}{start}\n{tables}\n{end}{rest.partition(end)[2]}"


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
    parts.append(f"## Machines and dates\n\n{table(rows)}")
    readme = Path("README.md")
    return {
        Path("benchmarks/results.md"): with_minus("\n\n".join(parts)) + "\n",
        readme: insert((root / readme).read_text(), "results", table(headline(root))),
    }


def headline(root: Path) -> list[Row]:
    """Return the rows of the README: effects of the paper, accuracy and speed."""
    known = effects(root)
    shown_effect = {name: effect(row) for name, row in known.items()}
    frozen, training = (f"paper: {known[name]['printed']}" for name in ("frozen", "training"))
    tuned = f"{shown_effect['tuned']}; on Tiny-ImageNet-LT {shown_effect['tuned-photos']}"
    points = "points of accuracy"
    cells = [
        (f"equal gains on frozen CIFAR-100-LT features, {points}", shown_effect["frozen"], frozen),
        ("the same with a temperature chosen for each rule", tuned, "not in the paper"),
        (f"equal gains in training on CIFAR-LT, {points}", shown_effect["training"], training),
        largest_errors(read(root, "accuracy")["tables"]),
        rates(read(root, "speed")["tables"][0]["rows"]),
    ]
    return [dict(zip(("", "resultant", "others"), row, strict=True)) for row in cells]


def effects(root: Path) -> Row:
    """Return the effects of the reproduction with their printed values."""
    return json.loads((root / "reproduction" / "pages" / "headline.json").read_text())


def effect(row: Row) -> str:
    text = f"{row['points']:+.2f} [{row['low']:+.2f}, {row['high']:+.2f}]"
    return text.replace(" ", "\N{NO-BREAK SPACE}")  # an interval stays on one line


def of_peers(cells: dict[str, str]) -> str:
    """List the cells of other methods under short names."""
    names = {"TFP": "TFP on JAX", "scipy": "scipy ive", "ProCo": "ProCo recurrence"}
    return "; ".join(f"{name} {cells[method]}" for name, method in names.items() if method in cells)


def largest_errors(tables: Sequence[Any]) -> tuple[str, str, str]:
    """Largest errors of the score at p = 1,024, ours in float64 and those of others."""
    errors, lost = ({row["method"]: row["p = 1,024"] for row in t["rows"]} for t in tables[:2])
    cells = {name: shown(error) for name, error in errors.items()}
    cells |= {name: f"{cells[name]} ({100 * s:.0f} % not finite)" for name, s in lost.items() if s}
    what = "largest relative error of a vMF score in 1,024 dimensions"
    return what, cells["resultant, float64"], of_peers(cells)


def rates(rows: Sequence[Row]) -> tuple[str, str, str]:
    """Values per second on one thread of a CPU."""
    cells = {row["method"]: shown(row["million per second"]) for row in rows}
    what = "million scores per second, one CPU thread (others: Bessel functions, two per score)"
    return what, cells["resultant, float64, kappa per class"], of_peers(cells)
