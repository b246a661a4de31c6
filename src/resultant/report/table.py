"""A table of a report, for the page and as a CSV file with every digit."""

from __future__ import annotations

import base64
import csv
import io
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from resultant._core.text import csv_cell
from resultant.report.words import number, percent, points

# Rows that the page shows; the CSV file has all rows.
SHOWN = 200

# Bytes of the largest CSV file, and of all, that are embedded in the page.
EMBEDDED, ALL_EMBEDDED = 64_000, 400_000


@dataclass(frozen=True)
class Column:
    """A column.

    Attributes:
        name: Heading.
        format: Format of the values on the page.
        unit: Unit of the values on the page; the CSV file has fractions, and no unit.
        small: No column on the page, but small print below the first cell.
    """

    name: str
    format: Callable[[Any], str] = number
    unit: str = ""
    small: bool = False


def share(name: str) -> Column:
    """Return a column of fractions, in percent on the page."""
    return Column(name, lambda v: percent(v).removesuffix("\u00a0%"), "%")


def change(name: str) -> Column:
    """Return a column of differences of fractions, in points on the page."""
    return Column(name, points, "points")


class Cell(NamedTuple):
    """A cell of the page: its text, the key that sorts it, True for a number, and small print."""

    text: str
    key: str
    numeric: bool
    small: str = ""


@dataclass(frozen=True)
class Table:
    """A table of a report.

    Attributes:
        name: Name for files.
        title: Heading.
        sentence: Caption.
        label: The paper's label of the corresponding table, figure or section.
        columns: Headings and formats.
        rows: Values.
        marked: Classes of the style sheet, by the numbers of the rows that they mark.
    """

    name: str
    title: str
    sentence: str
    label: str
    columns: tuple[Column, ...]
    rows: list[tuple[Any, ...]]
    marked: Mapping[int, str] = field(default_factory=dict)

    def shown(self, most: int = SHOWN) -> list[list[Cell]]:
        """Return the first rows as cells of the columns of `heads`."""
        rows, wide = [], self._wide()
        small = [i for i, column in enumerate(self.columns) if column.small]
        for row in self.rows[:most]:
            cells = [_cell(c, value) for c, value in zip(self.columns, row, strict=True)]
            first, *others = (cells[i] for i in wide)
            print_ = "; ".join(cells[i].text for i in small if cells[i].key)
            rows.append([first._replace(small=print_), *others])
        return rows

    def _wide(self) -> list[int]:
        """Return the columns of the page: neither small nor, from the second on, without values."""
        return [
            i
            for i, column in enumerate(self.columns)
            if not column.small and (not i or any(not _is_missing(row[i]) for row in self.rows))
        ]

    def heads(self) -> list[tuple[Column, bool]]:
        """Return the columns that have a heading, each with True if it holds numbers."""
        return [
            (self.columns[i], any(isinstance(row[i], int | float) for row in self.rows))
            for i in self._wide()
        ]

    def csv(self) -> bytes:
        """Return all rows as CSV with every digit."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([csv_cell(column.name) for column in self.columns])
        rows = [["" if _is_missing(v) else csv_cell(v) for v in row] for row in self.rows]
        writer.writerows(rows)
        return text.getvalue().encode()

    def address(self, file: str, most: int) -> str:
        """Return the link of the page to the CSV: embedded in the page, or a file if it has more
        than ``most`` bytes."""
        content = self.csv()
        if len(content) > most:
            return file
        return f"data:text/csv;charset=utf-8;base64,{base64.b64encode(content).decode()}"


def _is_missing(value: object) -> bool:
    return value is None or (isinstance(value, float) and not math.isfinite(value))


def _cell(column: Column, value: Any) -> Cell:
    if _is_missing(value):
        return Cell(column.format(None), "", True)
    numeric = isinstance(value, int | float)
    return Cell(column.format(value), repr(float(value)) if numeric else str(value), numeric)
