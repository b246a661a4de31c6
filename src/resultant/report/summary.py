"""The summary of an analysis, in ten lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from resultant._core.text import counted, listed
from resultant.analysis import Advice, Analysis, GainDistribution
from resultant.analysis.choice import PROJECTION, foremost_features
from resultant.report.words import percent

# Headings of the three sentences of an advice.
HEADINGS = ("found", "do", "worth")


def foremost(analyses: Mapping[str, Analysis]) -> str:
    """Return the features of the headline, by `foremost_features`; held-out rows have no say.

    Features that are compared with references come first: fast references are fitted to the
    features of the headline alone.
    """
    advice = {name: a.advice for name, a in analyses.items() if a.advice is not None}
    compared = {n: a for n, a in advice.items() if a.verdict != "alone"} or advice
    if not compared:
        return next(iter(analyses))
    split = next(iter(compared.values())).split
    return foremost_features({n: a.nearest for n, a in compared.items()}, split)


def headline(a: Analysis) -> list[tuple[str, str]]:
    """Return the sentences of an advice with their headings; nothing without advice."""
    if a.advice is None:
        return []
    return list(zip(HEADINGS, a.advice.headline, strict=True))


def summary(
    analyses: Mapping[str, Analysis], where: str, names: Sequence[str]
) -> list[tuple[str, str]]:
    """Return facts as pairs of heading and text, the advice first.

    Args:
        analyses: Analyses by the names of their features.
        where: Name of the source.
        names: Names of the classes [C].
    """
    return [*advice_facts(analyses), *measured_facts(analyses, where)]


def advice_facts(analyses: Mapping[str, Analysis]) -> list[tuple[str, str]]:
    """Return the facts that compare with the references, as pairs of heading and text."""
    a = analyses[foremost(analyses)]
    if a.advice is None:
        reason = (a.notes or {}).get("advice", "not asked")
        return [("use", f"no advice: {reason}")]
    text = _references(a.advice)
    return [*headline(a), *([("references", text)] if text else [])]


def rules_fact(analyses: Mapping[str, Analysis]) -> list[tuple[str, str]]:
    """Return the vMF rules on the held-out rows, which are known before any reference is."""
    advice = analyses[foremost(analyses)].advice
    if advice is None:
        return []
    balanced = advice.metric == "balanced"
    rows = [(row.balanced if balanced else row.accuracy, row) for row in advice.table]
    rows.sort(key=lambda pair: -pair[0])
    text = ", ".join(f"{row.name} {percent(value)}" for value, row in rows if row.kind == "vmf")
    word = "balanced accuracy" if balanced else "accuracy"
    return [("vMF rules", f"{text} {word} on {advice.judged_rows:,} held-out rows")]


def measured_facts(analyses: Mapping[str, Analysis], where: str) -> list[tuple[str, str]]:
    """Return the other facts, as pairs of heading and text; see `summary`."""
    chosen = foremost(analyses)
    a = analyses[chosen]
    facts = [("features", _features(analyses, chosen, where))]
    if a.gains is not None:
        facts.append(("angular gain", f"{_gains(a.gains)}, at temperature {a.space.tau:g}"))
    if (c := a.cosine) is not None:
        same = "the nearest class direction predicts as Pure Angular at β = 0 on "
        same += f"{percent(c.agreement)} of the held-out rows"
        facts.append(("cosine", f"{same}; certificates prove it for {percent(c.coverage, 1)}"))
    warnings = () if a.advice is None else a.advice.warnings
    return [*facts, *(("warning", warning.text) for warning in warnings)]


def _references(advice: Advice) -> str:
    """Return a sentence about references that were fitted to fewer rows or left out, or ""."""
    fewer = [row for row in advice.table if row.kind == "reference" and "sample of" in row.note]
    if not fewer:
        return advice.left_out
    names = listed((row.name for row in fewer), len(fewer))
    hint = "; --references all fits more" if "--references all" in fewer[0].note else ""
    were = "were" if fewer[1:] else "was"
    return f"{names} {were} fitted to a sample of the rows{hint}. {advice.left_out}".strip()


def reason_of_features(analyses: Mapping[str, Analysis], chosen: str) -> str:
    """Say in a few words why the headline is about the chosen one of several features."""
    advice, why = analyses[chosen].advice, ""
    if advice is not None:
        why = f", the best class directions by {advice.chosen_on}"
        if advice.split != "val" and chosen != PROJECTION in analyses:
            why = f"; {PROJECTION} was trained by the loss, so only a split val could choose it"
    return f"advice for {chosen}{why}"


def _features(analyses: Mapping[str, Analysis], chosen: str, where: str) -> str:
    s = analyses[chosen].space
    spaces = ", ".join(f"{name} of {a.space.dim} dimensions" for name, a in analyses.items())
    if len(analyses) > 1:
        spaces += f" ({reason_of_features(analyses, chosen)}; --features NAME selects one)"
    apart = f"{s.calibration:,} for calibration, " if s.calibration else ""
    rows = f"{counted(s.fitting, 'row', 'rows')} fitted, {apart}{s.held_out:,} held out"
    return f"{where}: {s.num_classes:,} classes, {rows}; {spaces}"


def _gains(g: GainDistribution) -> str:
    text = f"{g.minimum:.2f} to {g.maximum:.2f}, spread {percent(g.spread)}"
    bias = "without the bias of few rows"
    if g.corrected_spread is not None:
        text += f" ({percent(g.corrected_spread)} {bias})"
    if g.rank_correlation is not None:
        text += f", rank correlation with class size {g.rank_correlation:+.2f}"
    if g.corrected_rank_correlation is not None:
        text += f" ({g.corrected_rank_correlation:+.2f} {bias})"
    if g.uncorrected and g.corrected_spread is not None:
        single = counted(len(g.uncorrected), "class", "classes")
        text += f" and without {single} of one row"
    return text
