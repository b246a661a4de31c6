"""Figures that compare the theory with the features: cosine, boundaries, margins, fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from resultant._core.text import counted
from resultant.analysis import Analysis
from resultant.report import style
from resultant.report.figures import Drawing, Panel, by_group, diagonal, dots, log_heights
from resultant.report.words import NAMES, class_name, percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def cosine(a: Analysis) -> Drawing | None:
    if (r := a.cosine) is None:
        return None

    def draw(ax: Axes) -> None:
        ax.bar(range(1, 11), r.decile_disagreements.tolist(), color=style.PURPLE)
        ax.set_xticks(range(1, 11))
        ax.grid(axis="x", visible=False)
        ax.set(xlabel="decile of the cosine margin, smallest first", ylabel="disagreements")

    return Panel(
        "cosine",
        "Agreement with a cosine classifier",
        f"{NAMES['angular']} at β = 0 and cosine prototypes agree on {percent(r.agreement)} of the "
        f"held-out rows; {r.low_margin} of {r.disagreements} disagreements are in the tenth with "
        "the smallest margins.",
        "tab:cosine-diagnostics",
        draw,
    )


def certificate(a: Analysis) -> Drawing | None:
    if (r := a.cosine) is None:
        return None

    def draw(ax: Axes) -> None:
        share = torch.linspace(0, 100, len(r.margin_quantiles))
        margin = "margin $\\bar g\\,m_{\\cos}$"
        ax.plot(share, r.margin_quantiles, color=style.BLUE, label=margin)
        ax.plot(share, r.residual_quantiles, color=style.ORANGE, label="residual range $D$")
        ax.set(xlabel="held-out rows (%), smallest first", ylabel="score units")
        log_heights(ax)

    wrong = "no certified row differs"
    if r.certified_disagreements:
        wrong = counted(r.certified_disagreements, "certified row differs", "certified rows differ")
    return Panel(
        "certificate",
        "Certified agreement",
        f"Both rules are certain to agree on {percent(r.coverage)} of the held-out rows, where the "
        f"margin exceeds the residual range; {wrong}.",
        "eq:cosine-margin-certificate",
        draw,
    )


def boundaries(a: Analysis) -> Drawing | None:
    if (r := a.boundaries) is None or "linear_mean" not in r.predicted:
        return None
    predicted = r.predicted["linear_mean"]
    kept = r.shift_degrees.isfinite() & predicted.shift_degrees.isfinite()
    if not kept.any():
        return None

    def draw(ax: Axes) -> None:
        exact, linear = r.shift_degrees[kept], predicted.shift_degrees[kept]
        diagonal(ax, torch.cat([exact, linear]))
        dots(ax, exact, linear, style.BLUE)
        ax.set(xlabel="exact displacement (degrees)", ylabel="from gains alone (degrees)")

    return Panel(
        "boundaries",
        "Moved decision boundaries",
        f"Equal gains move the boundaries between {int(kept.sum())} pairs of classes by up to "
        f"{float(r.shift_degrees[kept].abs().max()):.2f}°; the gains alone predict the shift with "
        f"a mean error of {predicted.mean_absolute_degrees:.3f}°, and its direction for "
        f"{percent(predicted.same_direction, 1)} of the pairs.",
        "fig:main-boundaries",
        draw,
    )


def margins(a: Analysis) -> Drawing | None:
    if (r := a.margins) is None or not len(r.linear) or r.agreement is None:
        return None

    def draw(ax: Axes) -> None:
        diagonal(ax, torch.cat([r.exact, r.linear]))
        dots(ax, r.exact, r.linear, style.BLUE, size=2.5)
        ax.set(xlabel="exact change of the margin", ylabel="linear change")

    return Panel(
        "margins",
        "Changed margins",
        f"The linear term predicts the direction of the change for {percent(r.agreement)} of "
        f"{r.incidences:,} margins; {percent(r.coverage)} are certified, of which "
        f"{r.certified_wrong} are wrong.",
        "sec:margin-change-protocol",
        draw,
    )


def typical(a: Analysis) -> Drawing | None:
    if (r := a.typical) is None:
        return None
    kept = r.observed.isfinite() & r.typical.isfinite()
    if not kept.any():
        return None

    def draw(ax: Axes) -> None:
        ax.axvline(0, color=style.GREY, linewidth=0.8)
        dots(ax, r.typical[kept], 100 * r.observed[kept], style.GREEN)
        ax.set(xlabel="typical margin of the pair", ylabel="observed error (%)")

    correlation = "The rank correlation with the observed error is undefined."
    if r.typical_correlation is not None:
        correlation = f"The rank correlation is {r.typical_correlation:+.2f}."
    return Panel(
        "typical",
        "Margins and errors",
        f"Typical margins of {int(kept.any(1).sum())} pairs of classes, against the fraction of "
        f"rows of one class that are classified as the other. {correlation}",
        "fig:real-margin-app",
        draw,
    )


def intercepts(a: Analysis, names: Sequence[str]) -> Drawing | None:
    if (r := a.intercepts) is None or a.gains is None or r.worst_class is None:
        return None
    gains, drift = a.gains, (r.temperature - r.native)

    def draw(ax: Axes) -> None:
        by_group(ax, gains.gain, drift, gains.group)
        ax.axhline(0, color=style.GREY, linewidth=0.8)
        ax.set(xlabel="gain $g_c$", ylabel="drift of the intercept")

    return Panel(
        "intercepts",
        "Intercepts under class temperatures",
        f"A temperature per class also changes the score at cosine zero: {NAMES['temperature']} at "
        f"β = {r.beta:g} moves it by up to {r.largest['temperature']:.3g} "
        f"({class_name(names[r.worst_class])}), {r.mean['temperature']:.2g} on average; "
        f"{NAMES['angular']} leaves it unchanged.",
        "fig:realization",
        draw,
    )


def support(a: Analysis) -> Drawing | None:
    if (r := a.support) is None or not len(r.classes):
        return None

    def draw(ax: Axes) -> None:
        for values, name, colour in (
            (r.error, "mean length $R_n$", style.ORANGE),
            (r.corrected_error, "unbiased estimate", style.BLUE),
        ):
            ax.plot(r.sizes, values, "o-", color=colour, label=name)
        ax.plot(r.sizes, r.predicted_bias, ":", color=style.GREY, label="predicted bias")
        ax.set(xscale="log", xlabel="rows of the class", ylabel="error of $A_c$")
        log_heights(ax)
        ax.set_xticks(r.sizes, [str(n) for n in r.sizes])
        ax.xaxis.minorticks_off()

    return Panel(
        "support",
        "Rows that a class needs",
        "More rows per class give better estimates: the error of the mean length is "
        f"{float(r.error[0]):.3f} with {r.sizes[0]} rows and {float(r.error[-1]):.3f} with "
        f"{r.sizes[-1]}, on average over {len(r.classes)} classes with enough rows.",
        "fig:finite-sample",
        draw,
    )


def self_inclusion(a: Analysis) -> Drawing | None:
    if (r := a.self_inclusion) is None or not len(r.classes):
        return None

    def draw(ax: Axes) -> None:
        dots(ax, r.count, r.exact, style.BLUE, "exact")
        dots(ax, r.count, r.predicted, style.ORANGE, "$(1-A^2)/(\\tau n)$", "_")
        ax.set(xscale="log", xlabel="training rows of the class", ylabel="increase of own score")
        log_heights(ax)

    return Panel(
        "self-inclusion",
        "Self-inclusion: a training row raises its own score",
        "Scores of training rows favour small classes: a row raises the score of its own class by "
        f"{float(r.exact.min()):.2g} to {float(r.exact.max()):.2g}, depending on the class.",
        "sec:self-inclusion",
        draw,
    )


def fit(a: Analysis) -> Drawing | None:
    if (r := a.fit) is None:
        return None

    def draw(ax: Axes) -> None:
        n = len(r.histogram)
        observed, expected = (
            (n * h.double() / h.sum()).tolist() for h in (r.histogram, r.expected_histogram)
        )
        positions = ((torch.arange(n) + 0.5) / n).tolist()
        ax.bar(positions, observed, 0.94 / n, color=style.SKY, label="held-out rows")
        edges = torch.linspace(0, 1, n + 1).tolist()
        line = ax.stairs(expected, edges, baseline=None, label="if classes were vMF")
        line.set(color=style.GREY, linestyle="--")
        ax.set(xlabel="distribution function at held-out cosines", ylabel="density", xlim=(0, 1))

    return Panel(
        "fit",
        "Fit of the vMF distribution",
        f"A test rejects the fitted vMF for {percent(r.rejected, 1)} of the classes at the 5 % "
        f"level; vMF samples of the same sizes would give about {percent(r.expected, 0)}, because "
        "few rows fit a vMF badly. If the classes are vMF, the bars follow the dashed line, which "
        "is flat for classes with many rows.",
        "sec:support-fit-protocol",
        draw,
    )
