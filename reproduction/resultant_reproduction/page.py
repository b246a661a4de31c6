"""Tables, figures and claims computed from records and features: on the terminal, or as a page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from resultant._core import files
from resultant._core.files import replacing_folder
from resultant.report import page
from resultant.report.figures import Drawing
from resultant.report.tables import Column, Table
from resultant.training.records import of_record, read_folder
from resultant_reproduction import ARTEFACTS, Artefact, Claim, Evidence, Outcome, Records
from resultant_reproduction.artefacts import claims
from resultant_reproduction.catalog import PLACEHOLDERS, PLAN_HEADINGS, plan_rows, plans_note
from resultant_reproduction.records import folders, read_added
from resultant_reproduction.render import (
    CLAIM_HEADINGS,
    LISTED,
    artefact_rows,
    as_json,
    cell_rows,
    change_rows,
    claim_row,
    external_commands,
    headlines,
    markdown,
    reading_guide,
    verdict_counts,
)
from resultant_reproduction.reproduce import list_artefacts, rich_table
from resultant_reproduction.spec import STATUSES

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

    from resultant_reproduction.options import Reproduce


def write(options: Reproduce) -> None:
    """List, show or write artefacts, computed from all records and stores."""
    from resultant.cli.progress import open_console

    console, what, out = open_console(), options.what, options.out
    names = _names(what)
    if tuple(what) == ("all",):
        page.require_report_folder(out, _figure)
        files.require_writable_folder(options.text.parent, "the folder of --text")
    elif tuple(what) != ("list",):
        files.require_writable_folder(out)
    own = [record for folder in folders(options.results) for record in read_folder(folder)]
    # The state of the plans depends on the records in the folders of the plans only.
    records = Records(own)
    added = read_added(options.records)
    evidence = Evidence(Records([*own, *added]), _stores(options.store))
    if not len(evidence.records):
        console.print(
            f"no records in {options.results}: numbers of trainings are missing", highlight=False
        )
    outcomes = compute(names, evidence, console)
    if tuple(what) == ("list",):
        list_artefacts(console, artefact_rows(ARTEFACTS, outcomes, records), records)
        return
    evaluated = claims(evidence) if set(what) & {"all", "claims"} else []
    unread = [r for r in added if of_record(r) not in evidence.records.asked]
    if unread:
        kinds = dict.fromkeys(f"{r['config']['dataset']} {r['realization']}" for r in unread)
        which = f"{len(unread)} of the {len(added)} records of --records ({', '.join(kinds)})"
        console.print(f"{which} are from trainings that no table or figure reads", highlight=False)
    if tuple(what) == ("all",):
        write_page(out, outcomes, evaluated, evidence, records, console)
        files.write_text(options.text, markdown(ARTEFACTS, outcomes, evaluated, records))
        console.print(f"{options.text}, {out / 'index.html'}", highlight=False)
        return
    for name, outcome in outcomes.items():
        _show(console, ARTEFACTS[name], outcome, out)
    if evaluated:
        rows = [claim_row(claim) for claim in evaluated]
        console.print(rich_table("claims", CLAIM_HEADINGS, rows))


def _names(what: Sequence[str]) -> list[str]:
    """Return the names of the requested artefacts, which may be named by label."""
    if tuple(what) in (("all",), ("list",)):
        return list(ARTEFACTS)
    labels = {artefact.label: name for name, artefact in ARTEFACTS.items()}
    names = []
    for name in what:
        if name != "claims" and labels.get(name, name) not in ARTEFACTS:
            known = f"list, all, claims, run PLAN, {', '.join(ARTEFACTS)}"
            raise ValueError(f"expected one of {known}, got {name!r}")
        names += [] if name == "claims" else [labels.get(name, name)]
    return names


def _stores(arguments: Sequence[str]) -> dict[str, Path]:
    """Parse NAME=PATH of existing stores."""
    stores = {}
    for text in arguments:
        name, mark, path = text.partition("=")
        if not mark:
            raise ValueError(f"expected --store NAME=PATH, got {text!r}")
        if not Path(path).exists():
            raise ValueError(f"expected a feature store, got nothing at {path}")
        stores[name] = Path(path)
    return stores


def compute(names: Sequence[str], evidence: Evidence, console: Console) -> dict[str, Outcome]:
    """Compute artefacts by name, with their titles as progress."""
    outcomes = {}
    with console.status("reading") as status:
        for name in names:
            status.update(ARTEFACTS[name].title)
            outcomes[name] = ARTEFACTS[name].compute(evidence)
    return outcomes


def _figure(name: str) -> bool:
    """Test whether a file may be a figure of `_show`, which the page replaces."""
    return name.endswith((".png", ".pdf")) and any(name.startswith(f"{a}-") for a in ARTEFACTS)


def _show(console: Console, artefact: Artefact, outcome: Outcome, out: Path) -> None:
    """Print one artefact and write its figures."""
    from resultant.report import style

    console.print(f"{artefact.label}: {artefact.title}; {artefact.status(outcome)}")
    for remark in filter(None, (outcome.headline, *outcome.lead)):
        console.print(remark, highlight=False)
    if outcome.cells:
        console.print(rich_table("paper / ours", *cell_rows(outcome.cells)))
    if outcome.changes:
        headings, rows = change_rows(outcome.changes)
        console.print(rich_table("changes", headings, rows))
    for note in outcome.notes:
        console.print(note, highlight=False)
    if style.available():
        for name, draw in outcome.drawings.items():
            for path in style.save(draw(), out / f"{artefact.name}-{name}"):
                console.print(str(path), highlight=False)


@dataclass(frozen=True)
class Whole(Drawing):
    """A figure of several panels."""

    make: Callable[[], Figure]

    def figure(self) -> Figure:
        figure = self.make()
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
        return figure


def _section(artefact: Artefact, outcome: Outcome) -> page.Section:
    tables = []
    if outcome.cells:
        headings, rows = cell_rows(outcome.cells)
        title = "Paper / ours" if any(cell.paper for cell in outcome.cells) else "Ours"
        tables.append(_table("values", title, headings, rows, artefact.label))
    tested = [change for change in outcome.changes if change.differences]
    if tested:
        headings, rows = change_rows(tested)
        tables.append(
            _table("changes", "Changes, paired over seeds", headings, rows, artefact.label)
        )
    drawings = [
        Whole(name, artefact.title, "", artefact.label, draw)
        for name, draw in outcome.drawings.items()
    ]
    first = f"{artefact.title}: {artefact.status(outcome)}."
    text = "\n".join(filter(None, (first, outcome.headline, *outcome.lead, *outcome.notes)))
    return page.Section(artefact.name, artefact.label, text, drawings, tables)


def _external() -> str:
    """Describe the commands for users with external data, one per line."""
    parts = ((f"{what}:", *commands) for what, commands in external_commands(ARTEFACTS))
    return "\n".join([PLACEHOLDERS, *(line.strip() for part in parts for line in part)])


def _table(
    name: str, title: str, headings: Sequence[str], rows: Sequence[Sequence[str]], label: str
) -> Table:
    columns = tuple(Column(heading, str) for heading in headings)
    return Table(name, title, "", label, columns, [tuple(row) for row in rows])


def _plain(rows: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Remove the marks of code."""
    return [tuple(cell.replace("`", "") for cell in row) for row in rows]


def write_page(
    out: Path,
    outcomes: Mapping[str, Outcome],
    evaluated: Sequence[Claim],
    evidence: Evidence,
    records: Records,
    console: Console,
) -> None:
    """Write the page with every figure and table; ``records`` are those of the folders of the
    plans."""
    from resultant._core.versions import versions

    page.require()
    page.require_report_folder(out, _figure)
    environment = versions(_cpu())
    statuses = [ARTEFACTS[n].status(o).partition(" (")[0] for n, o in outcomes.items()]
    stands = ", ".join(f"{s}: {n}" for s in STATUSES if (n := statuses.count(s)))
    rows = [claim_row(claim) for claim in evaluated]
    sections = [
        page.Section("short", "In short", "\n".join(headlines(ARTEFACTS, outcomes))),
        page.Section(
            *("artefacts", "Artefacts", "How far each table and figure is rerun."),
            tables=[
                _table(
                    "artefacts",
                    "Artefacts",
                    LISTED,
                    _plain(artefact_rows(ARTEFACTS, outcomes, records)),
                    "",
                )
            ],
        ),
        page.Section(
            *(
                "claims",
                "Claims",
                f"Sentences of the paper with a number in them.\n{reading_guide()}",
            ),
            tables=[_table("claims", "Claims", CLAIM_HEADINGS, rows, "")],
        ),
        *(_section(ARTEFACTS[name], outcome) for name, outcome in outcomes.items()),
        page.Section(
            *("plans", "Left to run", plans_note(records).replace("`", "")),
            tables=[_table("plans", "Plans", PLAN_HEADINGS, plan_rows(records), "")],
        ),
        page.Section("external", "With data that may not be shipped", _external()),
    ]
    whole = page.Page(
        title="The paper and our numbers",
        facts=[
            ("claims", f"{verdict_counts(evaluated)}."),
            ("tables, figures", f"{stands}."),
            ("records", f"{len(evidence.records)} training runs."),
        ],
        sections=sections,
        footer=", ".join(f"{name} {version}" for name, version in environment.items()) + ".",
        results=as_json(ARTEFACTS, outcomes, evaluated),
        wide=True,
    )
    with console.status("figures"), replacing_folder(out) as folder:
        page.write_page(folder, whole, figure_files=True)


def _cpu() -> Any:
    import torch

    return torch.device("cpu")
