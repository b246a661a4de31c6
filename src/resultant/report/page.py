"""A report as a folder: ``index.html`` that needs nothing else, figures, tables, results.json."""

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
# All that a report has.
PARTS = {RESULTS, "index.html", "figures", "tables"}
NEEDED = ("jinja2", "matplotlib")

# How much larger than drawn a figure of several panels may be.
ENLARGED = 1.6

# Fonts of the same widths as the one that the figures are laid out with.
FONTS = "'DejaVu Sans', Verdana, Geneva, system-ui, sans-serif"


@dataclass(frozen=True)
class Section:
    """A part of the page: an anchor, a heading, text, figures, tables. A line of the text is a
    paragraph, or an item of a list where it begins with a dash."""

    name: str
    title: str
    text: str
    drawings: Sequence[Drawing] = ()
    tables: Sequence[Table] = ()

    def blocks(self) -> list[tuple[bool, list[str]]]:
        """The lines of the text, those of a list together: whether it is one, and they."""
        by_kind = groupby(self.text.splitlines(), lambda line: line.startswith("- "))
        return [(listed, [line.removeprefix("- ") for line in lines]) for listed, lines in by_kind]


@dataclass(frozen=True)
class Page:
    """All that is said: ``facts`` are heading and text, the first of them the answer. Figures of
    several panels are ``wide``, one a row."""

    title: str
    facts: Sequence[tuple[str, str]]
    sections: Sequence[Section]
    notes: Sequence[str] = ()
    footer: str = ""
    results: Mapping[str, Any] = field(default_factory=dict)
    wide: bool = False


def require() -> None:
    """Raise a ValueError that says what to install where the page cannot be made."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise ValueError(f"expected {' and '.join(missing)}: pip install resultant[report]")


def require_place(out: Path, mine: Callable[[str], bool] = lambda name: False) -> None:
    """Raise unless ``out`` is free, empty, or an earlier report, which may be replaced; files whose
    names are ``mine`` may be so too."""
    require_writable_folder(out, replace=True)
    found = {part.name for part in out.iterdir() if not mine(part.name)} if out.is_dir() else set()
    others = sorted(found - PARTS if RESULTS in found else found)
    if others:
        rule = "expected --out to be new or an earlier report"
        raise ValueError(f"{rule}, got other files: {out / others[0]}")


def write_page(
    folder: Path, page: Page, progress: Callable[[str, float], object] | None = None
) -> None:
    """Write the report into a folder: figures as PDF and PNG, tables as CSV, page and JSON."""
    drawn: dict[tuple[str, str], str] = {}
    total, done = sum(len(s.drawings) for s in page.sections), 0
    enlarged = ENLARGED if page.wide else None
    for section in page.sections:
        for drawing in section.drawings:
            figure = drawing.figure()
            stem = f"{section.name}-{drawing.name}"
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
    (folder / "index.html").write_text(render(page, drawn), encoding="utf-8")


def render(page: Page, drawn: Mapping[tuple[str, str], str]) -> str:
    """The page as HTML; ``drawn`` are the figures by section and name."""
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
        drawn={key: Markup(svg) for key, svg in drawn.items()},
    )


def inline_svg(figure: Figure, prefix: str, enlarged: float | None = None) -> str:
    """A figure as SVG for within a page: black becomes the colour of the text around it, the grid
    a faint one, and its ids are its own. It takes the place there is, at most ``enlarged`` so many
    times."""
    buffer = io.StringIO()
    with style.style():
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    # The size is that of the page; the box keeps the proportions.
    svg = re.sub(r'(<svg\b[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg\b[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    # matplotlib leaves a fill out where it is black, which is what is drawn without one.
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
