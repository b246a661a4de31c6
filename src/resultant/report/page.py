"""A report as a folder: a page that needs no other file, figures, tables and results.json."""

from __future__ import annotations

import base64
import gzip
import hashlib
import importlib.resources
import importlib.util
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from resultant._core.files import require_writable_folder
from resultant.report import chart_files, style
from resultant.report.charts import Chart
from resultant.report.explorer import Side, payload
from resultant.report.glossary import TERMS, link_terms
from resultant.report.paper import printed
from resultant.report.plots import ClassColumns, Plots, javascript
from resultant.report.table import ALL_EMBEDDED, EMBEDDED, SHOWN, Table

if TYPE_CHECKING:
    from jinja2 import Template

RESULTS = "results.json"
# All files and folders of a report.
PARTS = {RESULTS, "index.html", "figures", "tables"}
NEEDED = ("bokeh", "jinja2")
# Bytes of a page.
LARGEST = 5_000_000
# The page alone needs the first script, the figures of Bokeh all of them.
SCRIPTS = ("page.js", "figures.js", "explore.js", "arc.js")
# Entries of a legend by shape.
LINE = '<line x1="1" y1="6" x2="21" y2="6" stroke="{colour}" stroke-width="2" '
SWATCHES = {
    "solid": LINE + "/>",
    "dashed": LINE + 'stroke-dasharray="5 3"/>',
    "dotted": LINE + 'stroke-dasharray="2 3"/>',
    "circle": '<circle cx="11" cy="6" r="4" fill="{colour}"/>',
    "ring": '<circle cx="11" cy="6" r="4" fill="none" stroke="{colour}" stroke-width="1.5"/>',
    "square": '<rect x="7" y="2" width="8" height="8" fill="{colour}"/>',
    "triangle": '<path d="M11 1L16 10H6Z" fill="{colour}"/>',
    "bar": '<rect x="5" y="1" width="12" height="10" fill="{colour}"/>',
}


@dataclass(frozen=True)
class Section:
    """A section of the page.

    Attributes:
        name: Anchor of the section.
        title: Heading.
        text: Each line is a paragraph.
        drawings: Figures.
        tables: Tables.
        open: Show the section unfolded.
        group: Name that sections with the same classes share, and the beginning of the names of
            their files; by default ``name``.
        classes: Numbers of the classes, for figures that show classes.
        sides: Features that the sliders of the group move, in the section that shows the sliders.
        arcs: Show the choice of two classes.
    """

    name: str
    title: str
    text: str
    drawings: Sequence[Chart] = ()
    tables: Sequence[Table] = ()
    open: bool = True
    group: str = ""
    classes: ClassColumns | None = None
    sides: Sequence[Side] = ()
    arcs: bool = False

    @property
    def key(self) -> str:
        return self.group or self.name


@dataclass(frozen=True)
class Page:
    """The contents of a page.

    Attributes:
        title: Heading.
        facts: Summary as pairs of heading and text; the first is the answer.
        sections: Sections with figures and tables.
        notes: Sentences below the summary.
        footer: Last line.
        results: Contents of results.json.
        headline: Sentences that the page opens with instead of the facts, each with a heading.
        warnings: Sentences about problems of the data.
        snippets: Python to copy, each with a heading.
    """

    title: str
    facts: Sequence[tuple[str, str]]
    sections: Sequence[Section]
    notes: Sequence[str] = ()
    footer: str = ""
    results: Mapping[str, Any] = field(default_factory=dict)
    headline: Sequence[tuple[str, str]] = ()
    warnings: Sequence[str] = ()
    snippets: Sequence[tuple[str, str]] = ()

    def linked(self) -> list[Section]:
        """Return the sections to link: those of the first group, and the first of each other."""
        groups = [section.key for section in self.sections]
        first = groups[:1]
        return [s for i, s in enumerate(self.sections) if s.key in first or s.key not in groups[:i]]


def require(figure_files: bool = False) -> None:
    """Raise a ValueError with the command to install libraries that a report lacks."""
    needed = (*NEEDED, "matplotlib") if figure_files else NEEDED
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        raise ValueError(f"expected {' and '.join(missing)}: pip install resultant[report]")


def require_report_folder(out: Path) -> None:
    """Raise a ValueError unless ``out`` can become the folder of a report: a folder that is absent,
    empty, or an earlier report, which will be replaced."""
    require_writable_folder(out, replace=True)
    names = {path.name for path in out.iterdir()} if out.is_dir() else set()
    others = sorted(names - PARTS if RESULTS in names else names)
    if others:
        rule = "expected --out to be new or an earlier report"
        raise ValueError(f"{rule}, got other files: {out / others[0]}")


def write_page(
    folder: Path,
    page: Page,
    progress: Callable[[str, float], object] | None = None,
    *,
    figure_files: bool = False,
) -> None:
    """Write a report into a folder: the page, results.json, and the tables as CSV.

    Args:
        folder: An existing folder.
        page: The contents.
        progress: Called with "figures" and the fraction of them that is written.
        figure_files: Also write each figure as PDF and PNG, and link the PDF from the page.
    """
    files = set()
    total, done = sum(len(s.drawings) for s in page.sections), 0
    for section in page.sections:
        for drawing in section.drawings:
            # Figures that only the page fills have no file.
            if figure_files and not drawing.missing():
                figure = chart_files.draw(drawing)
                style.save(figure, folder / "figures" / f"{section.key}-{drawing.name}")
                files.add((section.name, drawing.name))
            done += 1
            if progress is not None:
                progress("figures", done / total)
        for table in section.tables:
            (folder / "tables").mkdir(exist_ok=True)
            path = folder / "tables" / f"{section.key}-{table.name}.csv"
            path.write_bytes(table.csv())
    # Without an indent, which takes ten times as long.
    text = json.dumps(page.results, allow_nan=False) + "\n"
    (folder / RESULTS).write_text(text, encoding="utf-8")
    (folder / "index.html").write_text(render(page, files), encoding="utf-8")


def render(page: Page, files: Collection[tuple[str, str]] = ()) -> str:
    """Return the page as HTML of at most `LARGEST` bytes.

    A page that would be larger holds the numbers of fewer classes, and fewer rows of its tables.

    Args:
        page: The contents.
        files: Sections and names of the figures that have a PDF file.

    Example:
        >>> "<h1>Gains</h1>" in render(Page("Gains", [], []))
        True
    """
    most = max([len(s.classes.names) for s in page.sections if s.classes is not None], default=1)
    shown = SHOWN
    while len((html := _render(page, files, most, shown)).encode()) > LARGEST and most > 1:
        most, shown = most // 2, max(10, shown // 2)
    return html


def _render(page: Page, files: Collection[tuple[str, str]], most: int, shown: int) -> str:
    from markupsafe import Markup

    tables = sum(len(section.tables) for section in page.sections)
    plots, explorers = Plots(most), {}
    for section in page.sections:
        for drawing in section.drawings:
            plots.add(section.name, section.key, drawing, section.classes)
        if section.sides and section.classes is not None:
            explorers[section.key] = payload(section.sides, section.classes.kept(most))
    css, *scripts = (_template(name) for name in ("page.css", *SCRIPTS))
    js = "\n".join(scripts if len(plots) else scripts[:1])
    bokeh = javascript() if len(plots) else ""
    return page_template().render(
        page=page,
        css=Markup(css),
        js=Markup(js),
        bokeh=Markup(bokeh),
        script_hashes=[script_hash(js), *([script_hash(bokeh)] if bokeh else [])],
        plots=plots,
        data=_packed({**plots.document(), "explorers": explorers}) if len(plots) else "",
        explorers=explorers,
        most=most,
        shown=shown,
        embedded=min(EMBEDDED, ALL_EMBEDDED // max(1, tables)),
        files=files,
        swatch=lambda shape, colour: Markup(SWATCHES[shape].format(colour=colour)),
        glossary=TERMS,
        pictures={term.slug: Markup(term.picture) for term in TERMS},
    )


@cache
def page_template() -> Template:
    """Return the compiled template of a page; call it early where there is time to wait."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FunctionLoader(_template),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    environment.filters["terms"] = lambda text, links=True: Markup(link_terms(text, links=links))
    environment.filters["printed"] = printed
    return environment.get_template("page.html")


def _template(name: str) -> str:
    file = importlib.resources.files("resultant.report") / "templates" / name
    return file.read_text(encoding="utf-8")


def _packed(value: object) -> str:
    """Return JSON, compressed quickly, as text."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), 1, mtime=0)).decode()


def script_hash(script: str) -> str:
    """Return the hash by which the policy of a page allows this script and no other."""
    # The template puts the script on lines of its own.
    digest = hashlib.sha256(f"\n{script}\n".encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
