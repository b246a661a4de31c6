"""``resultant reproduce``: list, show or write tables and figures, or run a plan.

An overview needs no torch and no features, and answers at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from resultant.training.config import RESULTS
from resultant_reproduction import catalog
from resultant_reproduction.records import Records, folders

if TYPE_CHECKING:
    from resultant_reproduction.options import Reproduce


def reproduce(options: Reproduce) -> int:
    """Run the command; return 1 if a plan has incomplete records."""
    if tuple(options.what) == ("list",) and not (options.store or options.records):
        require_results(options)
        list_artefacts(Records.read(*folders(options.results)))
        return 0
    from resultant_reproduction import cli

    return cli.reproduce(options)


def require_results(options: Reproduce) -> None:
    """Raise unless --results is a folder or the default."""
    if options.results != RESULTS and not options.results.is_dir():
        got = "a file" if options.results.exists() else "nothing"
        rule = "expected a folder of records at --results"
        raise ValueError(f"{rule}, got {got} at {options.results}")


def list_artefacts(records: Records) -> None:
    """Print the overview of artefacts and plans, and the commands for external data."""
    from resultant.cli.progress import open_console

    console = open_console()
    if not len(records):
        console.print("no records: numbers of trainings are missing", highlight=False)
    console.print(rich_table("artefacts", catalog.HEADINGS, catalog.overview(records)))
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
        table.add_row(*(cell.replace("[", r"\[") for cell in row))
    return table
