"""Charts of the theory: gains of the classes, calibration, and fit of the vMF distribution."""

import math
from typing import Any

import numpy as np

from resultant._core.text import signed
from resultant.analysis.result import FeatureResult
from resultant.report import style
from resultant.report.charts import Axis, Chart, Mark, by_group, diagonal, level
from resultant.report.table import percent


def setting(result: FeatureResult) -> str:
    """Return the classes that the theory is asked about, and where it is outside of its regime."""
    if (theory := result.theory) is None:
        return ""
    name = "" if result.explorer is None else result.explorer.method
    tau, nu = theory.tau, result.data.dim / 2 - 1
    text = f"The vMF classes of {name or 'the vMF method'} at its temperature τ = {tau:.3g}."
    if 1 / tau > nu:
        text += (
            f" Its 1/τ = {1 / tau:.3g} exceeds p/2 − 1 = {nu:g}: the expansions of the paper are "
        )
        text += "for smaller ones, and what they predict from the gains may fail here."
    return text


def theory_charts(result: FeatureResult) -> list[Chart]:
    """Return one chart per question that has an answer."""
    parts = {"gains": _gains, "calibration": _calibration, "fit": _fit}
    answers = {name: getattr(result.theory, name, None) for name in parts}
    answers["calibration"] = result.used.reliability
    charts = (parts[name](result, r) for name, r in answers.items() if r is not None)
    return [chart for chart in charts if not chart.empty]


def _gains(result: FeatureResult, r: Any) -> Chart:
    rank = ""
    if r.rank_correlation is not None:
        rank = f"; their rank correlation with class size is {signed(r.rank_correlation, 2)}"
    groups = by_group(result.data.group, result.data.group_names)
    classes, count = np.arange(len(r.gain)), np.asarray(r.count, dtype=float)
    marks = [level(r.mean), Mark("points", count, np.asarray(r.gain), classes=classes, **groups)]
    corrected = ""
    if r.corrected_spread is not None:
        corrected = (
            " Means of few rows are too long on average; rings are without this bias, and their "
            f"spread is {percent(r.corrected_spread)}."
        )
        look = {name: v for name, v in groups.items() if name != "legend"}
        rings = np.asarray(r.corrected_gain)
        marks.insert(0, Mark("points", count, rings, hollow=True, classes=classes, **look))
    return Chart(
        "gains",
        "Gains of the classes",
        f"One temperature gives the classes gains from {r.minimum:.2f} to {r.maximum:.2f}, a "
        f"spread of {percent(r.spread)} around the mean of {r.mean:.2f} (dashed){rank}."
        f"{corrected}",
        Axis("training rows of the class", log=True),
        Axis("gain g = A / τ"),
        tuple(marks),
        "Figure 1",
    )


def _calibration(result: FeatureResult, r: Any) -> Chart:
    fewest = 20  # rows of a bin: a single row has an accuracy of zero or one
    return Chart(
        "calibration",
        "Calibration",
        f"{result.used.name} has an expected calibration error of {percent(r.error)} on the "
        "test rows; calibrated probabilities lie on the diagonal. Bins with fewer than "
        f"{fewest} rows are not drawn.",
        Axis("confidence", ends=(0, 1)),
        Axis("accuracy", ends=(0, 1)),
        (
            diagonal(0.0, 1.0),
            Mark("line", r.confidence, np.where(r.count >= fewest, r.accuracy, np.nan), marks=True),
        ),
        "Appendix M.5",
    )


def _fit(result: FeatureResult, r: Any) -> Chart:
    n = len(r.histogram)
    observed, expected = (
        n * np.asarray(h, dtype=float) / float(h.sum()) for h in (r.histogram, r.expected_histogram)
    )
    centres = (np.arange(n) + 0.5) / n
    error = math.sqrt(max(r.expected * (1 - r.expected), 1e-4) / len(r.classes))
    verdict = ": the classes are no vMF" if r.rejected > r.expected + 2 * error else ""
    return Chart(
        "fit",
        "Fit of the vMF distribution",
        f"A test of the fitted vMF fails for {percent(r.rejected)} of the classes. It would fail "
        f"for about {percent(r.expected, 0)} of vMF classes of these sizes, whose fits are as rough"
        f"{verdict}. Bars of vMF classes follow the dashed line.",
        Axis("distribution function at test cosines", ends=(0, 1)),
        Axis("density"),
        (
            Mark("bars", centres, observed, "test rows", style.SKY, width=0.94 / n),
            Mark("line", centres, expected, "if classes were vMF", style.GREY, dash="dashed"),
        ),
        "Appendix J.7",
    )
