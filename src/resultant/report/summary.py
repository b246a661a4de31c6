"""What an analysis comes to, in ten lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from resultant.frozen import Analysis, ClassEffect, Recommendation
from resultant.report.words import NAMES, of_features, p_value, percent, points, policy


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
    found.insert(0, ("use", f"{used} on {of_features(chosen)}, {_accuracy(a)} accurate"))
    found += _kept(r) if r.candidate == "native" else _changes(r, names)
    if g is not None:
        spread = f"{g.minimum:.2f} to {g.maximum:.2f}, spread {percent(g.spread, 1)}"
        found.append(("angular gain", f"{spread}, at temperature {s.tau:g}"))
    if c is not None:
        same = f"decides as Pure Angular at β = 0 on {percent(c.agreement)} of the rows"
        found.append(("cosine", f"{same}; {percent(c.coverage, 1)} certified"))
    return found


def _kept(r: Recommendation) -> list[tuple[str, str]]:
    """What native does, where nothing else was better."""
    nothing = "nothing to gain: no other realization was more accurate"
    return [
        ("accuracy", f"{nothing} ({r.queries:,} rows)"),
        ("calibration", f"error {percent(r.ece_before)}, cross-entropy {r.nll_before:.3f}"),
        *((name, "no change") for name in ("groups", "rise most", "fall most")),
    ]


def _changes(r: Recommendation, names: Sequence[str]) -> list[tuple[str, str]]:
    """What the best candidate changes, or would change if it were used."""
    tried, kept = policy(r.candidate, r.candidate_beta), r.realization == "native"
    rows = f"{r.queries:,} rows that did not choose it"
    gain = f"{points(r.gain)} points over {NAMES['native']}"
    interval = f"95 % interval {points(r.low)} to {points(r.high)}"
    accuracy = f"{gain}, {interval} ({p_value(r.p_value)}, {rows})"
    if not r.better + r.worse:
        # An interval of no width would promise more than these rows show.
        accuracy = f"right on the same of {rows}"
    errors = f"error {percent(r.ece_before)} to {percent(r.ece_after)}"
    groups = ", ".join(f"{name} {points(v)}" for name, v in r.groups.items() if v is not None)
    found = {
        "accuracy": accuracy,
        "calibration": f"{errors}, cross-entropy {r.nll_before:.3f} to {r.nll_after:.3f}",
        "groups": f"{groups} points",
        "rise most": _effects(r.gained, names),
        "fall most": _effects(r.lost, names),
    }
    subject = f"{tried}: " if kept else ""
    return [(heading, subject + text) for heading, text in found.items()]


def _features(analyses: Mapping[str, Analysis], where: str) -> str:
    s = next(iter(analyses.values())).space
    spaces = ", ".join(f"{name} of {a.space.dim} dimensions" for name, a in analyses.items())
    apart = f"{s.calibration:,} for calibration, " if s.calibration else ""
    rows = f"{s.fitting:,} rows fitted, {apart}{s.held_out:,} held out"
    return f"{where}: {s.num_classes:,} classes, {rows}; {spaces}"


def _accuracy(a: Analysis) -> str:
    r = a.recommendation
    assert r is not None
    return percent(r.accuracy_before if r.realization == "native" else r.accuracy_after)


def _effects(effects: Sequence[ClassEffect], names: Sequence[str]) -> str:
    said = []
    for e in effects[:3]:
        name = names[e.index]
        name = f"class {name}" if name.isdigit() else name
        said.append(f"{name} {points(e.after - e.before)} (n = {e.count})")
    return ", ".join(said) or "none"
