"""The summary of analyze and compare, and the end of both: report, summary, JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from resultant._core.files import write_text
from resultant._core.text import counted, one_line, printable
from resultant.cli.arguments import find_device

if TYPE_CHECKING:
    from resultant.analysis.analyze import Evaluated
    from resultant.analysis.result import AnalysisResult, FeatureResult, SetComparison
    from resultant.cli.arguments import FeatureOptions
    from resultant.cli.progress import Screen

Lines = Iterable[tuple[str, str]]


def finish(
    options: FeatureOptions,
    screen: Screen,
    title: str,
    evaluated: Sequence[Evaluated],
    chosen: int,
    comparisons: tuple[SetComparison, ...] = (),
) -> None:
    """Write the report; print the path of the page, and the JSON summary if asked for."""
    from resultant._core.versions import versions
    from resultant.analysis.result import AnalysisResult
    from resultant.report.folder import PAGE, write_report

    screen.step("write the report")
    features, used = tuple(one.result for one in evaluated), versions(find_device(options.device))
    result = AnalysisResult(
        title, features, chosen, comparisons, versions=used, options=options.given()
    )
    result = write_report(options.out, result, evaluated, figures=options.figures)
    page = printable(options.out / PAGE)
    print_lines(screen, [("page", page)])
    if options.json is None:
        return
    files = {kind: printable(options.out / name) for kind, name in result.files.items()}
    summary = {**summary_dict(result), "page": page, "files": files}
    text = json.dumps(summary, indent=2, allow_nan=False) + "\n"
    if str(options.json) == "-":
        sys.stdout.write(text)
    else:
        write_text(Path(options.json), text)


def print_lines(screen: Screen, lines: Lines) -> None:
    """Print headings and texts, one per line."""
    for heading, text in lines:
        bold = heading in ("use", "result", "verdict")
        line = Text(f"{heading:<8}", style="bold cyan" if bold else "cyan")
        line.append(one_line(text), style="bold" if bold else "default")
        screen.results.print(line, soft_wrap=True)


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
    yield from remarks(feature)


def remarks(feature: FeatureResult, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the warnings and notes of a feature set."""
    for warning in feature.data.warnings:
        yield "warning", f"{prefix}{warning.text}"
    for note in feature.data.notes:
        yield "note", f"{prefix}{note}"


def summary_dict(result: AnalysisResult) -> dict[str, Any]:
    """Return the summary as JSON types."""
    kept = ("key", "name", "settings", "validation", "accuracy", "balanced", "log_loss")
    features = []
    for feature in result.features:
        data = feature.data
        methods = [m.to_dict() for m in feature.methods]
        features.append(
            {
                "source": data.source,
                "features": data.name,
                "dim": data.dim,
                "classes": len(data.class_names),
                "splits": data.splits,
                "metric": data.metric,
                "validation": data.validation,
                "recommendation": feature.recommendation.to_dict(),
                "methods": [{name: m[name] for name in (*kept, "difference")} for m in methods],
                "warnings": [w.text for w in data.warnings],
                "notes": list(data.notes),
                "rows": {kind: table.total for kind, table in feature.rows.items()},
            }
        )
    comparisons = [c.to_dict() for c in result.comparisons]
    facts = {"title": result.title, "chosen": result.chosen}
    return {**facts, "features": features, "comparisons": comparisons}
