"""Charts of the theory: gains of the classes, and calibration."""

import numpy as np

from resultant._core.text import signed
from resultant.analysis.result import FeatureResult, Reliability
from resultant.analysis.theory import GainDistribution
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
    """Return the gains of the classes, and the calibration of the method that is used."""
    charts = [] if result.theory is None else [_gains(result, result.theory.gains)]
    if result.used.reliability is not None:
        charts.append(_calibration(result, result.used.reliability))
    return [chart for chart in charts if not chart.empty]


def _gains(result: FeatureResult, r: GainDistribution) -> Chart:
    rank = ""
    if r.rank_correlation is not None:
        rank = f"; their rank correlation with class size is {signed(r.rank_correlation, 2)}"
    groups = by_group(result.data.group, result.data.group_names)
    classes, count = np.arange(len(r.gain)), np.asarray(r.count, dtype=float)
    marks = [level(r.mean), Mark("points", count, r.gain.numpy(), classes=classes, **groups)]
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


def _calibration(result: FeatureResult, r: Reliability) -> Chart:
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
