"""Claims about the historical power-temperature family (sec:historical-power-temperature)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

from resultant.training.config import TrainConfig
from resultant_reproduction.evaluate import (
    CLOSE,
    DRAW,
    Evaluation,
    conclude,
    guess,
    signs,
    statement,
    widened,
    with_draw,
)
from resultant_reproduction.evidence import Evidence
from resultant_reproduction.formats import network_counts, p_equation, span
from resultant_reproduction.historical import (
    COLUMNS,
    POLICIES,
    SECOND,
    STRENGTHS,
    increment_errors,
    measures,
    planned,
    settings,
    shown,
)
from resultant_reproduction.records import paired
from resultant_reproduction.spec import NOT_RUN, VERDICTS, Change, Claim
from resultant_reproduction.stats import significant
from resultant_reproduction.value import Value


class Measured(NamedTuple):
    """Numbers of one measure, each a mean over networks, with their text, and whether they meet a
    rule."""

    measure: str
    values: Sequence[Value]
    text: str = ""
    holds: bool | None = None
    rule: str = ""


TAKEN = "the paper names no setting for it, which is taken to be that of its gains"


def historical_claims(evidence: Evidence) -> Iterator[Claim]:
    """sec:historical-power-temperature, sec:historical-gradient, CIFAR-100 IF 100, and the
    classifiers of sec:historical-classification."""
    yield conclude(statement("power-orders"), _orders(evidence), "power")
    for name, key in (
        ("power-applied-gain", "applied_gain_sd"),
        ("power-native-gain", "gain_sd"),
        ("power-gradient-error", "gradient_error"),
    ):
        claim, ways = statement(name), measures(key)
        evaluation = [_last(evidence, way, number, claim.numbers) for way, number in ways.items()]
        result = conclude(claim, _by_measure(evaluation, len(POLICIES)), "power")
        if result.verdict != NOT_RUN and key == "gain_sd":
            why = f"{result.why}; of sizes alone, the order is asked by increased less reduced"
            result = replace(result, why=why)
        if result.verdict != NOT_RUN and len(ways) > 1:
            others = [
                _span(f"{SECOND}, {place}", _numbers(evidence, ways[SECOND], config).values())
                for place, config in list(settings().items())[1:]
            ]
            result = _beside(result, others)
        yield result
    yield conclude(statement("power-native-order"), _native_order(evidence), "power")
    yield _increment_claim(evidence)


def _beside(claim: Claim, others: Sequence[Measured]) -> Claim:
    """Append numbers that are not judged."""
    texts = "; ".join(f"{m.measure} {m.text}; {_counts(m)}" for m in others if m.values)
    ours = f"{claim.ours}; also: {texts}" if texts else claim.ours
    return replace(claim, ours=ours, why=f"{claim.why}; {TAKEN}")


def _numbers(evidence: Evidence, key: str, config: TrainConfig) -> dict[str, Value]:
    """A number of the last epoch by policy."""
    numbers = {
        name: evidence.records.value(config, *policy, f"last.{key}", 1.0)
        for name, policy in POLICIES.items()
    }
    return {name: ours for name, ours in numbers.items() if ours is not None}


def _last(evidence: Evidence, measure: str, key: str, printed: Sequence[float]) -> Measured:
    paper = dict(zip(POLICIES, printed, strict=True))
    known = _numbers(evidence, key, shown())
    text = ", ".join(f"{n.split()[0]} {with_draw(ours, paper[n], 3)}" for n, ours in known.items())
    near = all(CLOSE.near(ours.mean, paper[name]) for name, ours in known.items())
    return Measured(measure, list(known.values()), text, near, f"{CLOSE.rule}{DRAW}")


def _span(measure: str, values: Iterable[Value]) -> Measured:
    known = list(values)
    if not known:
        return Measured(measure, [])
    text, deviations = span([v.mean for v in known], 2), [v.sd for v in known if v.sd is not None]
    text += f", sd up to {max(deviations):.2f}" if deviations else ""
    return Measured(measure, known, text)


def _increment_claim(evidence: Evidence) -> Claim:
    """The paper says "mean relative error", and so the mean over queries is judged; the same
    stacked, and in the other settings, is shown."""
    claim = statement("power-increments")
    (stacked, one), (mean, two) = measures("increment_error").items()
    judged = _increments(evidence, mean, two, shown())
    beside = [
        _increments(evidence, stacked, one, shown()),
        *(
            _increments(evidence, f"{mean}, {place}", two, config)
            for place, config in list(settings().items())[1:]
        ),
    ]
    if not judged.values and not any(m.values for m in beside):
        return conclude(claim, None, "power")
    if not judged.values:
        rule = (
            "the mean over queries is judged, and no record of this setting has it: resultant "
            "reproduce run power"
        )
        evaluation = Evaluation(f"{mean}: no record", None, rule)
        return _beside(conclude(claim, evaluation, "power"), beside)
    means = [v.mean for v in judged.values]
    low, high = claim.numbers
    holds, rule = widened(means, low, high)
    measured = judged._replace(holds=holds, rule=rule)
    evaluation = _by_measure([measured], len(POLICIES) * len(STRENGTHS))
    result = conclude(claim, evaluation, "power")
    if max(means) < low:
        why = f"{result.why}; smaller errors, with which the leading gain explains more, not less"
        result = replace(result, why=why)
    return _beside(result, beside)


def _increments(evidence: Evidence, measure: str, key: str, config: TrainConfig) -> Measured:
    """Errors of leading gradient increments of both strengths at all policies, last epoch."""
    courses = (
        course
        for policy in POLICIES.values()
        for course in increment_errors(evidence.records.seeds(config, *policy), key).values()
    )
    return _span(measure, [v for c in courses if (v := c.at(config.epochs)) is not None])


def _native_order(evidence: Evidence) -> Evaluation | None:
    """Learned states do not take the applied order; its ends are compared."""
    claim = statement("power-native-order")
    reduced, increased = ((shown(), *POLICIES[name]) for name in STRENGTHS.values())
    differences = evidence.records.differences(increased, reduced, "last.gain_sd", 1.0)
    change = Change(claim.text, "", claim.numbers[0], differences)
    if change.ours is None:
        return None
    p = "" if change.p_value is None else f", {p_equation(change.p_value)}"
    ours = f"{change.ours.text(3, sign=True)}{p}; {_counts(Measured('', [change.ours]))}"
    rule = (
        "negative with p < 0.05 over seeds; positive so is against it, and one seed is not tested"
    )
    return guess(signs([change], ours, 1, rule=rule), "order")


def _by_measure(evaluation: Sequence[Measured], of: int) -> Evaluation | None:
    """Evaluate ``of`` sizes by each measure; the measure with the best verdict counts."""
    if not any(m.values for m in evaluation):
        return None
    claim = statement("power-gradient-error")
    results = []
    for m in evaluation:
        name = f"{m.measure}: " if m.measure else ""
        own = Evaluation(f"{name}no record", None, "")
        if m.values:
            text, networks = f"{name}{m.text}; {_counts(m)}", min(v.n for v in m.values)
            own = Evaluation(text, m.holds, m.rule, len(m.values), of, networks=networks)
        results.append((own, conclude(claim, own, "")))
    best, _ = min(results, key=lambda pair: VERDICTS.index(pair[1].verdict))
    rule = best.rule or next(m.rule for m in evaluation if m.values)
    if len(evaluation) > 1:
        names = " or ".join(m.measure for m in evaluation)
        rule += f"; by either measure, for the paper does not say which is its own ({names})"
    ours = "; ".join(result.ours for _, result in results)
    return replace(best, ours=ours, rule=rule, tested=1, of=1, guessed="size")


def _counts(evaluation: Measured) -> str:
    """Format the numbers of networks, and the planned number if it is larger. Plans do not ask for
    the second measure."""
    text, few = network_counts(v.n for v in evaluation.values), min(v.n for v in evaluation.values)
    all_planned = few >= planned("ProCo") or evaluation.measure.startswith(SECOND)
    return text if all_planned else f"{text} of {planned('ProCo')}"


def _orders(evidence: Evidence) -> Evaluation | None:
    """No policy is the best in every setting."""
    values = {
        (policy, column): evidence.records.values(config, *POLICIES[policy], "last.accuracy")
        for policy in POLICIES
        for column, config in settings().items()
    }
    if not all(values.values()):
        return None
    known = {at: v for at, own in values.items() if (v := Value.of(list(own.values())))}
    means = {at: v.mean for at, v in known.items()}
    changes = [
        Change(f"{after} less {before}", column, None, paired(values[after, column], own))
        for before, after in combinations(POLICIES, 2)
        for column in COLUMNS
        for own in (values[before, column],)
    ]
    by_pair: dict[str, set[bool]] = {}
    for change in significant(changes):
        assert change.ours is not None
        by_pair.setdefault(change.row, set()).add(change.ours.mean > 0)
    both = [row for row, own in by_pair.items() if len(own) == 2]
    text = _ordered(means) + (f"; both signs of {', '.join(both)}" if both else "")
    same = len({tuple(_order(means, column)) for column in COLUMNS}) == 1
    rule = (
        "one difference of two policies is seen with both signs by Holm's correction; the same "
        "order of the means in all settings is against it"
    )
    evaluation = Measured("", list(known.values()), text)
    networks = min(v.n for v in known.values())
    holds = True if both else False if same else None
    ours = f"{text}; {_counts(evaluation)}"
    size = len(values)
    return Evaluation(ours, holds, rule, size, size, networks=networks, guessed="order")


def _order(means: Mapping[tuple[str, str], float], column: str) -> list[str]:
    return sorted(POLICIES, key=lambda policy: -means[policy, column])


def _ordered(means: Mapping[tuple[str, str], float]) -> str:
    short = {policy: policy.split()[0] for policy in POLICIES}
    return "; ".join(
        f"{column}: {' > '.join(short[policy] for policy in _order(means, column))}"
        for column in COLUMNS
    )
