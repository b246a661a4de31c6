"""A report: a page of HTML that needs no other file, its tables as CSV files, and in its folder the
predictions, a classifier, rows to look at and results.json."""

import base64
import gzip
import hashlib
import importlib.resources
import json
import re
import shutil
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from resultant._core.files import make_folder, replacing, require_writable_folder
from resultant.analysis.result import AnalysisResult, FeatureResult
from resultant.analysis.run import Study
from resultant.analysis.sets import sentence
from resultant.analysis.write import ALL_ROWS, CLASSIFIER, PREDICTIONS, RESULTS, ROWS, write_files
from resultant.report import classes, methods, rows, style, summary
from resultant.report.charts import Chart, draw, numbers
from resultant.report.table import SHOWN, Table
from resultant.report.theory import setting, theory_charts

# Bytes of a page, and the points of maps and cosines of sliders of all its feature sets.
LARGEST = 4_000_000
MAP_POINTS = 3000
COSINES = 600_000

# All files and folders of a report.
PAGE = "index.html"
PARTS = (PAGE, RESULTS, ROWS, ALL_ROWS, PREDICTIONS, CLASSIFIER)
PARTS += (*summary.FILES.values(), "tables", "figures")

STYLES = ("shared/chart.css", "templates/page.css")
SCRIPTS = ("shared/vmf.js", "shared/chart.js", "templates/explorer.js", "templates/page.js")


def require_report_folder(out: Path) -> None:
    """Raise unless a folder can take a report: it has none of its files, or an earlier report."""
    require_writable_folder(out)
    present = [name for name in PARTS if (out / name).exists()]
    if present and not {PAGE, RESULTS} <= set(present):
        rule = "expected --out without files that a report would replace"
        raise ValueError(f"{rule}, got {out / present[0]}; choose another folder")


def write_report(
    out: Path, result: AnalysisResult, studies: Sequence[Study], *, figures: bool = False
) -> AnalysisResult:
    """Write the page and its files, each complete or absent; return the result with their names."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        result = write_files(folder, result, studies, out, summary.FILES)
        summary.write_summary(result, folder)
        write_page(result, folder, figures=figures)
        files = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
        for old in PARTS:
            path = out / old
            if path.is_dir():
                shutil.rmtree(path)
            elif Path(old) not in files:
                path.unlink(missing_ok=True)
        for file in sorted(files, key=lambda file: str(file) == PAGE):
            make_folder((out / file).parent)
            with replacing(out / file) as temporary:
                shutil.copyfile(folder / file, temporary)
    return result


@dataclass(frozen=True)
class Tab:
    """The part of the page about one feature set: charts and tables by section."""

    key: str  # the anchor, and the beginning of the names of its files
    title: str
    result: FeatureResult
    charts: dict[str, list[Chart]]
    tables: dict[str, list[Table]]

    @property
    def sets(self) -> str:
        """The sets of classes on the test rows."""
        r = self.result
        return "" if r.sets is None else sentence(r.data, r.sets)

    @property
    def theory(self) -> str:
        """The classes that the theory is asked about."""
        return setting(self.result)

    def file(self, item: Chart | Table) -> str:
        """Return the name of the file of a chart or table, without a suffix."""
        return f"{self.key}-{item.name}" if self.key else item.name


def write_page(result: AnalysisResult, folder: Path, *, figures: bool = False) -> Path:
    """Write the page, its tables and, with ``figures``, its charts as files; return its path."""
    tabs, html = render(result, figures)
    (folder / "tables").mkdir(exist_ok=True)
    for tab in tabs:
        for table in chain(*tab.tables.values()):
            if not table.file:
                table.write(folder / "tables" / f"{tab.file(table)}.csv")
        for chart in chain(*tab.charts.values()) if figures else ():
            style.save(draw(chart), folder / "figures" / tab.file(chart))
    path = folder / PAGE
    path.write_text(html, encoding="utf-8")
    return path


def render(result: AnalysisResult, figures: bool = False) -> tuple[list[Tab], str]:
    """Return the parts of the page and its HTML, with as many points as `LARGEST` bytes allow."""
    part, static = 1.0 / len(result.features), summary.static_chart(result.first)
    while True:
        points = max(1, int(part * MAP_POINTS))
        tabs = [_tab(result, i, points) for i in range(len(result.features))]
        html = _html(result, tabs, int(part * COSINES), figures, static)
        if len(html.encode()) <= LARGEST or part <= 1e-3:
            return tabs, html
        part /= 2


def _tab(result: AnalysisResult, i: int, points: int) -> Tab:
    f = result.features[i]
    # The name of a feature set: of its array, its file, or both.
    sources, names = ({getattr(g.data, k) for g in result.features} for k in ("source", "name"))
    source = Path(f.data.source).name
    title = f"{source}: {f.data.name}" if len(names) > 1 else source
    title = f.data.name if len(sources) == 1 else title
    key = f"{i + 1}-{file_name(title)}" if len(result.features) > 1 else ""
    charts = {
        "methods": methods.method_charts(f),
        "rules": methods.rule_charts(f),
        "curve": methods.curve_charts(f),
        "classes": classes.class_charts(f),
        "map": rows.map_charts(f, points),
        "theory": theory_charts(f),
    }
    tables = {
        "methods": [methods.methods_table(f)],
        "classes": [*classes.pairs_tables(f), classes.classes_table(f)],
        "rows": rows.row_tables(f, result.files.get("rows", "")),
    }
    return Tab(key, title, f, charts, tables)


def file_name(name: str) -> str:
    """A name as part of a file name and of an address: short, of small letters and digits."""
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-").lower()[:80] or "features"


def _html(result: AnalysisResult, tabs: list[Tab], cosines: int, figures: bool, static: str) -> str:
    from jinja2 import Environment, FunctionLoader, StrictUndefined
    from markupsafe import Markup

    data = {
        tab.key: {
            "charts": {tab.file(chart): numbers(chart) for chart in chain(*tab.charts.values())},
            "names": tab.result.data.class_names,
            "explorer": _explorer(tab.result, cosines),
        }
        for tab in tabs
    }
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    css, script = ("\n".join(map(_file, names)) for names in (STYLES, SCRIPTS))
    # The template puts the script on lines of its own.
    digest = hashlib.sha256(f"\n{script}\n".encode()).digest()
    environment = Environment(
        loader=FunctionLoader(lambda name: _file(f"templates/{name}")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # A number and its percent sign stay on one line.
    environment.filters["unbroken"] = lambda text: text.replace(" %", "\u00a0%")
    return environment.get_template("page.html").render(
        result=result,
        tabs=tabs,
        chosen=tabs[result.chosen],
        figures=figures,
        static=Markup(static),
        css=Markup(css),
        script=Markup(script),
        shown=SHOWN,
        script_hash=Markup(f"sha256-{base64.b64encode(digest).decode()}"),
        data=base64.b64encode(gzip.compress(text.encode(), 4, mtime=0)).decode(),
        glossary=tomllib.loads(_file("glossary.toml")),
    )


def _explorer(result: FeatureResult, most: int) -> dict[str, Any] | None:
    """Return the numbers of the sliders, at most ``most`` cosines."""
    if (e := result.explorer) is None:
        return None
    rows = min(len(e.row), max(1, most // (e.candidates.shape[1] * len(e.shrinkage))))
    kept = np.linspace(0, len(e.row) - 1, rows).round().astype(int)
    same = ("dim", "shrinkage", "kappa", "resultant", "log_prior", "start")
    data = {
        **{name: getattr(e, name) for name in same},
        "label": e.label[kept],
        "weight": e.weight[kept] / e.weight[kept].sum(),
        "equal": e.equal[kept] / e.equal[kept].sum(),
        "evaluated": result.data.evaluated,
        "candidates": e.candidates[kept].ravel(),
        "width": e.candidates.shape[1],
        # In units of 1e-7, which are shorter than fractions.
        "cosine": [np.round(1e7 * c.ravel()).astype(int) for c in e.cosine[:, kept]],
        "metric": result.data.metric,
        "group": result.data.group if result.data.group_names else None,
        "group_names": result.data.group_names,
    }
    return numbers(data)


def _file(name: str) -> str:
    return (importlib.resources.files("resultant.report") / name).read_text(encoding="utf-8")
