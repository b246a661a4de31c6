"""What an analysis comes to, in ten lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from resultant.analysis import Analysis, ClassEffect, GainDistribution, Recommendation
from resultant.classes.groups import group_rule
from resultant.report.words import (
    NAMES,
    ONE_SIZE,
    class_name,
    counted,
    of_features,
    p_value,
    percent,
    points,
    policy,
)


def foremost(analyses: Mapping[str, Analysis]) -> str:
    """The space whose recommended rule is the most accurate."""

    def reached(name: str) -> float:
        r = analyses[name].recommendation
        if r is None:
            return -1.0
        return r.accuracy_before if r.realization == "native" else r.accuracy_after

    return max(analyses, key=reached)


def summary(
    analyses: Mapping[str, Analysis], where: str, names: Sequence[str]
) -> list[tuple[str, str]]:
    """Nine facts, heading and text, of which the first is the recommendation."""
    chosen = foremost(analyses)
    a = analyses[chosen]
    s, r, g, c = a.space, a.recommendation, a.gains, a.cosine
    found = [("features", _features(analyses, where))]
    if r is None:
        said = (a.notes or {}).get("recommendation", "not asked")
        return [("use", f"no recommendation: {said}"), *found]
    used = policy(r.realization, r.beta)
    reached = (
        f"{_accuracy(a)} accurate on all {counted(s.held_out, 'held-out row', 'held-out rows')}"
    )
    original = _original(analyses, chosen)
    found.insert(0, ("use", f"{used} on {of_features(chosen)}, {reached}{original}"))
    found += _kept(a, r) if r.candidate == "native" else _changes(a, r, of_features(chosen), names)
    if g is not None:
        found.append(("angular gain", f"{_gains(g)}, at temperature {s.tau:g}"))
    if c is not None:
        same = f"decides as Pure Angular at β = 0 on {percent(c.agreement)} of all rows"
        found.append(("cosine", f"{same}; {percent(c.coverage, 1)} certified"))
    return found


def _original(analyses: Mapping[str, Analysis], chosen: str) -> str:
    """What native does there, unless it is what is used, and in the other spaces."""
    before = {
        name: percent(a.recommendation.accuracy_before)
        for name, a in analyses.items()
        if a.recommendation is not None
    }
    first = analyses[chosen].recommendation
    said = [f"{at} on {name}" for name, at in before.items() if name != chosen]
    if first is not None and first.realization != "native":
        said.insert(0, f"{before[chosen]} there" if said else before[chosen])
    return f" ({NAMES['native']}: {', '.join(said)})" if said else ""


def _gains(g: GainDistribution) -> str:
    said = f"{g.minimum:.2f} to {g.maximum:.2f}, spread {percent(g.spread)}"
    bias = "without the bias of few rows"
    if g.corrected_spread is not None:
        said += f" ({percent(g.corrected_spread)} {bias})"
    if g.rank_correlation is not None:
        said += f", rank correlation with class size {g.rank_correlation:+.2f}"
    if g.corrected_rank_correlation is not None:
        said += f" ({g.corrected_rank_correlation:+.2f} {bias})"
    if g.uncorrected and g.corrected_spread is not None:
        single = counted(len(g.uncorrected), "class", "classes")
        said += f" and without {single} of one row"
    return said


def _kept(a: Analysis, r: Recommendation) -> list[tuple[str, str]]:
    """What native does, where nothing else was better."""
    nothing = "nothing to gain: no other realization was more accurate on the half that chooses"
    error = f"error {percent(r.ece_before)}, cross-entropy {r.nll_before:.3f}"
    return [
        ("accuracy", f"{nothing} ({counted(a.space.held_out - r.queries, 'row', 'rows')})"),
        ("calibration", f"all rows: {error}"),
        ("groups", "no change" if r.groups else ONE_SIZE),
        *((name, "no change") for name in ("rise most", "fall most")),
    ]


def _changes(
    a: Analysis, r: Recommendation, features: str, names: Sequence[str]
) -> list[tuple[str, str]]:
    """What the best candidate changes, or would change if it were used."""
    tried, kept = policy(r.candidate, r.candidate_beta), r.realization == "native"
    judged = f"judging half ({counted(r.queries, 'row', 'rows')} that did not choose it)"
    native = f"{NAMES['native']} of {features}"
    interval = f"95 % interval {points(r.low)} to {points(r.high)}"
    accuracy = f"{points(r.gain)} points over {native}, {interval}, {p_value(r.p_value)}"
    if not r.better + r.worse:
        # An interval of no width would promise more than these rows show.
        accuracy = f"right on the same rows as {native}"
    change = f"all rows: {points(r.accuracy_after - r.accuracy_before)} points"
    errors = f"error {percent(r.ece_before)} to {percent(r.ece_after)}"
    groups = ", ".join(f"{name} {points(v)}" for name, v in r.groups.items() if v is not None)
    rule = group_rule(a.space.num_classes)
    found = {
        "accuracy": f"{judged}: {accuracy}; {change}",
        "calibration": f"all rows: {errors}, cross-entropy {r.nll_before:.3f} to {r.nll_after:.3f}",
        "groups": f"all rows: {groups} points ({rule})",
        "rise most": f"all rows: {_effects(r.gained, names)}",
        "fall most": f"all rows: {_effects(r.lost, names)}",
    }
    # Without a word they would read as effects of the advice.
    subject = f"{tried} (not advised), " if kept else ""
    found = {heading: subject + text for heading, text in found.items()}
    return list((found if groups else found | {"groups": ONE_SIZE}).items())


def _features(analyses: Mapping[str, Analysis], where: str) -> str:
    s = next(iter(analyses.values())).space
    spaces = ", ".join(f"{name} of {a.space.dim} dimensions" for name, a in analyses.items())
    spaces += " (--features NAME takes one of them)" if len(analyses) > 1 else ""
    apart = f"{s.calibration:,} for calibration, " if s.calibration else ""
    rows = f"{counted(s.fitting, 'row', 'rows')} fitted, {apart}{s.held_out:,} held out"
    return f"{where}: {s.num_classes:,} classes, {rows}; {spaces}"


def _accuracy(a: Analysis) -> str:
    r = a.recommendation
    assert r is not None
    return percent(r.accuracy_before if r.realization == "native" else r.accuracy_after)


def _effects(effects: Sequence[ClassEffect], names: Sequence[str]) -> str:
    said = (
        f"{class_name(names[e.index])} {points(e.after - e.before)} (n = {e.count})"
        for e in effects[:3]
    )
    return ", ".join(said) or "none"
