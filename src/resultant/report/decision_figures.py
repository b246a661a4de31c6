"""Figures of the gains of the classes and of the calibration of the rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from resultant._core.text import counted
from resultant.analysis import Analysis, GridPoint
from resultant.report import style
from resultant.report.charts import COLOURS, Axis, Chart, Level, Line, Points
from resultant.report.words import before_and_after, percent, rule_name

# Bins with fewer rows are not drawn: a single row has an accuracy of zero or one.
FEWEST = 20


def gains(a: Analysis) -> Chart | None:
    """Return the gains against the sizes of the classes."""
    if (r := a.gains) is None:
        return None
    with_counts, corrected, marks = "", "", []
    if r.rank_correlation is not None and len(r.gain) > 2:
        with_counts = f"; their rank correlation with class size is {r.rank_correlation:+.2f}"
    if r.corrected_spread is not None:
        corrected = f" the spread is {percent(r.corrected_spread)}"
        if r.corrected_rank_correlation is not None and len(r.gain) > 2:
            corrected += f" and the rank correlation {r.corrected_rank_correlation:+.2f}"
        corrected = (
            " The mean of few rows is too long on average, which raises the gains of small "
            f"classes; without this bias (hollow marks){corrected}. The correction removes the "
            "effect of the number of rows, but not the random error, which is largest in small "
            "classes."
        )
        marks.append(_classes(r.count.double(), r.corrected_gain, r.group, hollow=True))
    if r.uncorrected:
        single = counted(len(r.uncorrected), "class with one row is", "classes with one row are")
        corrected += f" {single} left out of the correction."
    marks += [Level(r.mean, dash="dashed"), _classes(r.count.double(), r.gain, r.group)]
    return Chart(
        "gains",
        "Gains of the classes",
        "One shared temperature gives the classes different angular scales: their gains range from "
        f"{r.minimum:.2f} to {r.maximum:.2f}, a spread of {percent(r.spread)} around the mean of "
        f"{r.mean:.2f} (dashed){with_counts}.{corrected}",
        "fig:gain-discovery",
        Axis("training rows of the class", log=True),
        Axis("gain g = A / τ"),
        tuple(marks),
    )


def calibration(a: Analysis) -> Chart | None:
    """Return accuracy against confidence of native and of the best candidate."""
    both = before_and_after(a)
    if both is None or both[1].reliability is None or both[0].ece is None or both[1].ece is None:
        return None
    native, best = both
    named = {rule_name(p.realization, p.beta): (p, COLOURS[p.realization]) for p in both}
    error = f"{rule_name('native', 1.0)} has an expected calibration error of {percent(native.ece)}"
    if best is not native:
        error += f", {rule_name(best.realization, best.beta)} of {percent(best.ece)}"
    return reliability(f"{error}; a calibrated rule lies on the dotted diagonal.", named)


def reliability(sentence: str, named: Mapping[str, tuple[GridPoint, str]]) -> Chart:
    """Return accuracy against confidence, one curve per name in its colour."""
    curves, top = [], 0.0
    for name, (point, colour) in named.items():
        if (r := point.reliability) is None:
            continue
        kept = (r.count >= FEWEST).nonzero()[:, 0]
        x, y = r.confidence[kept].tolist(), r.accuracy[kept].tolist()
        curves.append(Line(x, y, name, colour))
        top = max([top, *x])
    top = top or 1.0
    diagonal = Line([0, top], [0, top], colour=style.GREY, dash="dotted", marks=False, width=1)
    # The diagonal and a single mark are no figure.
    drawn = any(len(curve.x) > 1 for curve in curves)
    return Chart(
        "calibration",
        "Calibration",
        f"{sentence} {sparse_bins(point for point, _ in named.values())}",
        "sec:backbone-calibration-extension",
        Axis("confidence", ends=(0, 1.05 * top)),
        Axis("accuracy", ends=(0, 1.02)),
        (diagonal, *curves) if drawn else tuple(curves),
    )


def sparse_bins(points: Iterable[GridPoint | None]) -> str:
    """Return a sentence about the bins that `reliability` leaves out."""
    counts = [p.reliability.count for p in points if p is not None and p.reliability is not None]
    hidden = max(int(n[n < FEWEST].sum()) for n in counts)
    text = f"Bins with fewer than {FEWEST} rows are not drawn: at most "
    return f"{text}{counted(hidden, 'row', 'rows')} in {len(counts[0])} bins."


def _classes(x, y, group, hollow: bool = False) -> Points:
    return Points(x, y, colour=style.BLUE, kind="class", group=group, hollow=hollow)
