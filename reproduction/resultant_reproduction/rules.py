"""What claims are judged by, and how the numbers beside them are said.

The tolerances are ours, for the paper gives none: a range holds if all of ours lie within it when
it is widened by half of its width on both sides, a size if it is the same within a factor or a
point, which does not make it equal. Numbers of several networks are judged by their mean over
networks, a bound by their spread too. One network settles nothing, and neither does a size under a
recipe that is guessed: what it meets holds where tested, what it does not meet is left open.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from resultant_reproduction.artefact import (
    FAILS,
    HOLDS,
    OPEN,
    SIGNIFICANCE,
    SO_FAR,
    Change,
    Claim,
    Value,
    judged,
    said_p,
    untestable,
)
from resultant_reproduction.intervals import Interval, over_seeds, over_settings

# How far a size may be from the printed one to be the same.
FACTOR = 2.0

NO_IMAGES = "asks for images of ImageNet-LT or iNaturalist 2018: see below"


def span(values: Sequence[float], digits: int, scale: float = 1.0, sign: str = "") -> str:
    """Least and largest of values, in words."""
    low, high = (format(scale * f(values), f"{sign}z.{digits}f") for f in (min, max))
    return low if low == high else f"{low} to {high}"


def counted(numbers: Iterable[int]) -> str:
    """Over how many seeds values are."""
    return f"n = {span([float(n) for n in numbers], 0)}"


def spanned(values: Sequence[Value], digits: int, scale: float = 1.0, sign: str = "") -> str:
    """Least and largest of means, over how many seeds they are, and their largest deviation."""
    said = f"{span([v.mean for v in values], digits, scale, sign)}; {counted(v.n for v in values)}"
    known = [v.sd for v in values if v.sd is not None]
    return said + (f", sd up to {scale * max(known):.{digits}f}" if known else "")


def reaching(
    places: Sequence[Sequence[float]], digits: int, scale: float = 1.0, sign: str = ""
) -> str:
    """Least and largest of the means over networks of some places, and of single networks."""
    means = [statistics.fmean(values) for values in places]
    single = span([v for values in places for v in values], digits, scale, sign)
    said = f"{span(means, digits, scale, sign)}; {counted(map(len, places))}"
    return f"{said}, single networks {single}"


def within(
    values: Sequence[float],
    low: float,
    high: float,
    most: float = math.inf,
    of: str = "means over networks",
) -> tuple[bool, str]:
    """Whether values keep to a printed range widened by half of its width, but not beyond the
    ``most`` that there can be, and the rule."""
    wide = (high - low) / 2
    least, largest = low - wide, min(high + wide, most)
    inside = sum(low <= v <= high for v in values)
    rule = f"{of} in {least:.4g} to {largest:.4g}, the printed range widened by half its width"
    if inside < len(values):
        rule += f" ({'not all' if inside else 'none'} in it as it is)"
    return least <= min(values) and max(values) <= largest, rule


def alike(ours: float, paper: float) -> bool:
    """The same sign, and the same size within the factor."""
    return ours * paper > 0 and 1 / FACTOR <= ours / paper <= FACTOR


class Tolerance(NamedTuple):
    """Whether ours is of the printed size, and the rule."""

    near: Callable[[float, float], bool]
    rule: str


NOT_EQUAL = "the size, not equality: mean over networks within {} of the printed one"
SIZE = Tolerance(alike, NOT_EQUAL.format("a factor of two"))
POINT = Tolerance(lambda ours, paper: abs(ours - paper) <= 1, NOT_EQUAL.format("one point"))
# What `drawn` says of a number that is not the printed one, and what its p is.
DIFFERS = "differs, "
DRAWN = "; p: the printed one as one more draw of ours"


def drawn(ours: Value, paper: float, digits: int, sign: bool = False) -> str:
    """A number of ours in words, with the p value of the printed one as one more draw of it."""
    said, p = ours.said(digits, sign), ours.drawn(paper)
    if p is None:
        return said
    return f"{said} ({DIFFERS if p < SIGNIFICANCE else ''}{equals(p)})"


def sized(
    label: str,
    text: str,
    printed: Sequence[str],
    ours: Sequence[Value | None],
    tolerance: Tolerance,
    digits: int,
    *,
    sign: bool = False,
    single: bool = True,
    lost: str = NO_IMAGES,
    note: str = "",
) -> Claim:
    """A claim about numbers that are to be of the printed size, which are of ``single`` networks or
    not; ``lost`` says why one of ours lacks where it does."""
    paper, numbers = " / ".join(printed), list(map(float, printed))
    known = [(v, number) for v, number in zip(ours, numbers, strict=True) if v is not None]
    if len(known) < len(printed):
        return untestable(label, text, paper, lost + note)
    said = " / ".join(
        drawn(v, number, digits, sign) if single else v.said(digits, sign) for v, number in known
    )
    said += f"; {counted(v.n for v, _ in known)}"
    near = all(tolerance.near(v.mean, number) for v, number in known)
    rule = f"{tolerance.rule}{DRAWN if single else ''}{note}"
    claim = judged(label, text, paper, said, near, rule)
    return of_networks(claim, min(v.n for v, _ in known))


def above(places: Sequence[Sequence[float]], bound: float) -> tuple[bool | None, str]:
    """Whether means over networks are above a bound by more than networks vary, and the rule. A
    place with nothing to test, such as one network, counts by its mean."""
    found = [i for values in places if (i := over_seeds([v - bound for v in values]))]
    kept = iter(holm([i.p for i in found if i.p is not None]))
    signs = [i.mean > 0 if i.p is None or next(kept) else None for i in found]
    rule = (
        f"means over networks above {bound:g}, each by Holm's correction (t tests over networks); "
        "one that is so below is against it"
    )
    if near := signs.count(None):
        rule += f"; not beyond their spread at {near} of {len(signs)}"
    return False if False in signs else None if None in signs else True, rule


def holm(p_values: Sequence[float]) -> list[bool]:
    """Which of some tests are significant together: the least of m p values is held against the
    level over m, the next against that over m - 1, up to the first that is not below."""
    kept = [False] * len(p_values)
    for rank, i in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        if p_values[i] >= SIGNIFICANCE / (len(p_values) - rank):
            break
        kept[i] = True
    return kept


def significant(changes: Sequence[Change]) -> list[Change]:
    """The changes that are so by Holm's correction."""
    known = [(c, p) for c in changes if (p := c.p_value) is not None]
    kept = holm([p for _, p in known])
    return [change for (change, _), keep in zip(known, kept, strict=True) if keep]


def seen(changes: Sequence[Change]) -> tuple[int, int]:
    """How many changes are positive, and how many negative, by Holm's correction."""
    means = [c.ours.mean for c in significant(changes) if c.ours is not None]
    return sum(mean > 0 for mean in means), sum(mean < 0 for mean in means)


# What verdicts become that one network, or a recipe that is guessed, is not enough for.
LOWERED = {HOLDS: SO_FAR, FAILS: OPEN}
SINGLE = "one network: it holds where tested at most, and is never against a claim"


def of_networks(claim: Claim, least: int) -> Claim:
    """A claim whose numbers are judged without a test over networks, each of ``least`` ones."""
    if least > 1 or claim.verdict not in LOWERED:
        return claim
    return replace(claim, verdict=LOWERED[claim.verdict], why=f"{claim.why}; {SINGLE}")


GUESSED = (
    "the paper says that ResNet-32 is trained jointly, not by which views, schedule and weights, "
    "and ours is a guess: what it meets holds where tested at most"
)


def of_guess(claim: Claim, *, size: bool) -> Claim:
    """A claim about trainings whose recipe is guessed. A ``size`` that differs is not against it,
    for the recipe may be why."""
    verdicts = LOWERED if size else {HOLDS: SO_FAR}
    why = f"{claim.why}; {GUESSED}" + (", and a size that differs leaves it open" if size else "")
    return replace(claim, verdict=verdicts.get(claim.verdict, claim.verdict), why=why)


def positive(changes: Sequence[Change]) -> int:
    """How many changes have a positive mean."""
    return sum(c.ours is not None and c.ours.mean > 0 for c in changes)


def setting_of(change: Change) -> str:
    """The setting of a change, whose row may name a readout too."""
    return change.row.rpartition(", ")[0] or change.row


def by_network(changes: Sequence[Change]) -> list[list[float]]:
    """The differences of each setting, one a network: readouts of the same networks averaged, over
    the seeds that all readouts of the setting have. Settings without one in common are left out."""
    settings: dict[str, list[Mapping[int, float]]] = {}
    for c in changes:
        settings.setdefault(setting_of(c), []).append(c.by_seed)
    found = [
        [statistics.fmean(d[seed] for d in own) for seed in own[0] if all(seed in d for d in own)]
        for own in settings.values()
    ]
    return [differences for differences in found if differences]


def with_p(found: Interval) -> str:
    """A mean in words, its interval and p value."""
    return found.said() + ("" if found.p is None else f", {equals(found.p)}")


def equals(p: float | None) -> str:
    """A p value as an equation, or that there is none."""
    said = said_p(p)
    return f"p {said}" if p is None or said.startswith("<") else f"p = {said}"


def whole(changes: Sequence[Change]) -> str:
    """The mean over settings in words, its interval and p value."""
    found = over_settings(by_network(changes))
    return "not known" if found is None else with_p(found)


def toward(changes: Sequence[Change]) -> list[Change]:
    """Changes that are positive where they have the sign that is printed. One that is printed as
    zero, or not at all, has none and is left out."""
    return [
        replace(c, by_seed={s: math.copysign(1.0, c.paper) * d for s, d in c.by_seed.items()})
        for c in changes
        if c.paper
    ]


def several(changes: Sequence[Change]) -> tuple[list[Change], str]:
    """The changes of settings all of whose changes have several seeds, or all where there is no
    such setting; and which settings these are, in words."""
    every = {setting_of(c) for c in changes}
    kept = every - {setting_of(c) for c in changes if len(c.differences) < 2}
    if not kept or kept == every:
        return list(changes), "settings"
    where = f"the settings with several seeds ({len(kept)} of {len(every)})"
    return [c for c in changes if setting_of(c) in kept], where


def said_toward(changes: Sequence[Change]) -> str:
    """The mean over settings that `borne_out` goes by, in words."""
    kept, where = several(toward(changes))
    of = f"over {where}" if len({setting_of(c) for c in changes}) > 1 else "of the readouts"
    return f"mean {of} toward the printed signs: {whole(kept)}"


def borne_out(changes: Sequence[Change]) -> bool | None:
    """Whether changes have the signs that are printed; `BORNE_OUT` is the rule. Settings of one
    seed are not tested: the others can be against it, but not speak for them."""
    known = toward(changes)
    kept, _ = several(known)
    pooled = over_settings(by_network(kept))
    sure = pooled is not None and pooled.p is not None and pooled.p < SIGNIFICANCE
    mean = pooled.mean if pooled is not None and sure else 0.0
    if seen(known)[1] or mean < 0:
        return False
    every = all(c.ours and c.ours.mean > 0 for c in known)
    return True if mean > 0 and every and kept == known else None


BORNE_OUT = (
    "every mean of the printed sign, and so their mean over settings with p < 0.05; one of the "
    "other sign by Holm's correction, or such a mean of it, is against it"
)
