"""What an analysis comes to, in ten lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from resultant.frozen import Analysis, ClassEffect
from resultant.report.words import p_value, percent, points, policy


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
    kept = r.realization == "native"
    tried = policy(r.candidate, r.candidate_beta)
    found.insert(0, ("use", f"{used} on {chosen} features, {_accuracy(a)} accurate"))
    interval = f"{points(r.gain)} points, 95 % interval {points(r.low)} to {points(r.high)}"
    on = f"{p_value(r.p_value)}, {r.queries:,} rows that did not choose it"
    subject = f"{tried} would change {interval}" if kept else interval
    if r.candidate == "native":
        subject, on = "nothing to gain: no other realization was more accurate", f"{r.queries:,}"
        on += " rows"
    found.append(("accuracy", f"{subject} ({on})"))
    found.append(
        (
            "calibration",
            f"error {percent(r.ece_before)} to {percent(r.ece_after)}, cross-entropy "
            f"{r.nll_before:.3f} to {r.nll_after:.3f}" + (f" ({tried})" if kept else ""),
        )
    )
    groups = ", ".join(f"{name} {points(v)}" for name, v in r.groups.items() if v is not None)
    found.append(("groups", f"{groups} points"))
    found.append(("rise most", _effects(r.gained, names)))
    found.append(("fall most", _effects(r.lost, names)))
    if g is not None:
        spread = f"{g.minimum:.2f} to {g.maximum:.2f}, spread {percent(g.spread, 1)}"
        found.append(("angular gain", f"{spread}, at temperature {s.tau:g}"))
    if c is not None:
        same = f"decides as Pure Angular at β = 0 on {percent(c.agreement)} of the rows"
        found.append(("cosine", f"{same}; {percent(c.coverage, 1)} certified"))
    return found


def _features(analyses: Mapping[str, Analysis], where: str) -> str:
    s = next(iter(analyses.values())).space
    spaces = ", ".join(f"{name} {a.space.dim}" for name, a in analyses.items())
    rows = f"{s.fitting + s.calibration:,} rows fitted, {s.held_out:,} held out"
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
