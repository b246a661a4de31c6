"""Figures of the gains of the classes and of the calibration of the rules."""

from __future__ import annotations

from collections.abc import Mapping

from resultant._core.text import counted
from resultant.analysis import Analysis
from resultant.analysis.advice import Reliability
from resultant.report import style
from resultant.report.charts import Axis, Chart, Level, Line, Points
from resultant.report.words import percent

# Bins with fewer rows are not drawn: a single row has an accuracy of zero or one.
FEWEST = 20


def gains(a: Analysis) -> Chart | None:
    """Return the gains against the sizes of the classes."""
    if (r := a.gains) is None:
        return None
    with_counts, corrected, marks = "", "", []
    if r.rank_correlation is not None:
        with_counts = f"; their rank correlation with class size is {r.rank_correlation:+.2f}"
    if r.corrected_spread is not None:
        corrected = f" the spread is {percent(r.corrected_spread)}"
        if r.corrected_rank_correlation is not None:
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
    """Return accuracy against confidence of the advised rule, before and after calibration."""
    if a.advice is None:
        return None
    row = a.advice.row(a.advice.advised)
    before, after = row.before, row.after
    if before.reliability is None or after.reliability is None:
        return None
    return reliability(
        f"{row.name} has a calibration error of {percent(before.ece)} as it is, and of "
        f"{percent(after.ece)} after its calibration.",
        {
            "as it is": (before.reliability, style.GREY),
            "calibrated": (after.reliability, style.BLUE),
        },
    )


def reliability(sentence: str, named: Mapping[str, tuple[Reliability, str]]) -> Chart:
    """Return accuracy against confidence, one curve per name in its colour."""
    curves, top = [], 0.0
    for name, (r, colour) in named.items():
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
        f"{sentence} Calibrated probabilities lie on the dotted diagonal. Bins with fewer than "
        f"{FEWEST} rows are not drawn.",
        "sec:backbone-calibration-extension",
        Axis("confidence", ends=(0, 1.05 * top)),
        Axis("accuracy", ends=(0, 1.02)),
        (diagonal, *curves) if drawn else tuple(curves),
    )


def _classes(x, y, group, hollow: bool = False) -> Points:
    return Points(x, y, colour=style.BLUE, kind="class", group=group, hollow=hollow)
