"""``resultant reproduce``: the paper's tables and figures from our records, beside its numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro

from resultant import checkpoint
from resultant.paper import ARTEFACTS, Artefact, Claim, Evidence, Outcome, Records, claims
from resultant.paper.brought import read_brought
from resultant.paper.inputs import digest
from resultant.paper.plan import PLANS, estimate, measured, missing
from resultant.paper.records import read_lines
from resultant.paper.words import (
    HEADINGS,
    as_json,
    claim_row,
    foreign_commands,
    grid,
    listing,
    markdown,
    said_change,
)
from resultant.report import page
from resultant.report.drawings import Drawing
from resultant.report.tables import Column, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

# Figures here have several panels: one a row, not larger than can be read.
WIDE = """.figures { grid-template-columns: 1fr; }
figure svg { margin-inline: auto; }
td { white-space: normal; }
"""
ENLARGED = 1.6


def reproduce(
    what: tyro.conf.Positional[tuple[str, ...]] = ("all",),
    results: Path = Path("results"),
    out: Path = Path("out/reproduce"),
    text: Path = Path("REPRODUCTION.md"),
    store: tuple[str, ...] = (),
    records: tuple[Path, ...] = (),
    data: Path | None = None,
    work: Path = Path("out/plans"),
    device: str = "auto",
    seeds: tuple[int, ...] = (),
    jobs: tuple[str, ...] = (),
    minutes: float | None = None,
    dry_run: bool = False,
) -> None:
    """The paper's tables, figures and claims beside our numbers.

    ``list`` says which there are and how far they are rerun, a name such as ``joint-fc`` or
    ``claims`` shows one, ``all`` writes REPRODUCTION.md and a page with every figure. ``run PLAN``
    trains what a plan has no records of yet.

    Args:
        what: list, all, claims, names of artefacts, or run and the name of a plan.
        results: folder of records, one JSON line a run.
        out: folder for the page and the figures.
        text: where ``all`` writes the whole as Markdown.
        store: feature stores of data that are not shipped, as NAME=FILE.
        records: records.jsonl of trainings on such data, and what probe --out wrote of them.
        data: folder of CIFAR for ``run``; default $RESULTANT_DATA, else ./data.
        work: folder for the networks and checkpoints of ``run``.
        device: of ``run``: auto, cpu, cuda or cuda:N.
        seeds: of ``run``, if not those of the plan.
        jobs: of ``run``, if not all of the plan.
        minutes: of ``run``: stop at a checkpoint after so long; the same command goes on from it.
        dry_run: of ``run``: say what there is to do and how long it takes.
    """
    from resultant.commands import data_root, find_device, terminal

    console = terminal()
    if what and what[0] == "run":
        from resultant.paper.run import run_plan

        if len(what) != 2:
            known = ", ".join(PLANS)
            raise ValueError(f"expected run and one plan ({known}), got {' '.join(what)}")
        options: dict[str, Any] = {"seeds": seeds or None, "only": jobs, "minutes": minutes}
        root = Path("data") if dry_run else data_root(data)
        run_plan(what[1], root, work, results, find_device(device), dry_run=dry_run, **options)
        return
    names = _names(what)
    every = [*Records.read(results), *read_brought(records)]
    evidence = Evidence(Records(every), _stores(store))
    if not len(evidence.records):
        console.print(f"no records in {results}: cells of trainings are empty", highlight=False)
    found = compute(names, evidence, console)
    if tuple(what) == ("list",):
        _list(console, found, results)
        return
    told = claims(evidence) if set(what) & {"all", "claims"} else []
    if tuple(what) == ("all",):
        write_page(out, found, told, evidence, console)
        made_from = digest(results, [*evidence.stores.values(), *records])
        made = markdown(ARTEFACTS, found, told, len(evidence.records), made_from)
        checkpoint.write_text(text, made)
        console.print(f"{text}, {out / 'index.html'}", highlight=False)
        return
    for name, outcome in found.items():
        _show(console, ARTEFACTS[name], outcome, out)
    if told:
        console.print(_rich("claims", HEADINGS, [claim_row(claim) for claim in told]))


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
            raise ValueError(f"expected --store NAME=FILE, got {text!r}")
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


def _list(console: Console, found: Mapping[str, Outcome], results: Path) -> None:
    """What there is, how far it is rerun, and what would add to it."""
    headings = ("name", "label", "status", "what would add to it")
    rows = [tuple(cell.replace("`", "") for cell in row) for row in listing(ARTEFACTS, found)]
    console.print(_rich("artefacts", headings, rows))
    us_a_view = measured(Records.read(results))
    for plan in PLANS.values():
        jobs = plan.jobs()
        left = missing(jobs, Records(read_lines(results / f"{plan.name}.jsonl")))
        cost = f"{len(jobs)} jobs done"
        if left:
            cost = f"{len(jobs) - len(left)} jobs done, left: {estimate(left, us_a_view)}"
        console.print(f"plan {plan.name} ({plan.title}): {cost}", highlight=False, soft_wrap=True)
    for what, commands in foreign_commands(ARTEFACTS):
        console.print(f"\n{what}:", highlight=False)
        for command in commands:
            console.print(f"  {command}", highlight=False, soft_wrap=True)


def _rich(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Any:
    from rich.table import Table as Shown

    shown = Shown(*headings, title=title, title_justify="left", show_lines=title == "claims")
    for row in rows:
        shown.add_row(*(cell.replace("[", r"\[") for cell in row))
    return shown


def _show(console: Console, artefact: Artefact, outcome: Outcome, out: Path) -> None:
    """One artefact on the terminal, its figures as files."""
    from resultant import figures

    console.print(f"{artefact.label}: {artefact.title}; {artefact.status(outcome)}")
    if outcome.cells:
        console.print(_rich("paper / ours", *grid(outcome.cells)))
    if outcome.changes:
        headings, rows = said_change(outcome.changes)
        console.print(_rich("changes", headings, rows))
    for note in outcome.notes:
        console.print(note, highlight=False)
    if figures.available():
        for name, draw in outcome.drawings.items():
            for path in figures.save(draw(), out / f"{artefact.name}-{name}"):
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


def _nothing(ax: object) -> None:
    """What a drawing of one panel would do."""


def _section(artefact: Artefact, outcome: Outcome) -> page.Section:
    tables = []
    if outcome.cells:
        headings, rows = grid(outcome.cells)
        title = "Paper / ours" if any(cell.paper for cell in outcome.cells) else "Ours"
        tables.append(_table("values", title, headings, rows, artefact.label))
    if outcome.changes:
        headings, rows = said_change(outcome.changes)
        tables.append(
            _table("changes", "Changes, paired over seeds", headings, rows, artefact.label)
        )
    drawings = [
        Whole(name, artefact.title, "", artefact.label, _nothing, draw)
        for name, draw in outcome.drawings.items()
    ]
    text = "\n".join((f"{artefact.status(outcome)}.", *outcome.notes))
    return page.Section(artefact.name, artefact.label, text, drawings, tables)


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
    console: Console,
) -> None:
    """The page with every figure and table, which needs nothing else."""
    from resultant.evaluation import versions

    page.require()
    page.require_place(out)
    made = versions(_cpu())
    verdicts = [claim.verdict for claim in told]
    counts = ", ".join(f"{v} {verdicts.count(v)}" for v in dict.fromkeys(verdicts))
    statuses = [ARTEFACTS[n].status(o).partition(" (")[0] for n, o in found.items()]
    stands = ", ".join(f"{s} {statuses.count(s)}" for s in dict.fromkeys(statuses))
    rows = [claim_row(claim) for claim in told]
    sections = [
        page.Section(
            *("claims", "Claims", "Sentences of the paper with a number in them."),
            tables=[_table("claims", "Claims", HEADINGS, rows, "")],
        ),
        *(_section(ARTEFACTS[name], outcome) for name, outcome in found.items()),
    ]
    whole = page.Page(
        title="The paper beside our numbers",
        facts=[
            ("claims", f"{counts}."),
            ("tables, figures", f"{stands}."),
            ("records", f"{len(evidence.records)} training runs."),
        ],
        sections=sections,
        footer=", ".join(f"{name} {version}" for name, version in made.items()) + ".",
        results=as_json(ARTEFACTS, found, told),
    )
    with console.status("figures"), page.whole_folder(out) as folder:
        page.write_page(folder, whole)
        index = folder / "index.html"
        index.write_text(_widened(index.read_text(encoding="utf-8")), encoding="utf-8")


def _widened(html: str) -> str:
    """The page with one figure a row, each at most so much larger than it was drawn."""

    def limited(match: re.Match[str]) -> str:
        return f'{match[0]} style="max-width: {ENLARGED * float(match[1]):.0f}px"'

    html = re.sub(r'<svg\b[^>]*viewBox="0 0 ([0-9.]+) [0-9.]+"', limited, html)
    return html.replace("</style>", f"{WIDE}</style>", 1)


def _cpu() -> Any:
    import torch

    return torch.device("cpu")
