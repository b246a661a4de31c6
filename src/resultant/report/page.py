"""The page of an analysis: one HTML file that needs no other, and its tables as CSV files."""

from __future__ import annotations

import base64
import gzip
import hashlib
import importlib.resources
import json
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from resultant._core.text import file_name
from resultant.analysis.result import AnalysisResult, FeatureResult
from resultant.report import chart_files, style
from resultant.report.charts import Chart, numbers
from resultant.report.sections import (
    class_charts,
    classes_table,
    map_chart,
    methods_chart,
    methods_table,
    pairs_table,
    row_tables,
)
from resultant.report.table import SHOWN, Table
from resultant.report.theory import theory_charts

# Bytes of a page, points of the map, and cosines of the sliders of one feature set.
LARGEST = 4_000_000
MAP_POINTS = 3000
COSINES = 600_000

STYLES = ("shared/chart.css", "templates/page.css")
SCRIPTS = ("shared/vmf.js", "shared/chart.js", "templates/explorer.js", "templates/page.js")


@dataclass(frozen=True)
class Tab:
    """The part of the page about one feature set.

    Attributes:
        key: Anchor, and the beginning of the names of its files; "" for a single feature set.
        title: Name of the feature set.
        result: Its numbers.
        charts: Charts by section: "methods", "classes", "map", "theory".
        tables: Tables by section: "methods", "classes", "rows".
    """

    key: str
    title: str
    result: FeatureResult
    charts: dict[str, list[Chart]]
    tables: dict[str, list[Table]]

    def file(self, item: Chart | Table) -> str:
        """Return the name of the file of a chart or table, without a suffix."""
        return f"{self.key}-{item.name}" if self.key else item.name

    def all_charts(self) -> list[Chart]:
        """Return the charts of all sections."""
        return [chart for charts in self.charts.values() for chart in charts]


def write_page(result: AnalysisResult, folder: Path, *, figures: bool = False) -> Path:
    """Write the page into a folder, and its tables as CSV files.

    Args:
        result: The numbers.
        folder: An existing folder, which also holds ``result.files``.
        figures: Also write each figure as PDF and PNG.

    Returns:
        Path of the page, ``index.html``.
    """
    for tab in _tabs(result, MAP_POINTS):
        for table in (table for tables in tab.tables.values() for table in tables):
            if not table.file:
                (folder / "tables").mkdir(exist_ok=True)
                (folder / "tables" / f"{tab.file(table)}.csv").write_bytes(table.csv())
        for chart in tab.all_charts() if figures else ():
            style.save(chart_files.draw(chart), folder / "figures" / tab.file(chart))
    path = folder / "index.html"
    path.write_text(render(result, figures=figures), encoding="utf-8")
    return path


def render(result: AnalysisResult, *, figures: bool = False) -> str:
    """Return the page as HTML of at most `LARGEST` bytes.

    A page that would be larger has fewer points on its maps and fewer rows behind its sliders.

    Args:
        result: The numbers.
        figures: Link the PDF files of the figures.
    """
    part = 1.0 / len(result.features)
    while len((html := _render(result, part, figures)).encode()) > LARGEST and part > 1e-3:
        part /= 2
    return html


def _render(result: AnalysisResult, part: float, figures: bool) -> str:
    from markupsafe import Markup

    tabs = _tabs(result, max(1, int(part * MAP_POINTS)))
    data = {
        tab.key: {
            "charts": {tab.file(chart): chart.document() for chart in tab.all_charts()},
            "names": tab.result.data.class_names,
            "explorer": _explorer(tab.result, int(part * COSINES)),
        }
        for tab in tabs
    }
    css, script = ("\n".join(map(_file, names)) for names in (STYLES, SCRIPTS))
    # The template puts the script on lines of its own.
    digest = hashlib.sha256(f"\n{script}\n".encode()).digest()
    return _template().render(
        result=result,
        tabs=tabs,
        chosen=tabs[result.chosen],
        css=Markup(css),
        script=Markup(script),
        script_hash=Markup(f"sha256-{base64.b64encode(digest).decode()}"),
        data=_packed(data),
        shown=SHOWN,
        figures=figures,
        glossary=tomllib.loads(_file("glossary.toml")),
    )


def _tabs(result: AnalysisResult, points: int) -> list[Tab]:
    several = len(result.features) > 1
    titles = [_title(result, f) for f in result.features]
    file, tabs = result.files.get("rows", ""), []
    for i, (title, f) in enumerate(zip(titles, result.features, strict=True)):
        pairs, map_ = pairs_table(f), map_chart(f, points)
        tabs.append(
            Tab(
                f"{i + 1}-{file_name(title)}" if several else "",
                title,
                f,
                {
                    "methods": [methods_chart(f)],
                    "classes": class_charts(f),
                    "map": [] if map_ is None else [map_],
                    "theory": theory_charts(f),
                },
                {
                    "methods": [methods_table(f)],
                    "classes": [*([] if pairs is None else [pairs]), classes_table(f)],
                    "rows": row_tables(f, file),
                },
            )
        )
    return tabs


def _title(result: AnalysisResult, feature: FeatureResult) -> str:
    """Return the name of a feature set: of its array, its file, or both."""
    sources = {f.data.source for f in result.features}
    names = {f.data.name for f in result.features}
    source = Path(feature.data.source).name
    if len(sources) == 1:
        return feature.data.name
    return source if len(names) == 1 else f"{source}: {feature.data.name}"


def _explorer(result: FeatureResult, most: int) -> dict[str, Any] | None:
    """Return the numbers of the sliders, at most ``most`` cosines."""
    if (e := result.explorer) is None:
        return None
    rows = min(len(e.row), max(1, most // (e.candidates.shape[1] * len(e.shrinkage))))
    kept = np.linspace(0, len(e.row) - 1, rows).round().astype(int)
    weight = e.weight[kept] / e.weight[kept].sum()
    everyone = e.candidates.shape[1] == len(result.data.class_names)
    data = {
        "dim": e.dim,
        **{name: getattr(e, name) for name in ("shrinkage", "kappa", "resultant", "log_prior")},
        "label": e.label[kept],
        "weight": weight,
        "candidates": None if everyone else e.candidates[kept].ravel(),
        "width": e.candidates.shape[1],
        # In units of 1e-5, which are shorter than fractions.
        "cosine": [np.round(1e5 * c.ravel()).astype(int) for c in e.cosine[:, kept]],
        "shown": e.shown,
        "pair_cosine": e.pair_cosine,
        "start": e.start,
        "metric": result.data.metric,
        "group": result.data.group if result.data.group_names else None,
        "group_names": result.data.group_names,
    }
    return numbers(data)


@cache
def _template() -> Any:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=FunctionLoader(lambda name: _file(f"templates/{name}")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # A number and its percent sign stay on one line.
    environment.filters["unbroken"] = lambda text: text.replace(" %", "\u00a0%")
    return environment.get_template("page.html")


def _file(name: str) -> str:
    return (importlib.resources.files("resultant.report") / name).read_text(encoding="utf-8")


def _packed(value: object) -> str:
    """Return JSON, compressed, as text."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode()
