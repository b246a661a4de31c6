"""Figures of the theory beside the features: cosine, boundaries, margins, supports and the fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

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
        "Where a cosine classifier disagrees",
        f"{NAMES['angular']} at β = 0 and cosine prototypes agree on {percent(r.agreement)} of the "
        f"held-out rows; {r.low_margin} of {r.disagreements} disagreements are in the tenth of "
        "smallest margins.",
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

    wrong = "none of them differs"
    if r.certified_disagreements:
        wrong = f"{r.certified_disagreements} of them differ"
    return Panel(
        "certificate",
        "How sure the agreement is",
        f"The margin exceeds the residual range for {percent(r.coverage)} of the held-out rows, "
        f"which certifies that both rules decide alike; {wrong}.",
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
        "How boundaries move",
        f"Between {int(kept.sum())} pairs of classes the boundary moves by up to "
        f"{float(r.shift_degrees[kept].abs().max()):.2f}°; the gains alone predict it to "
        f"{predicted.mean_absolute_degrees:.3f}° on average, in the right direction for "
        f"{percent(predicted.same_direction, 1)}.",
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
        "How margins change",
        f"The linear term has the sign of the exact change for {percent(r.agreement)} of "
        f"{r.incidences:,} margins; {percent(r.coverage)} are certified, and {r.certified_wrong} "
        "of these are wrong.",
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

    said = "No rank correlation with the observed error can be told."
    if r.typical_correlation is not None:
        said = f"Their rank correlation with the observed error is {r.typical_correlation:+.2f}."
    return Panel(
        "typical",
        "Margins and errors",
        f"Typical margins of both classes of {int(kept.any(1).sum())} pairs, and how often each "
        f"is taken for the other. {said}",
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
        "What a class temperature drags along",
        f"{NAMES['temperature']} at β = {r.beta:g} moves the score at cosine zero by up to "
        f"{r.largest['temperature']:.3g} ({class_name(names[r.worst_class])}), "
        f"{r.mean['temperature']:.2g} on average; {NAMES['angular']} does not.",
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
        "How many rows a class needs",
        f"From {r.sizes[0]} rows a class the mean length is off by {float(r.error[0]):.3f} on "
        f"average, from {r.sizes[-1]} by {float(r.error[-1]):.3f} ({len(r.classes)} classes with "
        "rows enough).",
        "fig:finite-sample",
        draw,
    )


def self_inclusion(a: Analysis) -> Drawing | None:
    if (r := a.self_inclusion) is None or not len(r.classes):
        return None

    def draw(ax: Axes) -> None:
        dots(ax, r.count, r.exact, style.BLUE, "exact")
        dots(ax, r.count, r.predicted, style.ORANGE, "$(1-A^2)/(\\tau n)$", "_")
        ax.set(xscale="log", xlabel="training rows of the class", ylabel="own score, increment")
        log_heights(ax)

    return Panel(
        "self-inclusion",
        "What a row adds to its own score",
        f"A training row raises its own class's score by {float(r.exact.max()):.2g} in the class "
        f"where that is most and by {float(r.exact.min()):.2g} where it is least: scores of fitted "
        "rows flatter small classes.",
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
        places = ((torch.arange(n) + 0.5) / n).tolist()
        ax.bar(places, observed, 0.94 / n, color=style.SKY, label="held-out rows")
        edges = torch.linspace(0, 1, n + 1).tolist()
        line = ax.stairs(expected, edges, baseline=None, label="if classes were vMF")
        line.set(color=style.GREY, linestyle="--")
        ax.set(xlabel="law of the cosine at held-out rows", ylabel="density", xlim=(0, 1))

    return Panel(
        "fit",
        "Whether the classes look like vMF",
        f"{percent(r.rejected, 1)} of the classes are told apart from their fitted vMF at the 5 % "
        f"level; of vMF samples of the same sizes it would be about {percent(r.expected, 0)}, "
        "since few rows fit a vMF badly. The bars follow the dashed line if the classes are vMF; "
        "that line is flat where all have many rows.",
        "sec:support-fit-protocol",
        draw,
    )
