"""A table of a report, for the page and as a CSV file with every digit."""

from __future__ import annotations

import base64
import csv
import io
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from resultant._core.files import replacing
from resultant._core.text import csv_cell
from resultant.report.words import number

# Rows that the page shows; the CSV file has all rows.
SHOWN = 200

# Largest CSV file, in bytes, that is embedded in the page.
EMBEDDED = 64_000


@dataclass(frozen=True)
class Column:
    """A column: its heading, and the format of its values on the page."""

    name: str
    format: Callable[[Any], str] = number


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

    def shown(self) -> list[list[tuple[str, str, bool]]]:
        """Return the first rows as cells: text, sort key, and True for a number."""
        return [
            [_cell(column, value) for column, value in zip(self.columns, row, strict=True)]
            for row in self.rows[:SHOWN]
        ]

    def heads(self) -> list[tuple[Column, bool]]:
        """Return the columns, each with True if it holds numbers."""
        return [
            (column, any(isinstance(row[i], int | float) for row in self.rows))
            for i, column in enumerate(self.columns)
        ]

    def csv(self) -> bytes:
        """Return all rows as CSV with every digit."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([csv_cell(column.name) for column in self.columns])
        rows = [["" if _is_missing(v) else csv_cell(v) for v in row] for row in self.rows]
        writer.writerows(rows)
        return text.getvalue().encode()

    def write(self, path: Path) -> None:
        with replacing(path) as temporary:
            temporary.write_bytes(self.csv())

    def address(self, file: str) -> str:
        """Return the link of the page to the CSV: embedded in the page, or a file if large."""
        content = self.csv()
        if len(content) > EMBEDDED:
            return file
        return f"data:text/csv;charset=utf-8;base64,{base64.b64encode(content).decode()}"


def _is_missing(value: object) -> bool:
    return value is None or (isinstance(value, float) and not math.isfinite(value))


def _cell(column: Column, value: Any) -> tuple[str, str, bool]:
    if _is_missing(value):
        return column.format(None), "", True
    numeric = isinstance(value, int | float)
    return column.format(value), repr(float(value)) if numeric else str(value), numeric
