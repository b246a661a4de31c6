"""The figures of an analysis: each one panel, so that a phone can show it, and one sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from resultant import figures
from resultant.frozen import Analysis, GridPoint
from resultant.report.words import NAMES, before_and_after, percent, points, policy
from resultant.shots import GROUPS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {
    "native": figures.GREY,
    "temperature": figures.ORANGE,
    "preserve": figures.GREEN,
    "angular": figures.BLUE,
    "cosine": figures.PURPLE,
}
GROUP_COLOURS = dict(zip(GROUPS, (figures.BLUE, figures.ORANGE, figures.GREEN), strict=True))
EDITED = ("temperature", "preserve", "angular")

# More points than these are drawn as an image within the vector file.
VECTOR_POINTS = 2000


@dataclass(frozen=True)
class Drawing:
    """A figure: what it shows in a sentence, and the paper's label of the same."""

    name: str
    title: str
    sentence: str
    label: str
    draw: Callable[[Axes], object]

    def figure(self) -> Figure:
        with figures.style():
            figure, (ax,) = figures.panels(width=4.0, height=2.9)
            self.draw(ax)
            handles, labels = ax.get_legend_handles_labels()
            if handles:
                widest = max(map(len, labels))
                columns = 3 if widest < 14 else 2
                figure.legend(handles, labels, loc="outside lower center", ncols=columns)
            for axis in (ax.xaxis, ax.yaxis):
                if axis.get_scale() == "log":
                    axis.set_major_formatter("{x:g}")
                    axis.set_minor_formatter("")
            # Laid out once, for the three files that it goes into.
            figure.draw_without_rendering()
        figure.set_layout_engine(None)
        return figure


def drawings(a: Analysis) -> list[Drawing]:
    """The figures of the questions that were answered."""
    return [d for d in (make(a) for make in MAKERS) if d is not None]


def _gains(a: Analysis) -> Drawing | None:
    if (r := a.gains) is None:
        return None

    def draw(ax: Axes) -> None:
        _by_group(ax, r.count, r.gain, r.group)
        ax.axhline(r.mean, color=figures.GREY, linestyle="--", linewidth=1)
        ax.set(xscale="log", xlabel="training rows of the class", ylabel="gain $g_c=A_c/\\tau$")

    with_counts = ""
    if r.rank_correlation is not None:
        with_counts = f"; their rank correlation with the class sizes is {r.rank_correlation:+.2f}"
    return Drawing(
        "gains",
        "How different the gains are",
        f"At one temperature the classes answer to their cosine with gains from {r.minimum:.2f} to "
        f"{r.maximum:.2f}, a spread of {percent(r.spread, 1)} about the mean of {r.mean:.2f}"
        f"{with_counts}.",
        "fig:gain-discovery",
        draw,
    )


def _accuracy(a: Analysis) -> Drawing | None:
    grid, both = a.grid, before_and_after(a)
    if grid is None or both is None:
        return None
    native, best = both

    def draw(ax: Axes) -> None:
        for name in EDITED:
            line = sorted(
                (p.beta, 100 * p.accuracy)
                for p in grid.points
                if p.realization == name and p.gamma == 0 and p.accuracy is not None
            )
            if line:
                ax.plot(*zip(*line, strict=True), "o-", color=COLOURS[name], label=NAMES[name])
        for name in ("native", "cosine"):
            accuracy = grid.point(name).accuracy
            if accuracy is not None:
                at, colour = 100 * accuracy, COLOURS[name]
                ax.axhline(at, color=colour, linestyle="--", label=NAMES[name])
        ax.set(xlabel="β, the share of the gains' differences kept", ylabel="accuracy (%)")

    return Drawing(
        "accuracy",
        "Accuracy of the realizations",
        f"{NAMES['native']} decides {percent(native.accuracy)} of the held-out rows rightly, "
        f"{policy(best.realization, best.beta)} {percent(best.accuracy)}.",
        "tab:frozen-vmf-realizations",
        draw,
    )


def _groups(a: Analysis) -> Drawing | None:
    if a.grid is None or a.grid.point("native").groups is None:
        return None
    native = a.grid.point("native").groups or {}
    present = [g for g in GROUPS if native.get(g) is not None]
    changes: dict[str, list[float]] = {}
    for name in (*EDITED, "cosine"):
        groups = _at_zero(a, name)
        if groups:
            changes[name] = [100 * ((groups[g] or 0) - (native[g] or 0)) for g in present]
    if not changes or not present:
        return None

    def draw(ax: Axes) -> None:
        width = 0.8 / len(changes)
        for i, (name, values) in enumerate(changes.items()):
            places = [j + (i + 0.5) * width - 0.4 for j in range(len(present))]
            ax.bar(places, values, width, color=COLOURS[name], label=NAMES[name])
        ax.axhline(0, color=figures.GREY, linewidth=0.8)
        ax.set_xticks(range(len(present)), present)
        ax.grid(axis="x", visible=False)
        ax.set_ylabel("accuracy beyond vMF (points)")

    shown = "angular" if "angular" in changes else next(iter(changes))
    said = ", ".join(f"{g} {v:+.2f}" for g, v in zip(present, changes[shown], strict=True))
    return Drawing(
        "groups",
        "Who gains: head, medium and tail",
        f"With equal gains ({policy(shown, 0.0)}) the mean accuracy of the classes changes by "
        f"{said} percentage points.",
        "sec:frozen-states",
        draw,
    )


def _at_zero(a: Analysis, name: str) -> dict[str, float | None] | None:
    try:
        return None if a.grid is None else a.grid.point(name, 0.0).groups
    except KeyError:
        return None


def _classes(a: Analysis) -> Drawing | None:
    both = before_and_after(a)
    if both is None or a.gains is None or both[1].per_class is None:
        return None
    native, best = both
    assert native.per_class is not None and best.per_class is not None
    change = 100 * (best.per_class - native.per_class)
    gains = a.gains

    def draw(ax: Axes) -> None:
        _by_group(ax, gains.gain, change, gains.group)
        ax.axhline(0, color=figures.GREY, linewidth=0.8)
        ax.axvline(gains.mean, color=figures.GREY, linestyle="--", linewidth=1)
        ax.set(xlabel="gain $g_c$", ylabel="change of accuracy (points)")

    return Drawing(
        "classes",
        "Change of each class",
        f"{policy(best.realization, best.beta)} raises the accuracy of {int((change > 0).sum())} "
        f"classes and lowers that of {int((change < 0).sum())}; classes of low gain stand left of "
        "the mean (dashed).",
        "tab:frozen-vmf-realizations",
        draw,
    )


def _calibration(a: Analysis) -> Drawing | None:
    both = before_and_after(a)
    if both is None or both[1].reliability is None or both[0].ece is None or both[1].ece is None:
        return None

    def draw(ax: Axes) -> None:
        reliability_curves(
            ax,
            {
                policy(point.realization, point.beta): (point, COLOURS[point.realization])
                for point in both
            },
        )

    return Drawing(
        "calibration",
        "What it costs in calibration",
        f"The expected calibration error goes from {percent(both[0].ece)} to "
        f"{percent(both[1].ece)}; a calibrated rule lies on the dotted diagonal.",
        "sec:frozen-realization-comparison",
        draw,
    )


def _prior(a: Analysis) -> Drawing | None:
    if a.grid is None or len(a.grid.gammas) < 2:
        return None
    grid, curves = a.grid, {}
    for name in ("native", "angular", "cosine"):
        curves[name] = [
            (p.gamma, 100 * p.accuracy)
            for p in grid.points
            if p.realization == name
            and p.accuracy is not None
            and (name != "angular" or p.beta == 0)
        ]
    if not all(curves.values()):
        return None

    def draw(ax: Axes) -> None:
        for name, line in curves.items():
            x, y = zip(*sorted(line), strict=True)
            style = "o--" if name == "cosine" else "o-"
            ax.plot(x, y, style, color=COLOURS[name], label=NAMES[name])
        ax.set(xlabel="γ, the weight of the log prior", ylabel="accuracy (%)")

    ends = [
        points((dict(curves["angular"])[g] - dict(curves["native"])[g]) / 100)
        for g in (grid.gammas[0], grid.gammas[-1])
    ]
    return Drawing(
        "prior",
        "With a prior of the class sizes",
        f"{NAMES['angular']} at β = 0 differs from {NAMES['native']} by {ends[0]} points at "
        f"γ = {grid.gammas[0]:g} and by {ends[1]} at γ = {grid.gammas[-1]:g}.",
        "sec:prior-dependent-frozen",
        draw,
    )


def _cosine(a: Analysis) -> Drawing | None:
    if (r := a.cosine) is None:
        return None

    def draw(ax: Axes) -> None:
        ax.bar(range(1, 11), r.decile_disagreements.tolist(), color=figures.PURPLE)
        ax.set_xticks(range(1, 11))
        ax.grid(axis="x", visible=False)
        ax.set(xlabel="decile of the cosine margin, smallest first", ylabel="disagreements")

    return Drawing(
        "cosine",
        "Where a cosine classifier disagrees",
        f"{NAMES['angular']} at β = 0 and cosine prototypes agree on {percent(r.agreement)} of the "
        f"held-out rows; {r.low_margin} of {r.disagreements} disagreements are in the tenth of "
        "smallest margins.",
        "tab:cosine-diagnostics",
        draw,
    )


def _certificate(a: Analysis) -> Drawing | None:
    if (r := a.cosine) is None:
        return None

    def draw(ax: Axes) -> None:
        share = torch.linspace(0, 100, len(r.margin_quantiles))
        margin = "margin $\\bar g\\,m_{\\cos}$"
        ax.plot(share, r.margin_quantiles, color=figures.BLUE, label=margin)
        ax.plot(share, r.residual_quantiles, color=figures.ORANGE, label="residual range $D$")
        ax.set(xlabel="held-out rows (%), smallest first", ylabel="score units", yscale="log")

    wrong = "none of them differs"
    if r.certified_disagreements:
        wrong = f"{r.certified_disagreements} of them differ"
    return Drawing(
        "certificate",
        "How sure the agreement is",
        f"The margin exceeds the residual range for {percent(r.coverage)} of the held-out rows, "
        f"which certifies that both rules decide alike; {wrong}.",
        "eq:cosine-margin-certificate",
        draw,
    )


def _boundaries(a: Analysis) -> Drawing | None:
    if (r := a.boundaries) is None or "linear_mean" not in r.predicted:
        return None
    predicted = r.predicted["linear_mean"]
    kept = r.shift_degrees.isfinite() & predicted.shift_degrees.isfinite()
    if not kept.any():
        return None

    def draw(ax: Axes) -> None:
        exact, linear = r.shift_degrees[kept], predicted.shift_degrees[kept]
        _diagonal(ax, torch.cat([exact, linear]))
        ax.plot(exact, linear, ".", color=figures.BLUE, markersize=5, alpha=0.7)
        ax.set(xlabel="exact displacement (degrees)", ylabel="from gains alone (degrees)")

    return Drawing(
        "boundaries",
        "How boundaries move",
        f"Between {int(kept.sum())} pairs of classes the boundary moves by up to "
        f"{float(r.shift_degrees[kept].abs().max()):.2f}°; the gains alone predict it to "
        f"{predicted.mean_absolute_degrees:.3f}° on average, in the right direction for "
        f"{percent(predicted.same_direction, 1)}.",
        "fig:main-boundaries",
        draw,
    )


def _margins(a: Analysis) -> Drawing | None:
    if (r := a.margins) is None or not len(r.linear) or r.agreement is None:
        return None

    def draw(ax: Axes) -> None:
        _diagonal(ax, torch.cat([r.exact, r.linear]))
        image = len(r.exact) > VECTOR_POINTS
        ax.plot(
            r.exact, r.linear, ".", color=figures.BLUE, markersize=2.5, alpha=0.5, rasterized=image
        )
        ax.set(xlabel="exact change of the margin", ylabel="linear change")

    return Drawing(
        "margins",
        "How margins change",
        f"The linear term has the sign of the exact change for {percent(r.agreement)} of "
        f"{r.incidences:,} margins; {percent(r.coverage)} are certified, and {r.certified_wrong} "
        "of these are wrong.",
        "fig:real-margin-app",
        draw,
    )


def _typical(a: Analysis) -> Drawing | None:
    if (r := a.typical) is None:
        return None
    kept = r.observed.isfinite() & r.typical.isfinite()
    if not kept.any():
        return None

    def draw(ax: Axes) -> None:
        ax.axvline(0, color=figures.GREY, linewidth=0.8)
        dots = {"markersize": 4, "alpha": 0.7}
        ax.plot(r.typical[kept], 100 * r.observed[kept], ".", color=figures.GREEN, **dots)
        ax.set(xlabel="typical margin of the pair", ylabel="observed error (%)")

    said = "No rank correlation with the observed error can be told."
    if r.typical_correlation is not None:
        said = f"Their rank correlation with the observed error is {r.typical_correlation:+.2f}."
    return Drawing(
        "typical",
        "Margins and errors",
        f"Typical margins of {int(kept.sum())} pairs and how often one class is taken for the "
        f"other. {said}",
        "sec:conditional-margin",
        draw,
    )


def _intercepts(a: Analysis) -> Drawing | None:
    if (r := a.intercepts) is None or a.gains is None or "temperature" not in r.largest:
        return None
    gains, drift = a.gains, (r.temperature - r.native)

    def draw(ax: Axes) -> None:
        _by_group(ax, gains.gain, drift, gains.group)
        ax.axhline(0, color=figures.GREY, linewidth=0.8)
        ax.set(xlabel="gain $g_c$", ylabel="drift of the intercept")

    return Drawing(
        "intercepts",
        "What a class temperature drags along",
        f"{NAMES['temperature']} at β = {r.beta:g} moves the score at cosine zero by up to "
        f"{r.largest['temperature']:.3g} (class {r.worst_class}), "
        f"{r.mean['temperature']:.2g} on average; {NAMES['angular']} does not.",
        "fig:realization",
        draw,
    )


def _support(a: Analysis) -> Drawing | None:
    if (r := a.support) is None or not len(r.classes):
        return None

    def draw(ax: Axes) -> None:
        for values, name, colour in (
            (r.error, "mean length $R_n$", figures.ORANGE),
            (r.corrected_error, "unbiased estimate", figures.BLUE),
        ):
            ax.plot(r.sizes, values, "o-", color=colour, label=name)
        ax.plot(r.sizes, r.predicted_bias, ":", color=figures.GREY, label="predicted bias")
        ax.set(xscale="log", yscale="log", xlabel="rows of the class", ylabel="error of $A_c$")
        ax.set_xticks(r.sizes, [str(n) for n in r.sizes])
        ax.minorticks_off()

    return Drawing(
        "support",
        "How many rows a class needs",
        f"From {r.sizes[0]} rows a class the mean length is off by {float(r.error[0]):.3f} on "
        f"average, from {r.sizes[-1]} by {float(r.error[-1]):.3f} ({len(r.classes)} classes with "
        "rows enough).",
        "fig:finite-sample",
        draw,
    )


def _self_inclusion(a: Analysis) -> Drawing | None:
    if (r := a.self_inclusion) is None or not len(r.classes):
        return None

    def draw(ax: Axes) -> None:
        dots = {"markersize": 4, "alpha": 0.7}
        ax.plot(r.count, r.exact, ".", color=figures.BLUE, label="exact", **dots)
        theory = "$(1-A^2)/(\\tau n)$"
        ax.plot(r.count, r.predicted, "_", color=figures.ORANGE, label=theory)
        ax.set(xscale="log", yscale="log", xlabel="training rows of the class")
        ax.set_ylabel("own score, increment")

    return Drawing(
        "self-inclusion",
        "What a row adds to its own score",
        f"A training row raises its own class's score by {float(r.exact.max()):.2g} in the class "
        f"where that is most and by {float(r.exact.min()):.2g} where it is least: scores of fitted "
        "rows flatter small classes.",
        "sec:self-inclusion",
        draw,
    )


def _fit(a: Analysis) -> Drawing | None:
    if (r := a.fit) is None:
        return None

    def draw(ax: Axes) -> None:
        share = r.histogram.double() / r.histogram.sum()
        n = len(share)
        places = ((torch.arange(n) + 0.5) / n).tolist()
        ax.bar(places, (n * share).tolist(), 0.94 / n, color=figures.SKY)
        ax.axhline(1, color=figures.GREY, linestyle="--", linewidth=1)
        ax.set(xlabel="law of the cosine at held-out rows", ylabel="density", xlim=(0, 1))

    return Drawing(
        "fit",
        "Whether the classes look like vMF",
        f"Flat for a perfect fit; {percent(r.rejected, 1)} of the classes are told apart from "
        "their fitted vMF at the 5 % level.",
        "sec:support-fit-protocol",
        draw,
    )


def reliability_curves(ax: Axes, named: Mapping[str, tuple[GridPoint, str]]) -> None:
    """How often predictions of a confidence are right, for points in their colours."""
    top = 0.0
    for name, (point, colour) in named.items():
        if (r := point.reliability) is None:
            continue
        kept = (r.count > 0).nonzero()[:, 0]
        ax.plot(r.confidence[kept], r.accuracy[kept], "o-", color=colour, label=name)
        top = max(top, float(r.confidence[kept].max()))
    ax.plot([0, top], [0, top], color=figures.GREY, linestyle=":", linewidth=1)
    ax.set(xlabel="confidence", ylabel="share right", xlim=(0, 1.05 * top), ylim=(0, 1))


def _by_group(ax: Axes, x: Tensor, y: Tensor, group: Tensor) -> None:
    image = len(x) > VECTOR_POINTS
    for g, (name, colour) in enumerate(GROUP_COLOURS.items()):
        chosen = (group == g) & y.isfinite()
        if chosen.any():
            dots = {"markersize": 5, "alpha": 0.75, "rasterized": image}
            ax.plot(x[chosen], y[chosen], ".", color=colour, label=name, **dots)


def _diagonal(ax: Axes, values: Tensor) -> None:
    ends = [float(values.min()), float(values.max())]
    ax.plot(ends, ends, color=figures.GREY, linestyle=":", linewidth=1)


MAKERS = (
    *(_gains, _accuracy, _groups, _classes, _calibration, _prior),
    *(_cosine, _certificate, _boundaries, _margins, _typical, _intercepts),
    *(_support, _self_inclusion, _fit),
)
