"""One page per table and figure: Markdown and, beside it, the figure as SVG.

The name of a page is the number in the paper, such as ``table-01``. `page_name` needs no torch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from resultant._core import files
from resultant.training.config import CIFAR
from resultant_reproduction.catalog import PLACEHOLDERS, Entry, catalog
from resultant_reproduction.formats import p_text
from resultant_reproduction.plan import PLANS, SECOND_ROUND, workload
from resultant_reproduction.records import packaged_folder
from resultant_reproduction.spec import Cell, Change, Outcome, load
from resultant_reproduction.templating import markdown_table, render

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from resultant_reproduction.artefacts import Artefact
    from resultant_reproduction.evidence import Evidence

Rows = list[tuple[str, ...]]

CHANGE_HEADINGS = ("", "change", "paper", "ours", "95 % interval", "seeds", "p", "verdict")


class Page(NamedTuple):
    """A page, and its figure as SVG where it has one."""

    name: str
    text: str
    svg: str | None


def page_name(label: str) -> str:
    """Return the name of a page, such as ``table-01`` or ``beyond-baseline``."""
    kind, _, name = label.partition(":")
    if kind == "beyond":
        return f"beyond-{name}"
    return re.sub(r"(\d+)", lambda m: f"{int(m[0]):02}", _number(label).lower().replace(" ", "-"))


def _number(label: str) -> str:
    return load("printed/paper")[label]["number"]


def page_title(entry: Entry) -> str:
    """Return the title of a page."""
    beyond = entry.label.startswith("beyond")
    return f"{'Beyond the paper' if beyond else _number(entry.label)}: {entry.title}"


@cache
def _labels() -> re.Pattern[str]:
    known = [*load("printed/paper"), *(entry.label for entry in catalog().values())]
    return re.compile("|".join(re.escape(label) for label in sorted(known, key=len, reverse=True)))


def link_labels(text: str) -> str:
    """Replace labels of the paper by numbers, with a link where there is a page."""
    pages = {entry.label for entry in catalog().values()}

    def link(match: re.Match[str]) -> str:
        label = match[0]
        beyond = label.startswith("beyond")
        number = label.partition(":")[2].replace("-", " ") if beyond else _number(label)
        return f"[{number}]({page_name(label)}.md)" if label in pages else number

    return _labels().sub(link, text)


def cell_table(cells: Sequence[Cell]) -> str:
    """Table of cells; empty without any."""
    columns = list(dict.fromkeys(cell.column for cell in cells))
    by_row: dict[str, dict[str, str]] = {}
    for cell in cells:
        by_row.setdefault(cell.row, {})[cell.column] = cell.content()
    rows = [(row, *(own.get(c, "") for c in columns)) for row, own in by_row.items()]
    return markdown_table(rows, ("", *columns)) if rows else ""


def change_table(changes: Sequence[Change]) -> str:
    """Table of tested changes, without empty columns."""
    rows = []
    for change in changes:
        ours, i = change.ours, change.interval
        rows.append(
            (
                *(change.row, change.what),
                "–" if change.paper is None else f"{change.paper:+.2f}",
                "–" if ours is None else ours.text(2, sign=True),
                "–" if i is None or i.low is None else f"{i.low:+.2f} to {i.high:+.2f}",
                "0" if ours is None else str(ours.n),
                p_text(change.p_value),
                change.verdict,
            )
        )
    kept = [i for i, own in enumerate(zip(*rows, strict=True)) if {*own} != {"–"}]
    return markdown_table(
        [[row[i] for i in kept] for row in rows], [CHANGE_HEADINGS[i] for i in kept]
    )


def distinct(values: Iterable[object], form: str) -> str:
    """List different texts of values, in a form such as ``{0.prior:g}``."""
    return ", ".join(dict.fromkeys(form.format(value) for value in values))


def _records(plan: str) -> str:
    """Link the records of a plan, where there are any."""
    path = f"second-round/{plan}.jsonl" if plan in SECOND_ROUND else f"{plan}.jsonl"
    folder = packaged_folder("results")
    known = folder is None or (folder / path).is_file()
    return f"[{plan}.jsonl](../results/{path})" if known else "none yet"


def default_drawing(outcome: Outcome) -> Callable[[], Figure] | None:
    """Return the function that draws an outcome; None for settings and texts."""
    from resultant_reproduction.figures import comparison, draw_changes

    cells = [cell for cell in outcome.cells if cell.paper is not None]
    if outcome.draw is not None:
        return outcome.draw
    # Settings are neither trained nor external as a whole.
    if any(c.planned for c in cells) or (cells and all(c.external for c in cells)):
        return lambda: comparison(cells)
    if outcome.changes:
        rows = [Change(f"{c.row}: {c.what}", "", c.paper, c.by_seed) for c in outcome.changes]
        return lambda: draw_changes(rows, "change, percentage points")
    return None


def make_page(artefact: Artefact, evidence: Evidence) -> Page:
    """Compute and write out one table or figure."""
    entry, name = artefact.entry, page_name(artefact.entry.label)
    if entry.final:
        from resultant_reproduction.beyond import kept

        return Page(name, *(kept(entry.name, suffix) for suffix in (".md", ".svg")))
    outcome = artefact.compute(evidence)
    drawing = default_drawing(outcome)
    tested = [change for change in outcome.changes if change.differences]
    printed = any(cell.paper for cell in outcome.cells)
    text = render(
        "page.md",
        entry=entry,
        page=name,
        title=page_title(entry),
        status=artefact.status(outcome),
        outcome=outcome,
        picture=drawing is not None,
        printed=printed,
        alone=printed and not any(cell.ours for cell in outcome.cells),
        cells=cell_table(outcome.cells),
        in_text=cell_table(outcome.in_text),
        changes=change_table(tested) if tested else "",
        checks=[
            (f"`{c.name}`", c.claim, c.paper, c.ours, c.verdict, c.details.get("rule", ""))
            for c in map(evidence.check, entry.checks)
        ],
        recipes=[(PLANS[plan], PLANS[plan].jobs(), _records(plan)) for plan in entry.plans],
        cifar=CIFAR,
        distinct=distinct,
        workload=workload,
        placeholders=PLACEHOLDERS,
    )
    picture = None
    if drawing is not None:
        from resultant_reproduction.figures import svg

        picture = svg(drawing())
    return Page(name, link_labels(text).strip() + "\n", picture)


def contents(statuses: Mapping[str, str]) -> str:
    """Return the index of the pages, from the status of each artefact by name."""
    kinds: dict[str, Rows] = {"Tables": [], "Figures": [], "Beyond the paper": []}
    for name, status in statuses.items():
        entry = catalog()[name]
        page = page_name(entry.label)
        kind = {"t": "Tables", "f": "Figures"}.get(entry.label[0], "Beyond the paper")
        title = entry.title if kind == "Beyond the paper" else page_title(entry)
        kinds[kind].append((page, f"[{title}]({page}.md)", status))
    tables = {kind: [row[1:] for row in sorted(rows)] for kind, rows in kinds.items() if rows}
    return render("contents.md", tables=tables)


def write_pages(
    evidence: Evidence,
    folder: Path,
    artefacts: Mapping[str, Artefact],
    report: Callable[[str], object] = lambda title: None,
) -> None:
    """Write the pages of artefacts and the index; ``report`` gets the title of each in turn."""
    statuses = {}
    for name, artefact in artefacts.items():
        report(artefact.entry.title)
        outcome = artefact.compute(evidence)
        page = make_page(replace(artefact, compute=lambda _, o=outcome: o), evidence)
        write_page(page, folder)
        statuses[name] = artefact.status(outcome)
    files.write_text(folder / "README.md", contents(statuses))


def write_page(page: Page, folder: Path) -> list[Path]:
    """Write a page and its figure; return the paths."""
    parts = {".md": page.text} | ({} if page.svg is None else {".svg": page.svg})
    paths = [folder / f"{page.name}{suffix}" for suffix in parts]
    for path, text in zip(paths, parts.values(), strict=True):
        files.write_text(path, text)
    return paths
