"""The report and the summary of analyze and compare."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from resultant._core.files import replacing, require_writable_folder, write_text
from resultant._core.text import counted, one_line, printable

if TYPE_CHECKING:
    from resultant.analysis.analyze import Evaluated
    from resultant.analysis.result import AnalysisResult, FeatureResult

PAGE, RESULTS = "index.html", "results.json"
FOLDERS = ("tables", "figures")
# All files and folders of a report.
PARTS = (
    *(PAGE, RESULTS, "rows.csv", "predictions.parquet", "predictions.csv"),
    *("classifier.safetensors", *FOLDERS),
)


def require_report_folder(out: Path) -> None:
    """Raise a ValueError unless a report can be written into a folder: it may hold an earlier
    report and other files, but no other file of the same name."""
    require_writable_folder(out)
    present = [name for name in PARTS if (out / name).exists()]
    if present and not {PAGE, RESULTS} <= set(present):
        rule = "expected --out without other files of the names of a report"
        raise ValueError(f"{rule}, got {out / present[0]}; choose another folder")


def write_report(
    out: Path, result: AnalysisResult, evaluated: Sequence[Evaluated], *, figures: bool = False
) -> AnalysisResult:
    """Write the page and its files into a folder, each complete or absent, the page last.

    Returns:
        The result with the names of its files.
    """
    from resultant.analysis.export import write_files
    from resultant.report import write_page

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        result = write_files(folder, result, evaluated, out)
        write_page(result, folder, figures=figures)
        files = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
        for old in PARTS:
            path = out / old
            if path.is_dir():
                shutil.rmtree(path)
            elif Path(old) not in files:
                path.unlink(missing_ok=True)
        for file in sorted(files, key=lambda file: str(file) == PAGE):
            (out / file).parent.mkdir(parents=True, exist_ok=True)
            with replacing(out / file) as temporary:
                shutil.copyfile(folder / file, temporary)
    return result


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
