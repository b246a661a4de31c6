"""``resultant reproduce``: the paper's tables and figures from our records, beside its numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from resultant._core import files
from resultant._core.files import replacing_folder
from resultant.cli import arguments
from resultant.report import page
from resultant.report.figures import Drawing
from resultant.report.tables import Column, Table
from resultant.training.config import RESULTS
from resultant.training.records import of_record, read_folder
from resultant_reproduction import ARTEFACTS, Artefact, Claim, Evidence, Outcome, Records
from resultant_reproduction.artefacts import claims
from resultant_reproduction.catalog import PLACEHOLDERS, PLAN_HEADINGS, plan_rows, plans_note
from resultant_reproduction.options import Reproduce
from resultant_reproduction.plan import PLANS
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
from resultant_reproduction.spec import STATUSES

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console


# Options that say nothing but of a plan.
OF_RUN = ("seeds", "jobs", "concurrent_jobs", "minutes", "dry_run")


def reproduce(options: Reproduce) -> int:
    """List, show or write what is asked for, or run a plan: 1 if something of it is left."""
    if options.what and options.what[0] == "run":
        left = _run(options)
        return int(left > 0 and not options.dry_run)
    given = [name for name in OF_RUN if getattr(options, name)]
    if given:
        named = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        asked = " ".join(options.what)
        raise ValueError(f"expected {named} after run and a plan, got {asked}")
    _write(options)
    return 0


def _run(options: Reproduce) -> int:
    """Run a plan; how many of its jobs remain."""
    from resultant_reproduction.run import run_plan

    _, *plans = options.what
    if len(plans) != 1 or plans[0] not in PLANS:
        rule = f"expected run and one plan ({', '.join(PLANS)})"
        raise ValueError(f"{rule}, got {' '.join(options.what)}")
    data = Path("data") if options.dry_run else arguments.data_root(options.data)
    where = data, options.work, options.results, arguments.find_device(options.device)
    return run_plan(plans[0], *where, **{name: getattr(options, name) for name in OF_RUN})


def _write(options: Reproduce) -> None:
    """List, show or write artefacts."""
    from resultant.cli.progress import open_console

    console, what, out = open_console(), options.what, options.out
    if options.results != RESULTS and not options.results.is_dir():
        got = "a file" if options.results.exists() else "nothing"
        rule = "expected a folder of records at --results"
        raise ValueError(f"{rule}, got {got} at {options.results}")
    names, read = _names(what), folders(options.results)
    if tuple(what) == ("all",):
        page.require_report_folder(out, _figure)
        files.require_writable_folder(options.text.parent, "the place of --text")
    elif tuple(what) != ("list",):
        files.require_writable_folder(out)
    kept = [record for folder in read for record in read_folder(folder)]
    # What plans have left is told by the records that they look at.
    records = Records(kept)
    brought = read_added(options.records)
    evidence = Evidence(Records([*kept, *brought]), _stores(options.store))
    if not len(evidence.records):
        console.print(
            f"no records in {options.results}: cells of trainings are empty", highlight=False
        )
    found = compute(names, evidence, console)
    if tuple(what) == ("list",):
        _list(console, found, records)
        return
    told = claims(evidence) if set(what) & {"all", "claims"} else []
    unread = [r for r in brought if of_record(r) not in evidence.records.asked]
    if unread:
        kinds = dict.fromkeys(f"{r['config']['dataset']} {r['realization']}" for r in unread)
        which = f"{len(unread)} of the {len(brought)} records of --records ({', '.join(kinds)})"
        console.print(f"{which} are of trainings that nothing here asks for", highlight=False)
    if tuple(what) == ("all",):
        write_page(out, found, told, evidence, records, console)
        files.write_text(options.text, markdown(ARTEFACTS, found, told, records))
        console.print(f"{options.text}, {out / 'index.html'}", highlight=False)
        return
    for name, outcome in found.items():
        _show(console, ARTEFACTS[name], outcome, out)
    if told:
        console.print(_rich("claims", CLAIM_HEADINGS, [claim_row(claim) for claim in told]))


def _names(what: Sequence[str]) -> list[str]:
    """The artefacts that are asked for, by name or label."""
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


def _stores(given: Sequence[str]) -> dict[str, Path]:
    """Stores by name, which must be there."""
    found = {}
    for text in given:
        name, mark, path = text.partition("=")
        if not mark:
            raise ValueError(f"expected --store NAME=PATH, got {text!r}")
        if not Path(path).exists():
            raise ValueError(f"expected a feature store, got nothing at {path}")
        found[name] = Path(path)
    return found


def compute(names: Sequence[str], evidence: Evidence, console: Console) -> dict[str, Outcome]:
    """The outcomes of artefacts by name, with a word on each while it is made."""
    found = {}
    with console.status("reading") as status:
        for name in names:
            status.update(ARTEFACTS[name].title)
            found[name] = ARTEFACTS[name].compute(evidence)
    return found


def _list(console: Console, found: Mapping[str, Outcome], records: Records) -> None:
    """What there is, how far it is rerun, and what would add to it."""
    console.print(_rich("artefacts", LISTED, _listed(found, records)))
    console.print(_rich("plans", PLAN_HEADINGS, plan_rows(records)))
    console.print(plans_note(records).replace("`", ""), highlight=False, soft_wrap=True)
    for what, commands in external_commands(ARTEFACTS):
        console.print(f"\n{what}:", highlight=False)
        for command in commands:
            console.print(f"  {command}", highlight=False, soft_wrap=True)


def _listed(found: Mapping[str, Outcome], records: Records) -> list[tuple[str, ...]]:
    """The rows of what there is, as plain text."""
    return [
        tuple(cell.replace("`", "") for cell in row)
        for row in artefact_rows(ARTEFACTS, found, records)
    ]


def _rich(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Any:
    from rich.table import Table as Shown

    shown = Shown(*headings, title=title, title_justify="left", show_lines=title == "claims")
    for column in shown.columns:
        # A narrow terminal folds, and loses no digit.
        column.overflow = "fold"
    for row in rows:
        shown.add_row(*(cell.replace("[", r"\[") for cell in row))
    return shown


def _figure(name: str) -> bool:
    """Whether a file may be one that `_show` wrote, which the page has too."""
    return name.endswith((".png", ".pdf")) and any(name.startswith(f"{a}-") for a in ARTEFACTS)


def _show(console: Console, artefact: Artefact, outcome: Outcome, out: Path) -> None:
    """One artefact on the terminal, its figures as files."""
    from resultant.report import style

    console.print(f"{artefact.label}: {artefact.title}; {artefact.status(outcome)}")
    for remark in filter(None, (outcome.headline, *outcome.lead)):
        console.print(remark, highlight=False)
    if outcome.cells:
        console.print(_rich("paper / ours", *cell_rows(outcome.cells)))
    if outcome.changes:
        headings, rows = change_rows(outcome.changes)
        console.print(_rich("changes", headings, rows))
    for note in outcome.notes:
        console.print(note, highlight=False)
    if style.available():
        for name, draw in outcome.drawings.items():
            for path in style.save(draw(), out / f"{artefact.name}-{name}"):
                console.print(str(path), highlight=False)


@dataclass(frozen=True)
class Whole(Drawing):
    """A figure of several panels, drawn at once."""

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
    """What somebody who has the data would enter, a command a line."""
    parts = ((f"{what}:", *commands) for what, commands in external_commands(ARTEFACTS))
    return "\n".join([PLACEHOLDERS, *(line.strip() for part in parts for line in part)])


def _table(
    name: str, title: str, headings: Sequence[str], rows: Sequence[Sequence[str]], label: str
) -> Table:
    columns = tuple(Column(heading, str) for heading in headings)
    return Table(name, title, "", label, columns, [tuple(row) for row in rows])


def write_page(
    out: Path,
    found: Mapping[str, Outcome],
    told: Sequence[Claim],
    evidence: Evidence,
    records: Records,
    console: Console,
) -> None:
    """The page with every figure and table, which needs nothing else; ``records`` are those of the
    folder that plans add to."""
    from resultant._core.versions import versions

    page.require()
    page.require_report_folder(out, _figure)
    made = versions(_cpu())
    statuses = [ARTEFACTS[n].status(o).partition(" (")[0] for n, o in found.items()]
    stands = ", ".join(f"{s}: {n}" for s in STATUSES if (n := statuses.count(s)))
    rows = [claim_row(claim) for claim in told]
    sections = [
        page.Section("short", "In short", "\n".join(headlines(ARTEFACTS, found))),
        page.Section(
            *("artefacts", "Artefacts", "How far each table and figure is rerun."),
            tables=[_table("artefacts", "Artefacts", LISTED, _listed(found, records), "")],
        ),
        page.Section(
            *(
                "claims",
                "Claims",
                f"Sentences of the paper with a number in them.\n{reading_guide()}",
            ),
            tables=[_table("claims", "Claims", CLAIM_HEADINGS, rows, "")],
        ),
        *(_section(ARTEFACTS[name], outcome) for name, outcome in found.items()),
        page.Section(
            *("plans", "Left to run", plans_note(records).replace("`", "")),
            tables=[_table("plans", "Plans", PLAN_HEADINGS, plan_rows(records), "")],
        ),
        page.Section("external", "With data that may not be shipped", _external()),
    ]
    whole = page.Page(
        title="The paper beside our numbers",
        facts=[
            ("claims", f"{verdict_counts(told)}."),
            ("tables, figures", f"{stands}."),
            ("records", f"{len(evidence.records)} training runs."),
        ],
        sections=sections,
        footer=", ".join(f"{name} {version}" for name, version in made.items()) + ".",
        results=as_json(ARTEFACTS, found, told),
        wide=True,
    )
    with console.status("figures"), replacing_folder(out) as folder:
        page.write_page(folder, whole)


def _cpu() -> Any:
    import torch

    return torch.device("cpu")
