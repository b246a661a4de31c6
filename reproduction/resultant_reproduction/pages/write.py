"""One page per table and figure: Markdown and, beside it, the figure as SVG.

The name of a page is the number in the paper, such as ``table-01``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from resultant._core import files
from resultant_reproduction.cells.cells import Cell, Change, Outcome, load, say
from resultant_reproduction.cells.statistics import Value
from resultant_reproduction.cells.text import markdown_table, p_text, render
from resultant_reproduction.recipes.config import CIFAR
from resultant_reproduction.runs.items import catalog, page_name, paper_number
from resultant_reproduction.runs.plans import PLANS, ROUND, workload
from resultant_reproduction.runs.records import packaged_folder, round_folder

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from resultant_reproduction.pages.compute import Item
    from resultant_reproduction.runs.evidence import Evidence

Rows = list[tuple[str, ...]]

CHANGE_HEADINGS = ("", "change", "paper", "ours", "95 % interval", "seeds", "p", "verdict")


class Page(NamedTuple):
    """A page, and its figure as SVG where it has one."""

    name: str
    text: str
    svg: str | None


def link_labels(text: str) -> str:
    """Replace labels of the paper by numbers, with a link where there is a page."""
    pages = {entry.label for entry in catalog().values()}

    def link(match: re.Match[str]) -> str:
        label = match[0]
        beyond = label.startswith("beyond")
        number = label.partition(":")[2].replace("-", " ") if beyond else paper_number(label)
        return f"[{number}]({page_name(label)}.md)" if label in pages else number

    known = sorted({*load("printed/paper"), *pages}, key=len, reverse=True)
    return re.sub("|".join(map(re.escape, known)), link, text)


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
        ours, i = Value.over(change.differences), change.interval
        rows.append(
            (
                *(change.row, change.what),
                "–" if change.paper is None else f"{change.paper:+.2f}",
                ours.text(2, sign=True),
                "–" if i is None or i.low is None else f"{i.low:+.2f} to {i.high:+.2f}",
                *(str(ours.n), p_text(i.p if i else None), change.verdict),
            )
        )
    kept = [i for i, own in enumerate(zip(*rows, strict=True)) if {*own} != {"–"}]
    headings, *texts = ([row[i] for i in kept] for row in (CHANGE_HEADINGS, *rows))
    return markdown_table(texts, headings)


def _records(plan: str) -> str:
    """Link the records of a plan, where there are any."""
    path = round_folder(Path(), ROUND[plan]) / f"{plan}.jsonl"
    folder = packaged_folder("results")
    known = folder is None or (folder / path).is_file()
    return f"[{plan}.jsonl](../results/{path})" if known else "none yet"


def draw(outcome: Outcome) -> Figure | None:
    """Draw an outcome; None for settings and texts."""
    from resultant_reproduction.cells.charts import comparison, draw_changes

    cells = [cell for cell in outcome.cells if cell.paper is not None]
    if outcome.draw is not None:
        return outcome.draw()
    # Settings are neither trained nor external as a whole.
    if any(c.planned for c in cells) or (cells and all(c.external for c in cells)):
        return comparison(cells)
    rows = [Change(f"{c.row}: {c.what}", "", c.paper, c.by_seed) for c in outcome.changes]
    return draw_changes(rows, "change, percentage points") if rows else None


def make_page(item: Item, evidence: Evidence, outcome: Outcome | None = None) -> Page:
    """Write out one table or figure, computed unless its outcome is given."""
    entry, name = item.entry, page_name(item.entry.label)
    if entry.final:
        from resultant_reproduction.pages.beyond import kept

        return Page(name, *(kept(entry.name, suffix) for suffix in (".md", ".svg")))
    from resultant_reproduction.cells.charts import svg

    outcome = outcome or item.compute(evidence)
    figure = draw(outcome)
    tested = [change for change in outcome.changes if change.differences]
    printed = any(cell.paper for cell in outcome.cells)
    text = render(
        "page.md",
        entry=entry,
        page=name,
        title=f"{paper_number(entry.label)}: {entry.title}",
        status=item.status(outcome),
        outcome=outcome,
        picture=figure is not None,
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
        distinct=lambda own, form: ", ".join(dict.fromkeys(map(form.format, own))),
        workload=workload,
        placeholders=say("placeholders"),
    )
    return Page(name, link_labels(text).strip() + "\n", None if figure is None else svg(figure))


def contents(statuses: Mapping[str, str]) -> str:
    """Return the index of the pages, from the status of each item by name."""
    kinds: dict[str, Rows] = {"Tables": [], "Figures": [], "Beyond the paper": []}
    for name, status in statuses.items():
        entry = catalog()[name]
        page = page_name(entry.label)
        kind = {"t": "Tables", "f": "Figures"}.get(entry.label[0], "Beyond the paper")
        number = "" if kind == "Beyond the paper" else f"{paper_number(entry.label)}: "
        kinds[kind].append((page, f"[{number}{entry.title}]({page}.md)", status))
    tables = {kind: [row[1:] for row in sorted(rows)] for kind, rows in kinds.items() if rows}
    return render("contents.md", tables=tables)


def write_pages(
    evidence: Evidence,
    folder: Path,
    items: Mapping[str, Item],
    report: Callable[[str], object] = lambda title: None,
) -> None:
    """Write the pages of items and the index; ``report`` gets the title of each in turn."""
    statuses = {}
    for name, item in items.items():
        report(item.entry.title)
        outcome = item.compute(evidence)
        write_page(make_page(item, evidence, outcome), folder)
        statuses[name] = item.status(outcome)
    files.write_text(folder / "README.md", contents(statuses))


def write_page(page: Page, folder: Path) -> list[Path]:
    """Write a page and its figure; return the paths."""
    parts = {folder / f"{page.name}.md": page.text, folder / f"{page.name}.svg": page.svg}
    written = {path: text for path, text in parts.items() if text is not None}
    for path, text in written.items():
        files.write_text(path, text)
    return [*written]
