"""``resultant reproduce``: list, show or write tables and figures, or run a plan.

An overview needs no torch and no features, and answers at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from resultant.cli import arguments
from resultant.cli.progress import open_console
from resultant.training.config import RESULTS
from resultant_reproduction import catalog
from resultant_reproduction.plan import PLANS
from resultant_reproduction.records import Records, folders

if TYPE_CHECKING:
    from rich.console import Console

    from resultant_reproduction.options import Reproduce


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
    require_results(options)
    if tuple(options.what) == ("list",) and not (options.store or options.records):
        records = Records.read(*folders(options.results))
        list_artefacts(open_console(), catalog.overview(records), records)
        return 0
    from resultant_reproduction import page

    page.write(options)
    return 0


def _run(options: Reproduce) -> int:
    """Run a plan; return the number of jobs without complete records."""
    from resultant_reproduction.run import run_plan

    _, *plans = options.what
    if len(plans) != 1 or plans[0] not in PLANS:
        rule = f"expected run and one plan ({', '.join(PLANS)})"
        raise ValueError(f"{rule}, got {' '.join(options.what)}")
    data = Path("data") if options.dry_run else arguments.data_root(options.data)
    where = data, options.work, options.results, arguments.find_device(options.device)
    return run_plan(plans[0], *where, **{name: getattr(options, name) for name in OF_RUN})


def require_results(options: Reproduce) -> None:
    """Raise unless --results is a folder or the default."""
    if options.results != RESULTS and not options.results.is_dir():
        got = "a file" if options.results.exists() else "nothing"
        rule = "expected a folder of records at --results"
        raise ValueError(f"{rule}, got {got} at {options.results}")


def list_artefacts(console: Console, artefacts: Sequence[Sequence[str]], records: Records) -> None:
    """Print the rows of artefacts, the state of the plans, and the commands for external data."""
    if not len(records):
        console.print("no records: numbers of trainings are missing", highlight=False)
    console.print(rich_table("artefacts", catalog.HEADINGS, artefacts))
    console.print(rich_table("plans", catalog.PLAN_HEADINGS, catalog.plan_rows(records)))
    note = catalog.plans_note(records).replace("`", "")
    console.print(note, highlight=False, soft_wrap=True)
    for title, *commands in catalog.external_commands():
        console.print(f"\n{title}:", highlight=False)
        for command in commands:
            console.print(f"  {command}", highlight=False, soft_wrap=True)


def rich_table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Any:
    """Return a table for the terminal."""
    from rich.table import Table

    table = Table(*headings, title=title, title_justify="left", show_lines=title == "claims")
    for column in table.columns:
        # A narrow terminal folds cells and loses no digit.
        column.overflow = "fold"
    for row in rows:
        table.add_row(*(cell.replace("[", r"\[").replace("`", "") for cell in row))
    return table
