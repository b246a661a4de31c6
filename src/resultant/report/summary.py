"""The summary of an analysis, in ten lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from resultant._core.text import counted
from resultant.analysis import Analysis, ClassEffect, GainDistribution, Recommendation
from resultant.classes.groups import group_rule
from resultant.report.words import (
    NAMES,
    ONE_SIZE,
    class_name,
    features_name,
    p_value,
    percent,
    points,
    rule_name,
)


def foremost(analyses: Mapping[str, Analysis]) -> str:
    """Return the features whose recommended rule is the most accurate."""

    def accuracy(name: str) -> float:
        if (advice := analyses[name].advice) is not None:
            row = advice.row(advice.advised)
            return row.balanced if advice.metric == "balanced" else row.accuracy
        r = analyses[name].recommendation
        if r is None:
            return -1.0
        return r.accuracy_before if r.realization == "native" else r.accuracy_after

    return max(analyses, key=accuracy)


# Headings of the three sentences of an advice.
HEADINGS = ("found", "do", "worth")


def headline(a: Analysis) -> list[tuple[str, str]]:
    """Return the three sentences of an advice with their headings; nothing without advice."""
    if a.advice is None:
        return []
    return list(zip(HEADINGS, a.advice.headline, strict=True))


def summary(
    analyses: Mapping[str, Analysis], where: str, names: Sequence[str]
) -> list[tuple[str, str]]:
    """Return nine facts as pairs of heading and text, the recommendation first.

    Args:
        analyses: Analyses by the names of their features.
        where: Name of the source.
        names: Names of the classes [C].
    """
    chosen = foremost(analyses)
    a = analyses[chosen]
    s, r = a.space, a.recommendation
    facts = [("features", _features(analyses, where))]
    if a.advice is not None:
        warnings = [("warning", w.text) for w in a.advice.warnings]
        return [*headline(a), *facts, *_gain_facts(a), *warnings]
    if r is None:
        reason = (a.notes or {}).get("recommendation", "not asked")
        return [("use", f"no recommendation: {reason}"), *facts]
    rows = counted(s.held_out, "held-out row", "held-out rows")
    rule = f"{rule_name(r.realization, r.beta)} on {features_name(chosen)}"
    accuracy = f"{_accuracy(a)} accurate on all {rows}{_original(analyses, chosen)}"
    facts.insert(0, ("use", f"{rule}, {accuracy}"))
    facts += _kept(a, r) if r.candidate == "native" else _changes(a, r, chosen, names)
    return [*facts, *_gain_facts(a)]


def _gain_facts(a: Analysis) -> list[tuple[str, str]]:
    """Return the facts about gains and the cosine rule."""
    facts = []
    if a.gains is not None:
        facts.append(("angular gain", f"{_gains(a.gains)}, at temperature {a.space.tau:g}"))
    if (c := a.cosine) is not None:
        same = f"agrees with Pure Angular at β = 0 on {percent(c.agreement)} of all rows"
        facts.append(("cosine", f"{same}; {percent(c.coverage, 1)} certified"))
    return facts


def _original(analyses: Mapping[str, Analysis], chosen: str) -> str:
    """Return the accuracy of native on these features, unless native is used, and on the others."""
    before = {
        name: percent(a.recommendation.accuracy_before)
        for name, a in analyses.items()
        if a.recommendation is not None
    }
    first = analyses[chosen].recommendation
    parts = [f"{at} on {name}" for name, at in before.items() if name != chosen]
    if first is not None and first.realization != "native":
        parts.insert(0, f"{before[chosen]} on {chosen}" if parts else before[chosen])
    return f" ({NAMES['native']}: {', '.join(parts)})" if parts else ""


def _gains(g: GainDistribution) -> str:
    text = f"{g.minimum:.2f} to {g.maximum:.2f}, spread {percent(g.spread)}"
    bias = "without the bias of few rows"
    if g.corrected_spread is not None:
        text += f" ({percent(g.corrected_spread)} {bias})"
    if g.rank_correlation is not None and len(g.gain) > 2:
        text += f", rank correlation with class size {g.rank_correlation:+.2f}"
    if g.corrected_rank_correlation is not None and len(g.gain) > 2:
        text += f" ({g.corrected_rank_correlation:+.2f} {bias})"
    if g.uncorrected and g.corrected_spread is not None:
        single = counted(len(g.uncorrected), "class", "classes")
        text += f" and without {single} of one row"
    return text


def _kept(a: Analysis, r: Recommendation) -> list[tuple[str, str]]:
    """Return the facts about native if no candidate was better."""
    nothing = "nothing to gain: no other realization is more accurate on the half that chooses"
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
    """Return the changes by the best candidate, whether it is advised or not."""
    candidate, kept = rule_name(r.candidate, r.candidate_beta), r.realization == "native"
    judged = f"judging half ({counted(r.queries, 'row', 'rows')} that did not choose)"
    native = f"{NAMES['native']} on {features_name(features)}"
    interval = f"95 % interval {points(r.low)} to {points(r.high)}"
    accuracy = f"{points(r.gain)} points over {native}, {interval}, {p_value(r.p_value)}"
    if not r.better + r.worse:
        # An interval of zero width would claim more than these rows show.
        accuracy = f"correct on the same rows as {native}"
    change = f"all rows: {points(r.accuracy_after - r.accuracy_before)} points"
    errors = f"error {percent(r.ece_before)} to {percent(r.ece_after)}"
    groups = ", ".join(f"{name} {points(v)}" for name, v in r.groups.items() if v is not None)
    rule = group_rule(a.space.num_classes)
    facts = {
        "accuracy": f"{judged}: {accuracy}; {change}",
        "calibration": f"all rows: {errors}, cross-entropy {r.nll_before:.3f} to {r.nll_after:.3f}",
        "groups": f"all rows: {groups} points ({rule})",
        "rise most": f"all rows: {_effects(r.gained, names)}",
        "fall most": f"all rows: {_effects(r.lost, names)}",
    }
    # Without the name the facts would read as effects of the advice.
    subject = f"{candidate} (not advised), " if kept else ""
    facts = {heading: subject + text for heading, text in facts.items()}
    return list((facts if groups else facts | {"groups": ONE_SIZE}).items())


def _features(analyses: Mapping[str, Analysis], where: str) -> str:
    s = next(iter(analyses.values())).space
    spaces = ", ".join(f"{name} of {a.space.dim} dimensions" for name, a in analyses.items())
    spaces += " (--features NAME selects one)" if len(analyses) > 1 else ""
    apart = f"{s.calibration:,} for calibration, " if s.calibration else ""
    rows = f"{counted(s.fitting, 'row', 'rows')} fitted, {apart}{s.held_out:,} held out"
    return f"{where}: {s.num_classes:,} classes, {rows}; {spaces}"


def _accuracy(a: Analysis) -> str:
    r = a.recommendation
    assert r is not None
    return percent(r.accuracy_before if r.realization == "native" else r.accuracy_after)


def _effects(effects: Sequence[ClassEffect], names: Sequence[str]) -> str:
    texts = (
        f"{class_name(names[e.index])} {points(e.after - e.before)} (n = {e.count})"
        for e in effects[:3]
    )
    return ", ".join(texts) or "none"
