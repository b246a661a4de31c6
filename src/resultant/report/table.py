"""Tables of a report, for the page and as CSV files with every digit, and numbers as text."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from resultant._core.text import signed
from resultant.analysis.write import write_csv

# Rows that the page shows; the CSV file has all rows.
SHOWN = 100


def is_missing(value: object) -> bool:
    """Return True for None and for numbers that are not finite."""
    return value is None or (isinstance(value, float) and not math.isfinite(value))


def percent(fraction: float | None, digits: int = 1) -> str:
    """Return a fraction in percent."""
    return _text(fraction, lambda v: f"{100 * v:.{digits}f}\u00a0%")


def share(fraction: float | None) -> str:
    """Return a fraction in percent without the sign, for a column with the unit in its heading."""
    return percent(fraction).removesuffix("\u00a0%")


def points(change: float | None) -> str:
    """Return the change of a fraction in percentage points, with its sign."""
    return _text(change, lambda v: signed(100 * v, 2))


def seconds(value: float | None) -> str:
    """Return seconds with two digits or more."""
    return _text(value, lambda v: f"{v:.2g}" if v < 10 else f"{v:.0f}")


def number(value: Any) -> str:
    """Return any value of a table as text."""
    if isinstance(value, int):
        return _text(value, "{:,}".format)
    # With trailing zeros, so that the numbers of a column have one width.
    return str(value) if isinstance(value, str) else _text(value, "{:#.4g}".format)


def settings(values: dict[str, Any]) -> str:
    """Return settings as in a call: beta=0.25, realization='angular'."""
    return ", ".join(
        f"{name}={v:.4g}" if isinstance(v, float) else f"{name}={v!r}" for name, v in values.items()
    )


def _text(value: float | None, form: Callable[[float], str]) -> str:
    return "–" if value is None or is_missing(value) else form(value).replace("-", "−")


class Column(NamedTuple):
    """A column: heading, values, their format on the page, and their unit there."""

    name: str
    values: Sequence[Any]
    format: Callable[[Any], str] = number
    unit: str = ""


@dataclass(frozen=True)
class Table:
    """A table: the first column names the rows, and the row ``marked`` is highlighted."""

    name: str
    title: str
    sentence: str
    columns: Sequence[Column]
    marked: int | None = None
    file: str = ""  # that has all rows; by default the CSV file of this table

    def __len__(self) -> int:
        return len(self.columns[0].values)

    def heads(self) -> list[tuple[Column, bool]]:
        """Return the columns that have a value, each with True if it holds numbers."""
        kinds: list[tuple[Column, bool]] = []
        for column in self.columns:
            values = [v for v in column.values if not is_missing(v) and v != ""]
            if values or not kinds:
                kinds.append((column, any(isinstance(v, int | float) for v in values)))
        return kinds

    def shown(self) -> list[tuple[tuple[str, str, bool], ...]]:
        """Return the first rows: text, sorting key and True for a number, of each of `heads`."""
        columns = [[_cell(c.format, v) for v in c.values[:SHOWN]] for c, _ in self.heads()]
        return list(zip(*columns, strict=True))

    def write(self, path: Path) -> None:
        """Write all rows as CSV with every digit."""
        rows = zip(*(column.values for column in self.columns), strict=True)
        lines = (["" if is_missing(v) else v for v in row] for row in rows)
        write_csv(path, [column.name for column in self.columns], lines)


def _cell(form: Callable[[Any], str], value: Any) -> tuple[str, str, bool]:
    if is_missing(value):
        return form(None), "", True
    numeric = isinstance(value, int | float)
    return form(value), repr(float(value)) if numeric else str(value), numeric
