"""Tables, figures and claims: the printed values and the types that compare them with ours.

Printed values are data in ``printed/*.toml``. Means are over seeds, standard deviations those of a
sample.
"""

from __future__ import annotations

import importlib.resources
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from resultant_reproduction.cells.statistics import Estimate, Value, judge_effect, over_settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@cache
def load(name: str) -> dict[str, Any]:
    """Read NAME.toml of this package, such as ``printed/tables`` or ``runs/plans``."""
    path = importlib.resources.files("resultant_reproduction") / f"{name}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


def say(name: str, **values: object) -> str:
    """Fill in a sentence of ``cells/sentences.toml``."""
    return load("cells/sentences")[name].format(**values)


def printed_rows(name: str) -> list[list[str]]:
    """Look up the cells of a printed table."""
    return load("printed/tables")[name]["rows"]


class Printed(NamedTuple):
    """A number as the paper prints it."""

    value: Value
    digits: int
    text: str

    @property
    def signed(self) -> bool:
        return self.text[0] in "+-"


def parse_cell(text: str) -> Printed | None:
    """Parse a printed cell such as ``86.28 ± 0.09`` or ``9,763 / 10,000``; None for ``--``."""
    if text == "--":
        return None
    mean, _, sd = text.partition("±")
    number = mean.partition("/")[0].strip().replace(",", "")
    digits = len(re.sub(r"^[^.]*\.?", "", number))
    value = Value(float(number), float(sd) if sd else None, 0)
    return Printed(value, digits, text.replace(" / ", " of "))


@dataclass(frozen=True)
class Cell:
    """One number of a table, printed and ours, None where there is none. ``external`` needs data
    that may not be shipped, ``text`` is shown if nothing is printed, ``planned`` counts seeds."""

    row: str
    column: str
    paper: Printed | None
    ours: Value | None = None
    external: bool = False
    text: str = "–"
    planned: int = 0

    @property
    def partial(self) -> bool:
        """True if records have fewer seeds than planned."""
        return self.ours is not None and self.ours.n < self.planned

    @property
    def difference(self) -> float | None:
        """Ours less the printed number."""
        if self.paper is None or self.ours is None:
            return None
        return self.ours.mean - self.paper.value.mean

    def content(self) -> str:
        """Format as *paper / ours* [seeds]."""
        if self.paper is None:
            return self.text
        if self.ours is None:
            return f"{self.paper.text} / {'not shipped' if self.external else 'no record'}"
        digits = self.paper.digits
        if not digits and (self.ours.n > 1 or not self.ours.mean.is_integer()):
            digits = 1
        ours = self.ours.text(digits, self.paper.signed)
        seeds = self.ours.counted(self.planned) if self.ours.n > 1 or self.planned else ""
        return f"{self.paper.text} / {ours}{seeds}"


def unprinted(row: str, column: str, ours: Value | None, digits: int, planned: int) -> Cell:
    """Make a cell of our number alone, with the number of recorded and planned seeds."""
    text = "no record" if ours is None else f"{ours.text(digits)}{ours.counted(planned)}"
    return Cell(row, column, None, ours, text=text, planned=planned)


@dataclass(frozen=True)
class Change:
    """A difference of two kinds of runs over the seeds that both have, and the printed one."""

    row: str
    what: str
    paper: float | None
    by_seed: Mapping[int, float] = field(default_factory=dict)

    @property
    def differences(self) -> tuple[float, ...]:
        return tuple(self.by_seed.values())

    @property
    def ours(self) -> Value | None:
        return Value.of(self.differences)

    @property
    def interval(self) -> Estimate | None:
        """Mean with Student's interval and the paired t test; None without seeds."""
        return over_settings([self.differences])

    @property
    def verdict(self) -> str:
        """Verdict by ``protocol.md``; a dash where the printed change is zero."""
        if not self.paper:
            return "–"
        terms = [(1.0, Value.over(self.differences))] if self.differences else []
        return judge_effect(terms, [(1.0, Value.printed(self.paper))]).text


@dataclass(frozen=True)
class Outcome:
    """The result of an item."""

    cells: Sequence[Cell] = ()
    changes: Sequence[Change] = ()
    # None: the figure of the cells or of the changes.
    draw: Callable[[], Figure] | None = None
    # Parts of a figure, and whether records allow to draw them.
    parts: Mapping[str, bool] = field(default_factory=dict)
    # Remarks below the tables.
    notes: Sequence[str] = ()
    # The answer in one sentence, where the item asks a question.
    headline: str = ""
    # Further parts of the page, text by heading.
    sections: Mapping[str, str] = field(default_factory=dict)
    # Numbers that the paper prints in its text.
    in_text: Sequence[Cell] = ()

    def counts(self) -> tuple[int, int, int, int]:
        """Count cells and parts with a result, all of them, empty cells that need data that may not
        be shipped, and cells with fewer seeds than planned."""
        asked = [cell for cell in (*self.cells, *self.in_text) if cell.paper is not None]
        done = [*(cell.ours is not None for cell in asked), *self.parts.values()]
        external = sum(cell.external and cell.ours is None for cell in asked)
        return sum(done), len(done), external, sum(cell.partial for cell in self.cells)
