"""Figures that compare the theory with the features: cosine, boundaries, margins, fit."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from resultant._core.text import class_name, counted
from resultant.analysis import Analysis
from resultant.report import style
from resultant.report.charts import Axis, Bars, Chart, Level, Line, Points
from resultant.report.words import NAMES, percent


def cosine(a: Analysis) -> Chart | None:
    """Return the disagreements of Pure Angular and cosine by their margin."""
    if (r := a.cosine) is None:
        return None
    heights = [float(n) for n in r.decile_disagreements.tolist()]
    return Chart(
        "cosine",
        "Agreement with a cosine classifier",
        f"{NAMES['angular']} at β = 0 and cosine prototypes agree on {percent(r.agreement)} of the "
        f"held-out rows; {r.low_margin} of {r.disagreements} disagreements are in the tenth with "
        "the smallest margins.",
        "tab:cosine-diagnostics",
        Axis("decile of the cosine margin, smallest first"),
        Axis("disagreements"),
        (Bars(list(range(1, 11)), heights, 0.8, "disagreements", style.PURPLE),),
    )


def certificate(a: Analysis) -> Chart | None:
    """Return margins and residual ranges of all rows, each in ascending order."""
    if (r := a.cosine) is None:
        return None
    wrong = "no certified row differs"
    if r.certified_disagreements:
        wrong = counted(r.certified_disagreements, "certified row differs", "certified rows differ")
    share = torch.linspace(0, 100, len(r.margin_quantiles)).tolist()
    curves = (
        ("margin", r.margin_quantiles, style.BLUE),
        ("residual range D", r.residual_quantiles, style.ORANGE),
    )
    return Chart(
        "certificate",
        "Certified agreement",
        f"Both rules are certain to agree on {percent(r.coverage)} of the held-out rows, where the "
        f"margin exceeds the residual range; {wrong}.",
        "eq:cosine-margin-certificate",
        Axis("held-out rows (%), smallest first"),
        Axis("score units", log=True),
        tuple(Line(share, y.tolist(), name, c, marks=False) for name, y, c in curves),
    )


def boundaries(a: Analysis) -> Chart | None:
    """Return the exact moves of boundaries against those that the gains predict."""
    if (r := a.boundaries) is None or "linear_mean" not in r.predicted:
        return None
    predicted = r.predicted["linear_mean"]
    kept = r.shift_degrees.isfinite() & predicted.shift_degrees.isfinite()
    if not kept.any():
        return None
    exact, linear = r.shift_degrees[kept], predicted.shift_degrees[kept]
    return Chart(
        "boundaries",
        "Moved decision boundaries",
        f"Equal gains move the boundaries between {int(kept.sum())} pairs of classes by up to "
        f"{float(exact.abs().max()):.2f}°; the gains alone predict the shift with "
        f"a mean error of {predicted.mean_absolute_degrees:.3f}°, and its direction for "
        f"{percent(predicted.same_direction, 1)} of the pairs.",
        "fig:main-boundaries",
        Axis("exact displacement (degrees)"),
        Axis("from gains alone (degrees)"),
        (Points(exact, linear, kind="pair", members=r.pairs[kept]),),
        diagonal=True,
    )


def margins(a: Analysis) -> Chart | None:
    """Return exact changes of margins against their linear prediction."""
    if (r := a.margins) is None or not len(r.linear) or r.agreement is None:
        return None
    return Chart(
        "margins",
        "Changed margins",
        "Equal gains change the margins. The linear term predicts the direction of the change for "
        f"{percent(r.agreement)} of {r.incidences:,} margins; {percent(r.coverage)} of the "
        f"directions are certified, and {r.certified_wrong or 'none'} of these are wrong.",
        "sec:margin-change-protocol",
        Axis("exact change of the margin"),
        Axis("linear change"),
        (Points(r.exact, r.linear, size=4),),
        diagonal=True,
    )


def typical(a: Analysis) -> Chart | None:
    """Return observed errors between pairs of classes against their typical margins."""
    if (r := a.typical) is None:
        return None
    kept = r.observed.isfinite() & r.typical.isfinite()
    pairs = torch.stack([r.pairs, r.pairs.flip(1)], 1)
    correlation = "The rank correlation with the observed error is undefined."
    if r.typical_correlation is not None:
        correlation = f"The rank correlation is {r.typical_correlation:+.2f}."
    return Chart(
        "typical",
        "Margins and errors",
        f"Typical margins of {int(kept.any(1).sum())} pairs of classes, against the fraction of "
        f"rows of one class that are classified as the other. {correlation}",
        "fig:real-margin-app",
        Axis("typical margin of the pair"),
        Axis("observed error (%)"),
        (
            Level(0, upright=True),
            Points(
                r.typical[kept],
                100 * r.observed[kept],
                colour=style.GREEN,
                kind="pair",
                members=pairs[kept],
            ),
        ),
    )


def intercepts(a: Analysis, names: Sequence[str]) -> Chart | None:
    """Return the drift of the intercepts under class temperatures."""
    if (r := a.intercepts) is None or a.gains is None or r.worst_class is None:
        return None
    drift = r.temperature - r.native
    return Chart(
        "intercepts",
        "Intercepts under class temperatures",
        f"A temperature per class also changes the score at cosine zero: {NAMES['temperature']} at "
        f"β = {r.beta:g} moves it by up to {r.largest['temperature']:.3g} "
        f"({class_name(names[r.worst_class])}), {r.mean['temperature']:.2g} on average; "
        f"{NAMES['angular']} leaves it unchanged.",
        "fig:realization",
        Axis("gain g = A / τ"),
        Axis("drift of the intercept"),
        (Level(0), Points(a.gains.gain, drift, kind="class", group=a.gains.group)),
    )


def support(a: Analysis) -> Chart | None:
    """Return the error of the mean length against the rows of a class."""
    if (r := a.support) is None or not len(r.classes):
        return None
    curves = (
        ("mean length R", r.error, style.ORANGE, "solid", True),
        ("unbiased estimate", r.corrected_error, style.BLUE, "solid", True),
        ("predicted bias", r.predicted_bias, style.GREY, "dotted", False),
    )
    sizes = [float(n) for n in r.sizes]
    return Chart(
        "support",
        "Rows that a class needs",
        "More rows per class give better estimates: the error of the mean length is "
        f"{float(r.error[0]):.3f} with {r.sizes[0]} rows and {float(r.error[-1]):.3f} with "
        f"{r.sizes[-1]}, on average over {len(r.classes)} classes with enough rows.",
        "fig:finite-sample",
        Axis("rows of the class", log=True),
        Axis("error of the mean resultant A", log=True),
        tuple(Line(sizes, y.tolist(), name, c, d, m) for name, y, c, d, m in curves),
    )


def self_inclusion(a: Analysis) -> Chart | None:
    """Return the increase of the own score of training rows."""
    if (r := a.self_inclusion) is None or not len(r.classes):
        return None
    count = r.count.double()
    return Chart(
        "self-inclusion",
        "Self-inclusion: a training row raises its own score",
        "Scores of training rows favour small classes: a row raises the score of its own class by "
        f"{float(r.exact.min()):.2g} to {float(r.exact.max()):.2g}, depending on the class.",
        "sec:self-inclusion",
        Axis("training rows of the class", log=True),
        Axis("increase of own score", log=True),
        (
            Points(count, r.predicted, "predicted (1 - A²) / (τ n)", style.ORANGE, hollow=True),
            Points(count, r.exact, "exact", kind="class", members=r.classes),
        ),
    )


def fit(a: Analysis) -> Chart | None:
    """Return the distribution function of fitted classes at held-out cosines."""
    if (r := a.fit) is None:
        return None
    n = len(r.histogram)
    observed, expected = (
        (n * h.double() / h.sum()).tolist() for h in (r.histogram, r.expected_histogram)
    )
    centres = ((torch.arange(n) + 0.5) / n).tolist()
    return Chart(
        "fit",
        "Fit of the vMF distribution",
        f"A test rejects the fitted vMF for {percent(r.rejected, 1)} of the classes at the 5 % "
        f"level; vMF samples of the same sizes would give about {percent(r.expected, 0)}, because "
        "few rows fit a vMF badly. If the classes are vMF, the bars follow the dashed line, which "
        "is flat for classes with many rows.",
        "sec:support-fit-protocol",
        Axis("distribution function at held-out cosines", ends=(0, 1)),
        Axis("density"),
        (
            Bars(centres, observed, 0.94 / n, "held-out rows", style.SKY),
            Line(centres, expected, "if classes were vMF", style.GREY, "dashed", marks=False),
        ),
    )
