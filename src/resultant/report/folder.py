"""A report as a folder: the page, tables, predictions, a classifier, rows and results.json."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from resultant._core.files import replacing, require_writable_folder
from resultant.analysis.analyze import Evaluated
from resultant.analysis.export import write_files
from resultant.analysis.result import AnalysisResult
from resultant.report.page import write_page

PAGE, RESULTS = "index.html", "results.json"
# All files and folders of a report.
PARTS = (
    *(PAGE, RESULTS, "rows.csv", "predictions.parquet", "predictions.csv"),
    *("classifier.safetensors", "tables", "figures"),
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
    """Write the page and its files into a folder, each complete or absent, the page last; return
    the result with the names of its files."""
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
