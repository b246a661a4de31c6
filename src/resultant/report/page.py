"""A report as a folder: a page that needs no other file, figures, tables and results.json."""

from __future__ import annotations

import importlib.resources
import importlib.util
import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from resultant._core.files import require_writable_folder
from resultant.report import style
from resultant.report.figures import Drawing
from resultant.report.tables import SHOWN, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RESULTS = "results.json"
# All files and folders of a report.
PARTS = {RESULTS, "index.html", "figures", "tables"}
NEEDED = ("jinja2", "matplotlib")

# Largest magnification of a figure of several panels.
ENLARGED = 1.6

# Fonts with the widths of DejaVu Sans, for which the figures are laid out.
FONTS = "'DejaVu Sans', Verdana, Geneva, system-ui, sans-serif"


@dataclass(frozen=True)
class Section:
    """A section of the page.

    Attributes:
        name: Anchor of the section, and the beginning of the names of its files.
        title: Heading.
        text: Each line is a paragraph, or an item of a list if it begins with a dash.
        drawings: Figures.
        tables: Tables.
    """

    name: str
    title: str
    text: str
    drawings: Sequence[Drawing] = ()
    tables: Sequence[Table] = ()

    def blocks(self) -> list[tuple[bool, list[str]]]:
        """Group the lines of the text: True with the items of a list, False with paragraphs."""
        by_kind = groupby(self.text.splitlines(), lambda line: line.startswith("- "))
        return [(listed, [line.removeprefix("- ") for line in lines]) for listed, lines in by_kind]


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
        wide: Show one figure per row, for figures of several panels.
    """

    title: str
    facts: Sequence[tuple[str, str]]
    sections: Sequence[Section]
    notes: Sequence[str] = ()
    footer: str = ""
    results: Mapping[str, Any] = field(default_factory=dict)
    wide: bool = False


def require() -> None:
    """Raise a ValueError with the command to install missing libraries."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise ValueError(f"expected {' and '.join(missing)}: pip install resultant[report]")


def require_report_folder(out: Path, own: Callable[[str], bool] = lambda name: False) -> None:
    """Raise a ValueError unless ``out`` can become the folder of a report.

    Args:
        out: A folder that is absent, empty, or an earlier report, which will be replaced.
        own: Returns True for the names of further files that may be replaced.
    """
    require_writable_folder(out, replace=True)
    names = {path.name for path in out.iterdir() if not own(path.name)} if out.is_dir() else set()
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
    drawn: dict[tuple[str, str], str] = {}
    total, done = sum(len(s.drawings) for s in page.sections), 0
    enlarged = ENLARGED if page.wide else None
    for section in page.sections:
        for drawing in section.drawings:
            figure = drawing.figure()
            stem = f"{section.name}-{drawing.name}"
            if figure_files:
                style.save(figure, folder / "figures" / stem)
            drawn[section.name, drawing.name] = inline_svg(figure, stem, enlarged)
            done += 1
            if progress is not None:
                progress("figures", done / total)
        for table in section.tables:
            (folder / "tables").mkdir(exist_ok=True)
            table.write(folder / "tables" / f"{section.name}-{table.name}.csv")
    text = json.dumps(page.results, indent=1, allow_nan=False) + "\n"
    (folder / RESULTS).write_text(text, encoding="utf-8")
    (folder / "index.html").write_text(render(page, drawn, figure_files), encoding="utf-8")


def render(page: Page, drawn: Mapping[tuple[str, str], str], figure_files: bool = False) -> str:
    """Return the page as HTML; ``drawn`` holds the SVG figures by section and name.

    Example:
        >>> "<h1>Gains</h1>" in render(Page("Gains", [], []), {})
        True
    """
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    parts = importlib.resources.files("resultant.report") / "templates"
    css, js, html = (
        (parts / name).read_text(encoding="utf-8") for name in ("page.css", "page.js", "page.html")
    )
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    return environment.from_string(html).render(
        page=page,
        css=Markup(css),
        js=Markup(js),
        shown=SHOWN,
        figure_files=figure_files,
        drawn={key: Markup(svg) for key, svg in drawn.items()},
    )


def inline_svg(figure: Figure, prefix: str, enlarged: float | None = None) -> str:
    """Return a figure as SVG for a page.

    Black becomes the colour of the text, and the grid the grid colour of the page. The ids begin
    with ``prefix``, so that they are unique in the page. The figure fills the width of its
    container, up to ``enlarged`` times its own width.
    """
    buffer = io.StringIO()
    with style.style():
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    # The page sets the size; the box keeps the proportions.
    svg = re.sub(r'(<svg\b[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg\b[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    # matplotlib omits black fills, because black is the default.
    svg = svg.replace("<svg", '<svg fill="currentColor"', 1)
    if enlarged is not None:
        widest = enlarged * 72 * figure.get_figwidth()
        svg = svg.replace("<svg", f'<svg style="max-width: {widest:.0f}px"', 1)
    svg = svg.replace(style.BLACK, "currentColor").replace("#e4e4e4", "var(--grid)")
    svg = re.sub(r"(font: [^;\"]*?px )[^;\"]*", rf"\1{FONTS}", svg)
    own = re.sub(r"[^A-Za-z0-9-]", "-", prefix)
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{own}-\1"', svg)
    svg = re.sub(r'href="#([^"]+)"', rf'href="#{own}-\1"', svg)
    return re.sub(r"url\(#([^)]+)\)", rf"url(#{own}-\1)", svg)
