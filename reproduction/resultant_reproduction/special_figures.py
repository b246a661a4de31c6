"""Figures drawn for one artefact each: a pair of classes, the fit, small samples, increments.

Approximations are hollow marks, because a line would cover the exact one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from resultant.analysis import Analysis
from resultant.report import style
from resultant.score.exact import vmf_score
from resultant.theory.score_expansion import joint_expansion
from resultant_reproduction.courses import Course
from resultant_reproduction.evidence import packaged
from resultant_reproduction.figures import HOLLOW, LOG, Chart, Curve, course, draw_charts

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIDES = (style.BLUE, style.ORANGE)


def closest_pair(a: Analysis) -> int:
    """Choose the closest head and tail classes that have one boundary before and after, or the
    closest pair of other kinds. The choice does not depend on the displacement."""
    assert a.boundaries is not None
    b, placed = a.boundaries, ~a.boundaries.shift_degrees.isnan()
    mixed = torch.tensor([kind == "HT" for kind in b.kind])
    allowed = next((m for m in (placed & mixed, placed) if m.any()), torch.ones_like(placed))
    return int(b.cosine.where(allowed, -math.inf).argmax())


def names_of(pair: torch.Tensor) -> list[str]:
    """Names of a pair [2] of classes of the packaged network."""
    with packaged() as store:
        names = store.metadata["class_names"]
    return [names[c].replace("_", " ") for c in pair.tolist()]


def draw_gains(analyses: Mapping[str, Analysis]) -> Figure:
    """Draw fig:gain-discovery from analyses by dataset, the packaged network first."""
    a = next(iter(analyses.values()))
    assert a.gains is not None and a.boundaries is not None
    i = closest_pair(a)
    pair, theta = a.boundaries.pairs[i], math.radians(float(a.boundaries.theta_degrees[i]))
    g, kappa, names = a.gains.gain[pair].tolist(), a.gains.kappa[pair].tolist(), names_of(pair)
    rho = torch.linspace(-1, 1, 201, dtype=torch.float64)
    residuals, shares = [], []
    for side, colour in enumerate(SIDES):
        q = vmf_score(rho, kappa[side], a.space.tau, a.space.dim)
        q = q - vmf_score(0.0, kappa[side], a.space.tau, a.space.dim) - g[side] * rho
        residuals.append(Curve(rho, q, "-", f"{names[side]}, $g={g[side]:.2f}$", colour))
    for title, other in analyses.items():
        assert other.gains is not None
        ordered = other.gains.gain.sort().values
        share = torch.arange(1, len(ordered) + 1) / len(ordered)
        shares.append(Curve(ordered, share, label=title, more={"drawstyle": "steps-pre"}))
    charts = [
        Chart(_sphere(g, theta), "", ""),
        Chart(residuals, r"cosine $\rho$", r"centred score less $g\rho$"),
        Chart(shares, r"gain $A_c/\tau_0$", "share of classes"),
    ]
    figure = draw_charts(charts, width=3.2, height=3.4, legend=1, under=True)
    _shade_sphere(figure.axes[0], g, theta, names)
    return figure


def _boundary(g: Sequence[float], theta: float) -> tuple[Tensor, Tensor]:
    """Coordinates of the linear-mean boundary on the half sphere seen from between the prototypes.

    x runs along the difference of the prototypes; scores with gains g_a and g_b are equal at
    x (g_a + g_b) sin(theta/2) = z (g_a - g_b) cos(theta/2).
    """
    y = torch.linspace(-1, 1, 201, dtype=torch.float64)
    slope = (g[0] - g[1]) / ((g[0] + g[1]) * math.tan(theta / 2))
    return slope * (1 - y * y).sqrt() / math.hypot(1, slope), y


def _sphere(g: Sequence[float], theta: float) -> list[Curve]:
    x, y = _boundary(g, theta)
    return [
        Curve(x, y, "-", "original boundary", style.RED),
        Curve((0, 0), (-1, 1), "--", "equalized", style.GREEN),
        Curve((), (), "o", "prototypes", style.GREY),
    ]


def _shade_sphere(ax: Axes, g: Sequence[float], theta: float, names: Sequence[str]) -> None:
    """Shade the regions of both classes and mark their prototypes."""
    boundary, y = _boundary(g, theta)
    edge = (1 - y * y).sqrt()
    regions = ((-1, -edge, boundary), (1, boundary, edge))
    for (side, low, high), colour, name in zip(regions, SIDES, names, strict=True):
        ax.fill_betweenx(y.numpy(), low.numpy(), high.numpy(), color=colour, alpha=0.2, lw=0)
        ax.plot(side * math.sin(theta / 2), 0, "o", color=colour)
        ax.annotate(name, (0.55 * side, 0.4), ha="center")
    ax.set_aspect("equal")
    ax.axis("off")


def draw_boundaries(
    analyses: Mapping[str, Analysis], recorded: Mapping[str, Mapping[str, Sequence[float]]]
) -> Figure:
    """Draw fig:main-boundaries from analyses by dataset, the packaged network first, and from exact
    and leading displacements of records by name of the network."""
    a = next(iter(analyses.values()))
    assert a.gains is not None and a.boundaries is not None
    i, b = closest_pair(a), a.boundaries
    pair, theta = b.pairs[i], float(b.theta_degrees[i])
    kappa, A = a.gains.kappa[pair], a.gains.resultant[pair]
    ends = sorted((float(b.before_degrees[i]), float(b.after_degrees[i])))
    u = torch.linspace(ends[0] - 3, ends[1] + 3, 101, dtype=torch.float64)
    rho = torch.stack([u.deg2rad().cos(), (theta - u).deg2rad().cos()])
    states = (
        ("original", torch.full((2,), a.space.tau).double(), style.BLUE),
        ("equalized", A / a.gains.mean, style.ORANGE),
    )
    margins, points, reach = [], [], 0.0
    for name, tau, colour in states:
        point = (rho, kappa[:, None], tau[:, None], a.space.dim)
        exact, lead = vmf_score(*point), joint_expansion(*point, 0, validate_args=False)
        margins.append(Curve(u, exact[0] - exact[1], "-", name, colour))
        few = (lead[0] - lead[1])[::10]
        margins.append(Curve(u[::10], few, "o", color=colour, more=HOLLOW))
    margins.append(Curve((), (), "o", "joint leading", style.GREY, more=HOLLOW))
    margins.append(Curve((u[0], u[-1]), (0, 0), color=style.GREY, more={"lw": 1}))
    for title, other in analyses.items():
        assert other.boundaries is not None
        x = other.boundaries.shift_degrees
        y = other.boundaries.predicted["joint_leading"].shift_degrees
        both = ~(x.isnan() | y.isnan())
        points.append(Curve(x[both], y[both], ".", f"{title}, {int(both.sum())} of {len(x)} pairs"))
        reach = max(reach, float(x[both].abs().max()) * 1.05)
    if recorded:
        x, y = (
            [v for own in recorded.values() for v in own[kind]] for kind in ("exact", "leading")
        )
        name = f"CIFAR-10-LT, {len(x)} pairs of {len(recorded)} networks"
        points.append(Curve(x, y, "x", name, style.RED, more={"ms": 3, "mew": 0.7}))
    line = {"zorder": 0}
    points.append(Curve((-reach, reach), (-reach, reach), "--", color=style.GREY, more=line))
    way = "degrees from {} to {}".format(*names_of(pair))
    charts = [
        Chart(margins, way, "margin"),
        Chart(points, "exact displacement (degrees)", "leading displacement (degrees)"),
    ]
    return draw_charts(charts, height=3.4, legend=1, under=True)


def draw_scope(analyses: Mapping[str, Analysis]) -> Figure:
    """Draw fig:real-scope-app: class sizes with concentrations, and the goodness of fit."""
    sizes, laws = [], []
    for (title, a), colour in zip(analyses.items(), style.CYCLE, strict=False):
        assert a.gains is not None and a.fit is not None
        sizes.append(Curve(a.gains.count, a.gains.kappa, ".", title, colour))
        for counts, look in ((a.fit.histogram, "-"), (a.fit.expected_histogram, "--")):
            share = counts.double() / counts.sum() * len(counts)
            edges = torch.linspace(0, 1, len(share) + 1)
            steps = torch.cat([share, share[-1:]])
            laws.append(Curve(edges, steps, look, color=colour, more={"drawstyle": "steps-post"}))
    laws.append(Curve((), (), "-", "held-out queries", style.GREY))
    laws.append(Curve((), (), "--", "one vMF per class", style.GREY))
    charts = [
        Chart(sizes, "training images of the class", r"concentration $\kappa_c$", more=LOG),
        Chart(laws, "value of the fitted law", "density", more={"ylim": (0, None)}),
    ]
    return draw_charts(charts, legend=2, under=True)


def draw_margins(analyses: Mapping[str, Analysis]) -> Figure:
    """Draw fig:real-margin-app: errors between pairs of classes over two kinds of margins."""
    centre, typical = [], []
    for title, a in analyses.items():
        assert a.typical is not None
        t = a.typical
        kinds = ((t.centre, t.centre_correlation), (t.typical, t.typical_correlation))
        for curves, (margin, rank) in zip((centre, typical), kinds, strict=True):
            name = title if rank is None else f"{title}, rank correlation {rank:+.2f}"
            curves.append(Curve(margin.flatten(), 100 * t.observed.flatten(), ".", name))
    charts = [
        Chart(centre, "margin at the prototype", "error between the pair (%)"),
        Chart(typical, "typical margin", "error between the pair (%)"),
    ]
    return draw_charts(charts, legend=1, under=True)


def draw_support(a: Analysis) -> Figure:
    """Draw fig:finite-sample: small supports and self-inclusion."""
    assert a.support is not None and a.self_inclusion is not None
    s, own = a.support, a.self_inclusion
    supports = [
        Curve(s.sizes, s.error, "o-", "mean, SD over classes", error=s.error_sd),
        Curve(s.sizes, s.predicted_bias, "--", "expected bias"),
    ]
    thin, hollow = {"elinewidth": 0.6, "capsize": 0}, {**HOLLOW, "ms": 6, "mew": 0.8}
    gained = [
        Curve(
            own.count, own.exact, ".", "one class, SD over queries", None, own.exact_sd, None, thin
        ),
        Curve(own.count, own.predicted, "o", r"$(1-A^2)/(\tau n)$", style.RED, more=hollow),
    ]
    charts = [
        Chart(supports, "support size $n$", "error of $R_n$", more={"xscale": "log"}),
        Chart(gained, "images of the class", "score gained", more=LOG),
    ]
    return draw_charts(charts, height=3.1, legend=2, under=True)


def draw_intercepts(
    drifts: Mapping[str, Sequence[float]],
    states: Mapping[str, Mapping[str, Any]],
    printed: Mapping[str, float],
) -> Figure:
    """Draw fig:realization: drifts of native networks and cross-entropies of last states of edited
    networks (`summarize.summarize_state`), by realization, with the printed cross-entropies."""
    count = len(next(iter(drifts.values())))
    circles, bars = [], [Curve(look="D", label="paper", color=style.ORANGE)]
    for i, (name, values) in enumerate(drifts.items()):
        # Side by side, so that equal values and stars do not hide each other.
        x = [i - 0.35 + 0.4 * k / max(1, count - 1) for k in range(count)]
        label = None if i else f"{count} native networks"
        look = {**HOLLOW, "mew": 0.8}
        circles.append(Curve(x, values, "o", label, style.BLUE, more=look))
        for k, (state, own) in enumerate(states.items()):
            at, value = [i + 0.22 + 0.16 * k], [own["intercepts"][name]]
            label, star = None if i else state, {"ms": 9, "mec": "white", "mew": 0.5}
            circles.append(Curve(at, value, "*", label, STATES[k % len(STATES)], more=star))

    def paint(ax: Axes) -> None:
        wide = 0.7 / max(1, len(states))
        for k, (state, own) in enumerate(states.items()):
            losses = [row["cross_entropy"] for row in own["same_state"].values()]
            x = [i + wide * (k - (len(states) - 1) / 2) for i in range(len(losses))]
            ax.bar(x, losses, 0.9 * wide, color=STATES[k % len(STATES)], label=state)
        names = [*next(iter(states.values()))["same_state"]] if states else [*printed]
        for i, name in enumerate(names):
            if name in printed:
                ax.plot(i, printed[name], "D", color=style.ORANGE, mec="white", mew=0.5, zorder=5)
                about = {"xytext": (0, 5), "textcoords": "offset points", "ha": "center"}
                ax.annotate(f"{printed[name]:.2f}", (i, printed[name]), fontsize=8, **about)
        ax.set_xticks(range(len(names)), names)
        ax.set_yscale("log")
        ax.set_yticks(levels := [1, 2, 5, 10, 20, 50, 100], [str(level) for level in levels])
        ax.minorticks_off()

    ticks = {"xticks": range(len(drifts)), "xticklabels": list(drifts)}
    charts = [
        Chart(circles, "", "largest |change of $q_c(0)$|", more=ticks, paint=_symlog),
        Chart(bars, "", "cross-entropy (log scale)", more={"ylim": (1, 130)}, paint=paint),
    ]
    return draw_charts(charts, width=4.2, height=3.5, legend=1, under=True)


# Colours of single states.
STATES = (style.RED, style.PURPLE, style.GREEN)


def _symlog(ax: Axes) -> None:
    ax.set_yscale("symlog", linthresh=0.01)


def draw_training_gain(
    applied: Mapping[str, Course],
    native: Mapping[str, Course],
    errors: Mapping[str, Mapping[str, Course]],
    plane: Mapping[str, Mapping[str, tuple[float, float]]] | None,
    plane_of: str,
    looks: Mapping[str, tuple[str, str]],
    printed: Mapping[str, Sequence[float]],
) -> Figure:
    """Draw fig:training-gain: the dispersion of applied and of native gains over epochs by policy,
    errors of leading increments by policy of the state and of the intervention, and the plane of
    increments by policy, or None without a record.

    ``looks`` are dash and colour by policy; ``printed`` has numbers of the last epoch by name in
    records, one per policy, and the range of the increment errors.
    """
    gains = [course(own, "-", looks[name][1], name) for name, own in applied.items()]
    gains += [course(own, ":", looks[name][1]) for name, own in native.items()]
    increments = [
        course(own, looks[state][0], looks[intervention][1])
        for state, courses in errors.items()
        for intervention, own in courses.items()
    ]
    last = max((e for c in applied.values() for e in c.values), default=0)
    for key, face in (("gain_sd", HOLLOW), ("applied_gain_sd", {})):
        for (_, colour), value in zip(looks.values(), printed[key], strict=True):
            gains.append(Curve([last], [value], "D", color=colour, more={**face, "zorder": 5}))
    gains.append(Curve(look="D", label="paper, last epoch", color=style.GREY))
    gains.append(Curve(look="D", label="paper, native gain", color=style.GREY, more=HOLLOW))
    bounds = printed["increment_error"]
    label, wide = "paper, last epoch", {"lw": 5, "alpha": 0.6, "solid_capstyle": "butt"}
    increments.append(Curve([last, last], bounds, "-", label, style.GREY, more=wide))
    second = "second axis (other scale)"
    charts = [
        Chart(gains, "epoch", "sd of gain (dotted: native)"),
        Chart(increments, "epoch", "leading increment error (%)"),
        Chart((), f"first axis; {plane_of}" if plane else "", second),
    ]
    figure = draw_charts(charts, width=3.2)
    axes = figure.axes
    with style.style():
        if errors:
            key = {f"state: {s.split()[0]}": {"ls": looks[s][0]} for s in errors}
            _key(axes[1], key | {label: wide})
        if plane:
            _draw_plane(axes[2], plane, {name: colour for name, (_, colour) in looks.items()})
        for ax, present in zip(axes, (applied, errors, plane), strict=True):
            if not present:
                ax.text(0.5, 0.5, "no record", transform=ax.transAxes, ha="center")
    return figure


def _key(ax: Axes, looks: Mapping[str, dict[str, Any]]) -> None:
    """Add a legend of line styles in grey, because colours have another meaning."""
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], color=style.GREY, label=name, **look) for name, look in looks.items()]
    ax.legend(handles=handles)


def _draw_plane(
    ax: Axes, plane: Mapping[str, Mapping[str, tuple[float, float]]], colours: Mapping[str, str]
) -> None:
    """Draw leading increments over the exact ones, which they almost hide. Axes of one scale would
    put both arms on one line."""
    looks: dict[str, dict[str, Any]] = {
        "exact": {"ls": "-", "lw": 1, "marker": "o"},
        "leading": {"ls": "--", "lw": 2.2, "marker": "o", "ms": 8, "mfc": "none", "zorder": 3},
    }
    _key(ax, looks)
    for name, ends in plane.items():
        for kind, look in looks.items():
            x, y = ends[kind]
            ax.plot([0, x], [0, y], markevery=[1], color=colours[name], **look)
