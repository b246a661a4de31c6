"""What an artefact of the paper is: printed values, ours beside them, and what may be said of both.

Means are over seeds, standard deviations those of a sample.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from resultant_reproduction.evidence import Evidence

SIGNIFICANCE = 0.05
ALONE = f"p < {SIGNIFICANCE:g} alone"

RERUN, PARTLY, WAITING, UNSHIPPED = (
    "rerun",
    "partly rerun",
    "not run yet",
    "needs data we may not ship",
)
STATUSES = (RERUN, PARTLY, WAITING, UNSHIPPED)


class Value(NamedTuple):
    """A mean over ``n`` runs, and their sample standard deviation where it is known."""

    mean: float
    sd: float | None = None
    n: int = 1

    @staticmethod
    def of(values: Sequence[float]) -> Value | None:
        """The mean of some values, None where there are none."""
        if not values:
            return None
        sd = statistics.stdev(values) if len(values) > 1 else None
        return Value(statistics.fmean(values), sd, len(values))

    def said(self, digits: int, sign: bool = False) -> str:
        # z: what is rounded to zero is not negative.
        mean = f"{self.mean:{'+' if sign else ''}z,.{digits}f}"
        return mean if self.sd is None else f"{mean} ± {self.sd:.{digits}f}"

    def drawn(self, number: float) -> float | None:
        """The two-sided p value of a number as one more draw of these runs, whose mean varies too;
        None where nothing is known of their spread."""
        from scipy.stats import t

        if self.sd is None or self.sd <= 1e-9 * abs(self.mean):
            return None
        error = self.sd * math.sqrt(1 + 1 / self.n)
        return float(2 * t.sf(abs(number - self.mean) / error, self.n - 1))


# Where more seeds count than are planned.
LATER = (
    "Of the packaged records those of more seeds than planned were added when numbers of the "
    "others were known."
)


def equal(values: Sequence[float]) -> bool:
    """Whether values are one value but for rounding, so that nothing is known of their spread."""
    return max(values) - min(values) <= 1e-9 * max(map(abs, values))


def said_p(p: float | None) -> str:
    """A p value in three digits, in four where three do not tell it from the level."""
    if p is None:
        return "–"
    near = abs(p - SIGNIFICANCE) < 0.0005
    return "< 0.001" if p < 0.0005 else f"{p:.{4 if near else 3}f}"


class Printed(NamedTuple):
    """A number as the paper prints it."""

    value: Value
    digits: int
    text: str

    @property
    def signed(self) -> bool:
        return self.text[0] in "+-"


def printed(text: str) -> Printed | None:
    """What stands in a cell of the paper: ``86.28 ± 0.09``, ``9,763 / 10,000``, None for ``--``. A
    bar sets ours apart, so that the text has *of* in its place."""
    text = text.strip()
    if text == "--":
        return None
    mean, _, sd = text.partition("±")
    number = mean.partition("/")[0].strip().replace(",", "")
    digits = len(re.sub(r"^[^.]*\.?", "", number))
    value = Value(float(number), float(sd) if sd else None, 0)
    return Printed(value, digits, text.replace(" / ", " of "))


def rows(text: str) -> list[list[str]]:
    """The rows of a printed table, its cells set apart by bars."""
    return [[cell.strip() for cell in line.split("|")] for line in text.strip().splitlines()]


@dataclass(frozen=True)
class Cell:
    """One number of a table: the paper's and ours. ``foreign`` asks for data not shipped; ``text``
    is what a cell says that the paper does not have; of ``wanted`` seeds the plans have it."""

    row: str
    column: str
    paper: Printed | None
    ours: Value | None = None
    foreign: bool = False
    text: str = "–"
    wanted: int = 0

    @property
    def begun(self) -> bool:
        """Whether there are records, of fewer seeds than planned."""
        return self.ours is not None and self.ours.n < self.wanted

    @property
    def difference(self) -> float | None:
        if self.paper is None or self.ours is None:
            return None
        return self.ours.mean - self.paper.value.mean

    def said(self) -> str:
        """The cell as *paper / ours*, the number of seeds in brackets where there are several or
        more are planned."""
        if self.paper is None:
            return self.text
        if self.ours is None:
            return f"{self.paper.text} / {'not shipped' if self.foreign else 'no record'}"
        digits = self.paper.digits
        if not digits and (self.ours.n > 1 or not self.ours.mean.is_integer()):
            digits = 1
        ours = self.ours.said(digits, self.paper.signed)
        seeds = f" [{self.ours.n}]" if self.ours.n > 1 else ""
        if self.begun:
            seeds = f" [{self.ours.n} of {self.wanted}]"
        return f"{self.paper.text} / {ours}{seeds}"


@dataclass(frozen=True)
class Change:
    """A change between two kinds of runs, tested over the seeds that both have; ``paper`` is None
    where the paper has no such number."""

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
    def p_value(self) -> float | None:
        """Of the two-sided paired t test, None for fewer than two seeds or equal differences."""
        from scipy.stats import ttest_1samp

        if len(self.differences) < 2 or equal(self.differences):
            return None
        return float(ttest_1samp(self.differences, 0.0).pvalue)  # type: ignore[attr-defined]

    @property
    def verdict(self) -> str:
        """What the test says by itself: it is one of many, and not corrected for their number."""
        ours, p = self.ours, self.p_value
        if ours is None:
            return "no record"
        tested = "not tested" if p is None else ALONE if p < SIGNIFICANCE else "not significant"
        if not self.paper:
            return tested if self.paper is None else f"printed as zero; ours {tested}"
        same = ours.mean * self.paper > 0
        # In the two digits that are shown.
        sign = f"{'same' if same else 'other'} sign" if round(ours.mean, 2) else "zero"
        if p is None:
            seeds = "one seed" if ours.n == 1 else f"{ours.n} equal differences"
            return f"{sign}, {seeds}: not tested"
        return f"{sign}, {tested}"


@dataclass(frozen=True)
class Outcome:
    """What was found: cells of a table, changes, drawings by name, and remarks, of which the
    ``lead`` comes first. Where a question is asked, the ``headline`` answers it in a sentence.

    ``parts`` are those of a figure, by name: whether there is something to draw them from.
    """

    cells: Sequence[Cell] = ()
    changes: Sequence[Change] = ()
    drawings: Mapping[str, Callable[[], Figure]] = field(default_factory=dict)
    parts: Mapping[str, bool] = field(default_factory=dict)
    notes: Sequence[str] = ()
    lead: Sequence[str] = ()
    headline: str = ""

    @property
    def done(self) -> tuple[int, int]:
        """How many of the cells and parts there are, of how many."""
        asked = [cell.ours is not None for cell in self.cells if cell.paper is not None]
        asked += self.parts.values()
        return sum(asked), len(asked)

    @property
    def foreign(self) -> int:
        """How many of the cells that lack ask for data that are not shipped."""
        return sum(c.foreign and c.ours is None for c in self.cells if c.paper is not None)

    @property
    def begun(self) -> int:
        """How many of the cells have fewer seeds than planned."""
        return sum(cell.begun for cell in self.cells)


@dataclass(frozen=True)
class Artefact:
    """A table or figure of the paper and how it is made.

    ``plans`` are the trainings that it reads; ``foreign`` says which data cannot be shipped and
    ``commands`` what somebody who has them would enter.
    """

    name: str
    label: str
    title: str
    compute: Callable[[Evidence], Outcome]
    plans: tuple[str, ...] = ()
    foreign: str = ""
    commands: tuple[str, ...] = ()

    def lacking(self, outcome: Outcome) -> tuple[int, int]:
        """How many cells and parts ask for trainings, or for more seeds, and how many for data that
        are not shipped."""
        done, of = outcome.done
        foreign = outcome.foreign if self.plans else of - done
        return of - done - foreign + outcome.begun, foreign

    def status(self, outcome: Outcome) -> str:
        (done, of), (_, foreign) = outcome.done, self.lacking(outcome)
        if done == of and not outcome.begun:
            return RERUN
        if not done:
            return WAITING if self.plans else UNSHIPPED
        rest = f", {outcome.begun} with fewer seeds than planned" if outcome.begun else ""
        need = UNSHIPPED if foreign == 1 else UNSHIPPED.replace("needs", "need")
        rest += f"; {foreign} {need}" if foreign else ""
        return f"{PARTLY} ({done} of {of}{rest})"


HOLDS, SO_FAR, FAILS, OPEN = "holds", "holds where tested", "does not hold", "not settled"
NOT_RUN, UNTESTED = "not run yet", "cannot be tested here"
VERDICTS = (HOLDS, SO_FAR, OPEN, FAILS, NOT_RUN, UNTESTED)


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper with a number in it, and what is to be said of it.

    ``why`` is what "holds" asks for, or what is missing.
    """

    label: str
    text: str
    paper: str
    ours: str
    verdict: str
    why: str


def judged(
    label: str,
    text: str,
    paper: str,
    ours: str,
    holds: bool | None,
    rule: str,
    *,
    tested: int = 1,
    of: int = 1,
) -> Claim:
    """A claim that was put to the test, on ``tested`` of the ``of`` cases that it is about;
    ``holds`` is None where chance could have made either outcome."""
    verdict = OPEN if holds is None else FAILS
    if holds:
        verdict = HOLDS if tested >= of else SO_FAR
    if tested < of:
        ours = f"{ours} ({tested} of {of})"
    return Claim(label, text, paper, ours, verdict, rule)


def waiting(label: str, text: str, paper: str, plan: str) -> Claim:
    """A claim that awaits the records of a plan."""
    return Claim(label, text, paper, "", NOT_RUN, f"resultant reproduce run {plan}")


def untestable(label: str, text: str, paper: str, why: str) -> Claim:
    """A claim about data that are not here."""
    return Claim(label, text, paper, "", UNTESTED, why)
