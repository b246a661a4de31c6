"""The report and the summary of analyze and compare."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from resultant._core.files import write_text
from resultant._core.text import counted, one_line, printable

if TYPE_CHECKING:
    from resultant.analysis.result import AnalysisResult, FeatureResult

PAGE = "index.html"


def read_line(feature: FeatureResult) -> str:
    """Return what was read, in one line."""
    data = feature.data
    splits = ", ".join(f"{rows:,} {name}" for name, rows in data.splits.items())
    classes = counted(len(data.class_names), "class", "classes")
    rows = counted(sum(data.splits.values()), "row", "rows")
    return f"{data.source}, {data.name}: {rows} of {data.dim:,} dimensions, {classes} ({splits})"


def summary_lines(feature: FeatureResult) -> Iterator[tuple[str, str]]:
    """Yield headings and texts: what was read, the recommendation, warnings."""
    yield "read", read_line(feature)
    first, *others = feature.recommendation.sentences
    yield "use" if feature.recommendation.key else "result", first
    for text in others:
        yield "why", text
    yield "check", f"Validation: {feature.data.validation}."
    for warning in feature.data.warnings:
        yield "warning", warning.text
    for note in feature.data.notes:
        yield "note", note


def print_lines(console: Console, lines: Iterator[tuple[str, str]]) -> None:
    """Print headings and texts, one per line."""
    for heading, text in lines:
        bold = heading in ("use", "result", "verdict")
        line = Text(f"{heading:<8}", style="bold cyan" if bold else "cyan")
        line.append(one_line(text), style="bold" if bold else "default")
        console.print(line, soft_wrap=True)


def summary_dict(result: AnalysisResult, out: Path) -> dict[str, Any]:
    """Return the summary as JSON types."""
    features = []
    for feature in result.features:
        data, chosen = feature.data, feature.recommendation
        methods = [
            {
                "key": m.key,
                "name": m.name,
                "settings": m.settings,
                **{
                    name: getattr(m, name).to_dict()
                    for name in ("validation", "accuracy", "balanced", "log_loss")
                },
                "difference": None if m.difference is None else m.difference.to_dict(),
            }
            for m in feature.methods
        ]
        features.append(
            {
                "source": data.source,
                "features": data.name,
                "dim": data.dim,
                "classes": len(data.class_names),
                "splits": data.splits,
                "metric": data.metric,
                "validation": data.validation,
                "recommendation": chosen.to_dict(),
                "methods": methods,
                "warnings": [w.text for w in data.warnings],
                "notes": list(data.notes),
                "rows": {kind: table.total for kind, table in feature.rows.items()},
            }
        )
    return {
        "title": result.title,
        "chosen": result.chosen,
        "features": features,
        "comparisons": [c.to_dict() for c in result.comparisons],
        "page": printable(out / PAGE),
        "files": {kind: printable(out / name) for kind, name in result.files.items()},
    }


def write_json(path: Path, summary: dict[str, Any]) -> None:
    """Write a summary to a file, or to the standard output for -."""
    text = json.dumps(summary, indent=2, allow_nan=False) + "\n"
    if str(path) == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
    else:
        write_text(path, text)
