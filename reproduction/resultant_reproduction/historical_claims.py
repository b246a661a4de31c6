"""Claims about the historical power-temperature family (sec:historical-power-temperature)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

from resultant.training.config import TrainConfig
from resultant_reproduction.artefact import (
    NOT_RUN,
    OPEN,
    VERDICTS,
    Change,
    Claim,
    Value,
    judged,
    waiting,
)
from resultant_reproduction.evidence import Evidence
from resultant_reproduction.historical import (
    COLUMNS,
    ENDS,
    MEASURES,
    POLICIES,
    STRENGTHS,
    heads,
    increment_errors,
    measures,
    planned,
    settings,
    shown,
)
from resultant_reproduction.records import paired
from resultant_reproduction.rules import (
    DRAWN,
    NOT_EQUAL,
    Tolerance,
    borne_out,
    counted,
    drawn,
    equals,
    of_guess,
    of_networks,
    significant,
    span,
    within,
)

# sec:historical-gradient: errors of leading gradient increments (%).
LEAST, MOST = 8.82, 10.18

# Narrower than other sizes: the printed errors of the three policies are within it of each other.
CLOSE = Tolerance(
    lambda ours, paper: 0.8 <= ours / paper <= 1.25,
    NOT_EQUAL.format("a factor of 1.25"),
)

# What the claims about the setting that is `shown` begin with.
FAMILY = "Power family, CIFAR-100 IF100"
TAKEN = "the paper names no setting for it, which is taken to be that of its gains"


class Measured(NamedTuple):
    """The numbers of a claim by one of `measures`: each a mean over networks, all in words, and
    whether they meet a rule."""

    measure: str
    values: Sequence[Value]
    said: str = ""
    holds: bool | None = None
    rule: str = ""


def historical_claims(evidence: Evidence) -> Iterator[Claim]:
    """sec:historical-power-temperature, sec:historical-gradient, CIFAR-100 IF100, and the
    classifiers of sec:historical-classification."""
    yield _orders(evidence)
    epochs = shown().epochs
    for label, what, key, texts in ENDS:
        text = f"{FAMILY}: {what} at epoch {epochs}, ProCo, reduced, increased"
        about = (label, text, ", ".join(texts))
        ways = measures(key)
        found = [_end(evidence, way, name, texts) for way, name in ways.items()]
        claim = _by_seeds(*about, found, of=len(texts), size=True)
        if claim.verdict != NOT_RUN and key == "gain_sd":
            why = f"{claim.why}; of sizes alone, the order is asked by increased less reduced"
            claim = replace(claim, why=why)
        if claim.verdict != NOT_RUN and len(ways) > 1:
            *_, (way, name) = ways.items()
            elsewhere = [
                _spanned(f"{way}, {place}", _ends(evidence, name, config).values())
                for place, config in list(settings().items())[1:]
            ]
            claim = _beside(claim, elsewhere)
        yield claim
    yield _native_order(evidence)
    yield _increment_claim(evidence)


def _beside(claim: Claim, others: Sequence[Measured]) -> Claim:
    """A claim about errors with numbers beside ours that are not judged."""
    told = "; ".join(f"{m.measure} {m.said}; {_counted(m)}" for m in others if m.values)
    ours = f"{claim.ours}; beside it: {told}" if told else claim.ours
    return replace(claim, ours=ours, why=f"{claim.why}; {TAKEN}")


def _ends(evidence: Evidence, key: str, config: TrainConfig) -> dict[str, Value]:
    """A number of the last epoch by policy."""
    found = {
        name: evidence.records.value(config, *policy, f"last.{key}", 1.0)
        for name, policy in POLICIES.items()
    }
    return {name: ours for name, ours in found.items() if ours is not None}


def _end(evidence: Evidence, measure: str, key: str, texts: Sequence[str]) -> Measured:
    """A number of the last epoch, policy by policy, beside the printed ones."""
    paper = dict(zip(POLICIES, map(float, texts), strict=True))
    known = _ends(evidence, key, shown())
    said = ", ".join(f"{n.split()[0]} {drawn(ours, paper[n], 3)}" for n, ours in known.items())
    near = all(CLOSE.near(ours.mean, paper[name]) for name, ours in known.items())
    return Measured(measure, list(known.values()), said, near, f"{CLOSE.rule}{DRAWN}")


def _spanned(measure: str, values: Iterable[Value]) -> Measured:
    """Numbers of which the least and the largest are said, and their largest deviation."""
    known = list(values)
    if not known:
        return Measured(measure, [])
    said, deviations = span([v.mean for v in known], 2), [v.sd for v in known if v.sd is not None]
    said += f", sd up to {max(deviations):.2f}" if deviations else ""
    return Measured(measure, known, said)


def _increment_claim(evidence: Evidence) -> Claim:
    """The paper says "mean relative error", and so the mean over queries is judged. The same
    stacked, and of the other settings, is shown."""
    epochs = shown().epochs
    text = f"{FAMILY}: mean error of leading gradient increments at epoch {epochs} (%)"
    about = ("sec:historical-gradient", text, f"{LEAST} to {MOST}")
    (stacked, one), (mean, two) = measures("increment_error").items()
    judge = _increments(evidence, mean, two, shown())
    beside = [
        _increments(evidence, stacked, one, shown()),
        *(
            _increments(evidence, f"{mean}, {place}", two, config)
            for place, config in list(settings().items())[1:]
        ),
    ]
    if not judge.values and not any(m.values for m in beside):
        return waiting(*about, "power")
    of = len(POLICIES) * len(STRENGTHS)
    if judge.values:
        means = [v.mean for v in judge.values]
        holds, rule = within(means, LEAST, MOST)
        claim = _by_seeds(*about, [judge._replace(holds=holds, rule=rule)], of=of, size=True)
        if max(means) < LEAST:
            why = (
                f"{claim.why}; smaller errors, with which the leading gain explains more, not less"
            )
            claim = replace(claim, why=why)
    else:
        rule = (
            "the mean over queries is judged, and no record of this setting has it: resultant "
            "reproduce run power"
        )
        claim = Claim(*about, f"{mean}: no record", OPEN, rule)
    return _beside(claim, beside)


def _increments(evidence: Evidence, measure: str, key: str, config: TrainConfig) -> Measured:
    """Errors of leading gradient increments of both strengths at all policies, last epoch."""
    courses = (
        course
        for policy in POLICIES.values()
        for course in increment_errors(evidence.records.seeds(config, *policy), key).values()
    )
    return _spanned(measure, [v for c in courses if (v := c.at(config.epochs)) is not None])


def _native_order(evidence: Evidence) -> Claim:
    """sec:historical-power-temperature: the learned states do not take the order that is applied;
    the ends of that are compared."""
    label = "sec:historical-power-temperature"
    text = f"{FAMILY}: native gain sd, increased less reduced, turns the applied order round"
    reduced, increased = (
        evidence.records.values(shown(), *POLICIES[name], "last.gain_sd", 1.0)
        for name in STRENGTHS.values()
    )
    printed = next(texts for _, _, key, texts in ENDS if key == "gain_sd")
    delta = float(printed[2]) - float(printed[1])
    change = Change(text, "", delta, paired(increased, reduced))
    if change.ours is None:
        return waiting(label, text, f"{delta:+.3f}", "power")
    p = "" if change.p_value is None else f", {equals(change.p_value)}"
    ours = f"{change.ours.said(3, sign=True)}{p}; {_counted(Measured('', [change.ours]))}"
    rule = (
        "negative with p < 0.05 over seeds; positive so is against it, and one seed is not tested"
    )
    claim = judged(label, text, f"{delta:+.3f}", ours, borne_out([change]), rule)
    return of_guess(claim, size=False)


def _by_seeds(
    label: str, text: str, paper: str, found: Sequence[Measured], *, of: int, size: bool
) -> Claim:
    """A claim about ``of`` numbers, each a mean over networks, which are to be of a ``size`` or in
    an order. Of several measures the one that meets it best counts."""
    known = [m for m in found if m.values]
    if not known:
        return waiting(label, text, paper, "power")
    told = [_by_measure(label, text, paper, m, of) for m in found]
    best = min(told, key=lambda claim: VERDICTS.index(claim.verdict))
    why = best.why or known[0].rule
    if len(found) > 1:
        names = " or ".join(m.measure for m in found)
        why += f"; by either measure, for the paper does not say which is its own ({names})"
    ours = "; ".join(claim.ours for claim in told)
    return of_guess(Claim(label, text, paper, ours, best.verdict, why), size=size)


def _by_measure(label: str, text: str, paper: str, found: Measured, of: int) -> Claim:
    name = f"{found.measure}: " if found.measure else ""
    if not found.values:
        return Claim(label, text, paper, f"{name}no record", OPEN, "")
    claim = judged(
        *(label, text, paper, f"{name}{found.said}; {_counted(found)}"),
        *(found.holds, found.rule),
        tested=len(found.values),
        of=of,
    )
    return of_networks(claim, _least(found))


def _least(found: Measured) -> int:
    """The fewest networks that a number is of."""
    return min(v.n for v in found.values)


def _counted(found: Measured) -> str:
    """Over how many networks values are, and of how many where more are planned. Older records
    lack the second measure, and no plan asks for it again."""
    told, few = counted(v.n for v in found.values), _least(found) < planned("ProCo")
    second = found.measure.startswith(list(MEASURES)[1])
    return f"{told} of {planned('ProCo')}" if few and not second else told


def _orders(evidence: Evidence) -> Claim:
    """sec:historical-classification: no policy is the better one in every setting."""
    label = "sec:historical-classification"
    text = "Power family: the order of the classifiers changes across settings"
    values = {
        (policy, column): evidence.records.values(config, *POLICIES[policy], "last.accuracy")
        for policy in POLICIES
        for column, config in settings().items()
    }
    paper = _ordered(
        {(c.row, c.column): c.paper.value.mean for c in heads(evidence).cells if c.paper}
    )
    if not all(values.values()):
        return waiting(label, text, paper, "power")
    known = {at: v for at, own in values.items() if (v := Value.of(list(own.values())))}
    means = {at: v.mean for at, v in known.items()}
    changes = [
        Change(f"{after} less {before}", column, None, paired(values[after, column], own))
        for before, after in combinations(POLICIES, 2)
        for column in COLUMNS
        for own in (values[before, column],)
    ]
    signs: dict[str, set[int]] = {}
    for change in significant(changes):
        assert change.ours is not None
        signs.setdefault(change.row, set()).add(1 if change.ours.mean > 0 else -1)
    both = [row for row, own in signs.items() if len(own) == 2]
    said = _ordered(means) + (f"; both signs of {', '.join(both)}" if both else "")
    same = len({tuple(_order(means, column)) for column in COLUMNS}) == 1
    rule = (
        "one difference of two policies is seen with both signs by Holm's correction; the same "
        "order of the means in all settings is against it"
    )
    holds = True if both else False if same else None
    found = Measured("", list(known.values()), said, holds, rule)
    return _by_seeds(label, text, paper, [found], of=len(values), size=False)


def _order(means: Mapping[tuple[str, str], float], column: str) -> list[str]:
    """The policies from the best to the worst one."""
    return sorted(POLICIES, key=lambda policy: -means[policy, column])


def _ordered(means: Mapping[tuple[str, str], float]) -> str:
    short = {policy: policy.split()[0] for policy in POLICIES}
    return "; ".join(
        f"{column}: {' > '.join(short[policy] for policy in _order(means, column))}"
        for column in COLUMNS
    )
