"""A table of a report, for the page and as a CSV file with every digit."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from resultant._core.text import csv_cell
from resultant.report.words import is_missing, number

# Rows that the page shows; the CSV file has all rows.
SHOWN = 100


class Column(NamedTuple):
    """A column: heading, format of its values on the page, and their unit there."""

    name: str
    format: Callable[[Any], str] = number
    unit: str = ""


class Cell(NamedTuple):
    """A cell of the page: its text, the key that sorts it, and True for a number."""

    text: str
    key: str
    numeric: bool


@dataclass(frozen=True)
class Table:
    """A table: the first value of a row is its name, the row ``marked`` is highlighted, and the
    file ``file`` has all rows (by default the CSV file of this table, called ``name``)."""

    name: str
    title: str
    sentence: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    marked: int | None = None
    file: str = ""

    def heads(self) -> dict[int, bool]:
        """Return the columns that have a value, each with True if it holds numbers."""
        kinds: dict[int, bool] = {}
        for i in range(len(self.columns)):
            values = [row[i] for row in self.rows if not is_missing(row[i]) and row[i] != ""]
            if values or not i:
                kinds[i] = any(isinstance(v, int | float) for v in values)
        return kinds

    def shown(self) -> list[list[Cell]]:
        """Return the first rows as cells of the columns of `heads`."""
        heads = self.heads()
        return [[_cell(self.columns[i], row[i]) for i in heads] for row in self.rows[:SHOWN]]

    def csv(self) -> bytes:
        """Return all rows as CSV with every digit."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([csv_cell(column.name) for column in self.columns])
        writer.writerows(["" if is_missing(v) else csv_cell(v) for v in row] for row in self.rows)
        return text.getvalue().encode()


def _cell(column: Column, value: Any) -> Cell:
    if is_missing(value):
        return Cell(column.format(None), "", True)
    numeric = isinstance(value, int | float)
    return Cell(column.format(value), repr(float(value)) if numeric else str(value), numeric)
