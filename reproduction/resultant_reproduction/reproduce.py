"""``resultant reproduce``: list, show or write tables and figures, or run a plan.

An overview needs no torch and no features, and answers at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from resultant.cli import arguments
from resultant.cli.progress import PlainConsole
from resultant.training.config import RESULTS
from resultant_reproduction.cells.cells import say
from resultant_reproduction.recipes.records import Record, of_record, read_folder
from resultant_reproduction.runs import items as catalog
from resultant_reproduction.runs.items import page_name
from resultant_reproduction.runs.plans import PLANS
from resultant_reproduction.runs.records import (
    Records,
    all_rounds,
    folders,
    read_added,
    round_folder,
)

if TYPE_CHECKING:
    from rich.console import Console

    from resultant_reproduction.options import Reproduce
    from resultant_reproduction.runs.evidence import Evidence


# Options of "run".
OF_RUN = ("seeds", "jobs", "concurrent_jobs", "minutes", "dry_run")


def reproduce(options: Reproduce) -> int:
    """Run the command; return 1 if a plan has incomplete records."""
    if options.what and options.what[0] == "run":
        left = _run(options)
        return int(left > 0 and not options.dry_run)
    misplaced = [name for name in OF_RUN if getattr(options, name)]
    if misplaced:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in misplaced)
        raise ValueError(f"expected {names} after run and a plan, got {' '.join(options.what)}")
    where = options.results
    if where != RESULTS and not where.is_dir():
        got = "a file" if where.exists() else "nothing"
        raise ValueError(f"expected a folder of records at --results, got {got} at {where}")
    if tuple(options.what) == ("list",):
        list_items(PlainConsole(), Records.read(*all_rounds(folders(where))))
    else:
        _show(options)
    return 0


def _show(options: Reproduce) -> None:
    """Write all pages, or print some and write them to --out."""
    from resultant._core.files import require_writable_folder
    from resultant_reproduction.pages import beyond, claims, document
    from resultant_reproduction.pages.compute import ITEMS
    from resultant_reproduction.pages.write import make_page, write_page, write_pages

    console, names = PlainConsole(), _names(options.what)
    write = partial(console.print, highlight=False, soft_wrap=True)
    require_writable_folder(options.out)
    evidence, added = _evidence(options)
    if not len(evidence.records):
        write(f"no records in {options.results}: numbers of trainings are missing")
    if tuple(options.what) == ("all",):
        with console.status("reading") as status:
            write_pages(evidence, options.out, ITEMS, status.update)
            document.write(options.text, options.out, evidence)
        write(str(options.text))
    else:
        for name in names:
            page = make_page(ITEMS[name], evidence)
            write("\n".join([page.text, *map(str, write_page(page, options.out))]))
            if ITEMS[name].entry.final:
                rows = beyond.rows(name, evidence)
                console.print(rich_table("of these records", ("row", "column", "ours"), rows))
    if "claims" in options.what:
        rows = [claim.row() for claim in claims.claims(evidence).values()]
        console.print(rich_table("claims", claims.HEADINGS, rows))
    unread = [r for r in added if of_record(r) not in evidence.records.asked]
    if unread:
        kinds = dict.fromkeys(f"{r['config']['dataset']} {r['realization']}" for r in unread)
        which = f"{len(unread)} of the {len(added)} records of --records ({', '.join(kinds)})"
        write(f"{which} are from trainings that no table or figure reads")


def _evidence(options: Reproduce) -> tuple[Evidence, list[Record]]:
    """Return the evidence of records and stores, and the records of --records."""
    from resultant_reproduction.runs.evidence import Evidence

    places = folders(options.results)
    own = [record for folder in places for record in read_folder(folder)]
    added = read_added(options.records)
    later = (Records.read(*(round_folder(folder, k) for folder in places)) for k in (2, 3))
    return Evidence(Records([*own, *added]), _stores(options.store), *later), added


def _names(what: Sequence[str]) -> list[str]:
    """Return the names of the requested items, which may be named by label or page."""
    entries = catalog.catalog()
    if tuple(what) == ("all",):
        return list(entries)
    known = {word: n for n, e in entries.items() for word in (n, e.label, page_name(e.label))}
    # "table-1" is "table-01".
    known |= {word.replace("-0", "-"): n for word, n in known.items()}
    for name in what:
        if name != "claims" and name not in known:
            rule = "expected list, all, claims, run PLAN, or names that reproduce list shows"
            close = "".join(f"; {match}?" for match in get_close_matches(name, known, 1))
            raise ValueError(f"{rule}, got {name!r}{close}")
    return [known[name] for name in what if name != "claims"]


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


def _run(options: Reproduce) -> int:
    """Run a plan; return the number of jobs without complete records."""
    from resultant_reproduction.runs.run import run_plan

    _, *plans = options.what
    if len(plans) != 1 or plans[0] not in PLANS:
        rule = f"expected run and one plan ({', '.join(PLANS)})"
        raise ValueError(f"{rule}, got {' '.join(options.what)}")
    data = Path("data") if options.dry_run else arguments.data_root(options.data)
    where = data, options.work, options.results, arguments.find_device(options.device)
    return run_plan(plans[0], *where, **{name: getattr(options, name) for name in OF_RUN})


def list_items(console: Console, records: Records) -> None:
    """Print the rows of items, the state of the plans, and the commands for external data."""
    write = partial(console.print, highlight=False, soft_wrap=True)
    if not len(records):
        write("no records: numbers of trainings are missing")
    console.print(rich_table("items", catalog.HEADINGS, catalog.overview(records)))
    console.print(rich_table("plans", catalog.PLAN_HEADINGS, catalog.plan_rows(records)))
    write(say("plans", more=" ".join(map(str, catalog.MORE))).replace("`", ""))
    for title, *commands in catalog.external_commands():
        write("\n  ".join([f"\n{title}:", *commands]))


def rich_table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Any:
    """Return a table for the terminal."""
    from rich.table import Table

    table = Table(*headings, title=title, title_justify="left", show_lines=title == "claims")
    for column in table.columns:
        # A narrow terminal folds cells and loses no digit.
        column.overflow = "fold"
    for row in rows:
        table.add_row(*(cell.replace("`", "") for cell in row))
    return table
