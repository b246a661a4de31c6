"""The evaluator of claims: one rule per kind of claim (value, range, bound, sign, count, order).

The tolerances are ours, because the paper gives none. A range holds if all of ours lie in the
printed range widened by half of its width on both sides; a value holds if it is the same within a
factor or a point, which is not equality. Numbers of several networks are judged by their mean, a
bound by their spread too. One network settles nothing, and neither does a size under a guessed
recipe: a claim that is met holds where tested, a claim that is not met stays open.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from resultant_reproduction.formats import (
    SIGNIFICANCE,
    network_counts,
    p_equation,
    span_of_networks,
)
from resultant_reproduction.spec import (
    FAILS,
    HOLDS,
    NOT_RUN,
    OPEN,
    SO_FAR,
    UNTESTED,
    Change,
    Claim,
    load,
)
from resultant_reproduction.stats import (
    holm,
    over_seeds,
    pooled_text,
    setting_of,
    several_seeds,
    signs_hold,
    toward,
)
from resultant_reproduction.value import Value

# Two sizes within this factor are the same.
FACTOR = 2.0

NO_IMAGES = "asks for images of ImageNet-LT or iNaturalist 2018: see below"
SINGLE = "one network: it holds where tested at most, and is never against a claim"
GUESSED = (
    "the paper says that ResNet-32 is trained jointly, not by which views, schedule and weights, "
    "and ours is a guess: what it meets holds where tested at most"
)
# Verdicts for which one network, or a guessed recipe, is not enough.
LOWERED = {HOLDS: SO_FAR, FAILS: OPEN}


class Statement(NamedTuple):
    """A claim as the paper prints it.

    Attributes:
        label: Label of the section, table or figure.
        text: The claim in a few words.
        paper: The printed numbers as text.
        numbers: The printed numbers.
    """

    label: str
    text: str
    paper: str
    numbers: list[float]


def statement(name: str) -> Statement:
    """Look up a claim of ``printed/claims.toml``."""
    entry = load("printed/claims")[name]
    return Statement(entry["label"], entry["text"], entry["paper"], entry.get("numbers", []))


@dataclass(frozen=True)
class Evaluation:
    """Our side of a claim.

    Attributes:
        ours: Our numbers as text.
        holds: True if the rule is met, None where either outcome could be chance.
        rule: The rule.
        tested: Number of cases with records.
        of: Number of cases that the claim is about.
        networks: Fewest networks of a number, where the rule has no test over networks.
        guessed: Kind of the claim, "sign", "order" or "size", where the recipe of the networks is
            a guess; a sign has the reason in its rule.
    """

    ours: str
    holds: bool | None
    rule: str
    tested: int = 1
    of: int = 1
    networks: int | None = None
    guessed: str = ""


def conclude(claim: Statement, evaluation: Evaluation | None, missing: str) -> Claim:
    """Combine statement and evaluation into a verdict.

    Args:
        claim: The statement.
        found: The evaluation, None without records.
        missing: Name of the plan that makes the records, or a sentence about missing data.
    """
    about = claim.label, claim.text, claim.paper
    if evaluation is None:
        if " " in missing:
            return Claim(*about, "", UNTESTED, missing)
        return Claim(*about, "", NOT_RUN, f"resultant reproduce run {missing}")
    verdict, rule, ours = FAILS, evaluation.rule, evaluation.ours
    if evaluation.holds is None:
        verdict = OPEN
    elif evaluation.holds:
        verdict = HOLDS if evaluation.tested >= evaluation.of else SO_FAR
    if evaluation.tested < evaluation.of:
        ours += f" ({evaluation.tested} of {evaluation.of})"
    if evaluation.networks is not None and evaluation.networks < 2 and verdict in LOWERED:
        verdict, rule = LOWERED[verdict], f"{rule}; {SINGLE}"
    size = evaluation.guessed == "size"
    if evaluation.guessed:
        verdict = (LOWERED if size else {HOLDS: SO_FAR}).get(verdict, verdict)
    if evaluation.guessed in ("order", "size"):
        rule += f"; {GUESSED}" + (", and a size that differs leaves it open" if size else "")
    return Claim(*about, ours, verdict, rule)


def same_size(ours: float, paper: float) -> bool:
    """Test for the same sign, and the same size within `FACTOR`."""
    return ours * paper > 0 and 1 / FACTOR <= ours / paper <= FACTOR


class Tolerance(NamedTuple):
    """A test for the printed size, and its rule in words."""

    near: Callable[[float, float], bool]
    rule: str


def _tolerance(near: Callable[[float, float], bool], within: str) -> Tolerance:
    rule = f"the size, not equality: mean over networks within {within} of the printed one"
    return Tolerance(near, rule)


SIZE = _tolerance(same_size, "a factor of two")
POINT = _tolerance(lambda ours, paper: abs(ours - paper) <= 1, "one point")
# Narrower, for the printed errors of three policies are within a factor of two of each other.
CLOSE = _tolerance(lambda ours, paper: 0.8 <= ours / paper <= 1.25, "a factor of 1.25")

# Marks a number that differs from the printed one with p < 0.05.
DIFFERS = "differs, "
DRAW = "; p: the printed one as one more draw of ours"


def with_draw(ours: Value, paper: float, digits: int, sign: bool = False) -> str:
    """Format a number with the p value of the printed one as one more draw."""
    text, p = ours.text(digits, sign), ours.p_of_draw(paper)
    if p is None:
        return text
    return f"{text} ({DIFFERS if p < SIGNIFICANCE else ''}{p_equation(p)})"


def value(
    claim: Statement,
    ours: Sequence[Value | None],
    tolerance: Tolerance,
    digits: int,
    *,
    sign: bool = False,
    single: bool = True,
    note: str = "",
) -> Evaluation | None:
    """Evaluate numbers that should have the printed size; None where one is missing.

    Args:
        claim: The statement.
        ours: Our numbers, in the order of the printed ones.
        tolerance: The rule.
        digits: Digits of the text.
        sign: Whether the text has plus signs.
        single: Whether the printed numbers are of single networks.
        note: Appended to the rule.
    """
    pairs = [(v, p) for v, p in zip(ours, claim.numbers, strict=True) if v is not None]
    if len(pairs) < len(ours):
        return None
    texts = (with_draw(v, p, digits, sign) if single else v.text(digits, sign) for v, p in pairs)
    text = f"{' / '.join(texts)}; {network_counts(v.n for v, _ in pairs)}"
    near = all(tolerance.near(v.mean, p) for v, p in pairs)
    rule = f"{tolerance.rule}{DRAW if single else ''}{note}"
    return Evaluation(text, near, rule, networks=min(v.n for v, _ in pairs))


def widened(
    values: Sequence[float],
    low: float,
    high: float,
    most: float = math.inf,
    of: str = "means over networks",
) -> tuple[bool, str]:
    """Test whether values lie in a printed range widened by half of its width, up to the largest
    possible value ``most``; returns the rule too."""
    wide = (high - low) / 2
    least, largest = low - wide, min(high + wide, most)
    inside = sum(low <= v <= high for v in values)
    rule = f"{of} in {least:.4g} to {largest:.4g}, the printed range widened by half its width"
    if inside < len(values):
        rule += f" ({'not all' if inside else 'none'} in it as it is)"
    return least <= min(values) and max(values) <= largest, rule


def in_range(
    claim: Statement,
    settings: Sequence[Sequence[float]],
    digits: int,
    *,
    scale: float = 1.0,
    sign: str = "",
    most: float = math.inf,
    extra: str = "",
    tested: int | None = None,
    of: int,
) -> Evaluation | None:
    """Evaluate means over networks, one per setting, against a printed range."""
    if not settings:
        return None
    means = [scale * statistics.fmean(values) for values in settings]
    holds, rule = widened(means, claim.numbers[0], claim.numbers[1], most)
    return Evaluation(
        *(span_of_networks(settings, digits, scale, sign) + extra, holds, rule),
        tested=len(settings) if tested is None else tested,
        of=of,
        networks=min(map(len, settings)),
    )


def above(
    settings: Sequence[Sequence[float]], bound: float, digits: int, of: int
) -> Evaluation | None:
    """Evaluate whether means over networks exceed a bound by more than networks vary. A setting
    that cannot be tested, such as one network, counts by its mean."""
    if not settings:
        return None
    excess = [i for values in settings if (i := over_seeds([v - bound for v in values]))]
    kept = iter(holm([i.p for i in excess if i.p is not None]))
    signs = [i.mean > 0 if i.p is None or next(kept) else None for i in excess]
    rule = (
        f"means over networks above {bound:g}, each by Holm's correction (t tests over networks); "
        "one that is so below is against it"
    )
    if near := signs.count(None):
        rule += f"; not beyond their spread at {near} of {len(signs)}"
    return Evaluation(
        *(span_of_networks(settings, digits), all_of(signs), rule),
        tested=len(settings),
        of=of,
        networks=min(map(len, settings)),
    )


def all_of(met: Iterable[bool | None]) -> bool | None:
    """Combine cases: one False contradicts a claim, and all must be True for it."""
    cases = list(met)
    return False if False in cases else True if all(cases) else None


SIGNS = (
    "every mean of the printed sign, and so their mean over settings with p < 0.05; one of the "
    "other sign by Holm's correction, or such a mean of it, is against it"
)


def signs(
    changes: Sequence[Change], ours: str, of: int, *, rule: str = SIGNS, note: str = ""
) -> Evaluation | None:
    """Evaluate whether changes have the printed signs (`stats.signs_hold`)."""
    known = [c for c in changes if c.differences]
    if not known:
        return None
    return Evaluation(ours, signs_hold(known), f"{rule}{note}", len(known), of)


def toward_text(changes: Sequence[Change]) -> str:
    """Format the mean over settings that `stats.signs_hold` tests."""
    kept, where = several_seeds(toward(changes))
    of = f"over {where}" if len({setting_of(c) for c in changes}) > 1 else "of the readouts"
    return f"mean {of} toward the printed signs: {pooled_text(kept)}"


def guess(evaluation: Evaluation | None, of: str) -> Evaluation | None:
    """Mark an evaluation of networks whose recipe is a guess."""
    return None if evaluation is None else replace(evaluation, guessed=of)
