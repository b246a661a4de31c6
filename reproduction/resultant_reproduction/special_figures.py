"""Figures drawn for one artefact each: a pair of classes, the fit, small samples, increments.

Approximations are hollow marks, because a line would cover the exact one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from resultant.analysis import Analysis
from resultant.report import style
from resultant.score.exact import vmf_score
from resultant.score.expansion import joint_expansion
from resultant_reproduction.courses import Course
from resultant_reproduction.evidence import packaged
from resultant_reproduction.figures import draw_course

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
    with style.style():
        figure, axes = style.panels(3, width=3.2, height=3.4)
        _draw_sphere(axes[0], g, theta, names)
        rho = torch.linspace(-1, 1, 201, dtype=torch.float64)
        for side, colour in enumerate(SIDES):
            q = vmf_score(rho, kappa[side], a.space.tau, a.space.dim)
            q = q - vmf_score(0.0, kappa[side], a.space.tau, a.space.dim)
            name = f"{names[side]}, $g={g[side]:.2f}$"
            axes[1].plot(rho.numpy(), q.numpy(), color=colour, label=name)
            few = rho[10 * side :: 20]
            axes[1].plot(few.numpy(), g[side] * few.numpy(), "o", mfc="none", color=colour)
        axes[1].plot([], [], "o", mfc="none", color=style.GREY, label=r"linear mean $g\rho$")
        axes[1].set(xlabel=r"cosine $\rho$", ylabel="centred score")
        for (title, b), colour in zip(analyses.items(), style.CYCLE, strict=False):
            assert b.gains is not None
            ordered = b.gains.gain.sort().values
            share = torch.arange(1, len(ordered) + 1) / len(ordered)
            axes[2].step(ordered.numpy(), share.numpy(), color=colour, label=title)
        axes[2].set(xlabel=r"gain $A_c/\tau_0$", ylabel="share of classes")
        for ax in axes:
            style.legend_under(ax)
        style.letter(axes)
    return figure


def _draw_sphere(ax: Axes, g: list[float], theta: float, names: list[str]) -> None:
    """Draw the half sphere seen from between the prototypes, with linear-mean boundaries.

    x runs along the difference of the prototypes; scores with gains g_a and g_b are equal at
    x (g_a + g_b) sin(theta/2) = z (g_a - g_b) cos(theta/2).
    """
    y = torch.linspace(-1, 1, 201, dtype=torch.float64)
    edge = (1 - y * y).sqrt()
    slope = (g[0] - g[1]) / ((g[0] + g[1]) * math.tan(theta / 2))
    boundary = slope * edge / math.hypot(1, slope)
    spans = ((-1, -edge, boundary), (1, boundary, edge))
    for (side, low, high), colour, name in zip(spans, SIDES, names, strict=True):
        ax.fill_betweenx(y.numpy(), low.numpy(), high.numpy(), color=colour, alpha=0.2, lw=0)
        ax.plot(side * math.sin(theta / 2), 0, "o", color=colour)
        ax.annotate(name, (0.55 * side, 0.4), ha="center")
    ax.plot(boundary.numpy(), y.numpy(), color=style.RED, label="original boundary")
    ax.plot([0, 0], [-1, 1], "--", color=style.GREEN, label="equalized")
    ax.plot([], [], "o", color=style.GREY, label="prototypes")
    ax.set_aspect("equal")
    ax.axis("off")


def draw_boundaries(analyses: Mapping[str, Analysis]) -> Figure:
    """Draw fig:main-boundaries from analyses by dataset, the packaged network first."""
    a = next(iter(analyses.values()))
    assert a.gains is not None and a.boundaries is not None
    i, b = closest_pair(a), a.boundaries
    pair, theta = b.pairs[i], float(b.theta_degrees[i])
    kappa, A = a.gains.kappa[pair], a.gains.resultant[pair]
    ends = sorted((float(b.before_degrees[i]), float(b.after_degrees[i])))
    u = torch.linspace(ends[0] - 3, ends[1] + 3, 101, dtype=torch.float64)
    rho = torch.stack([u.deg2rad().cos(), (theta - u).deg2rad().cos()])
    with style.style():
        figure, axes = style.panels(2, height=3.4)
        states = (
            ("original", torch.full((2,), a.space.tau).double(), style.BLUE),
            ("equalized", A / a.gains.mean, style.ORANGE),
        )
        for name, tau, colour in states:
            point = (rho, kappa[:, None], tau[:, None], a.space.dim)
            lead = joint_expansion(*point, 0, validate_args=False)
            exact = vmf_score(*point)
            axes[0].plot(u.numpy(), (exact[0] - exact[1]).numpy(), color=colour, label=name)
            few, margin = u[::10].numpy(), (lead[0] - lead[1])[::10].numpy()
            axes[0].plot(few, margin, "o", mfc="none", color=colour)
        axes[0].plot([], [], "o", mfc="none", color=style.GREY, label="joint leading")
        axes[0].axhline(0, color=style.GREY, lw=1)
        axes[0].set(xlabel="degrees from {} to {}".format(*names_of(pair)), ylabel="margin")
        reach = 0.0
        for (title, other), colour in zip(analyses.items(), style.CYCLE, strict=False):
            assert other.boundaries is not None
            x = other.boundaries.shift_degrees
            y = other.boundaries.predicted["joint_leading"].shift_degrees
            both = ~(x.isnan() | y.isnan())
            name = f"{title}, {int(both.sum())} of {len(x)} pairs"
            axes[1].plot(x[both].numpy(), y[both].numpy(), ".", color=colour, label=name)
            reach = max(reach, float(x[both].abs().max()) * 1.05)
        axes[1].plot([-reach, reach], [-reach, reach], "--", color=style.GREY, zorder=0)
        axes[1].set(xlabel="exact displacement (degrees)", ylabel="leading displacement (degrees)")
        style.legend_under(axes[0], columns=3)
        style.legend_under(axes[1])
        style.letter(axes)
    return figure


def draw_scope(analyses: Mapping[str, Analysis]) -> Figure:
    """Draw fig:real-scope-app: class sizes with concentrations, and the goodness of fit."""
    with style.style():
        figure, axes = style.panels(2)
        for (title, a), colour in zip(analyses.items(), style.CYCLE, strict=False):
            assert a.gains is not None and a.fit is not None
            look = {"color": colour, "label": title}
            axes[0].loglog(a.gains.count.numpy(), a.gains.kappa.numpy(), ".", **look)
            for counts, line in ((a.fit.histogram, "-"), (a.fit.expected_histogram, "--")):
                share = counts.double() / counts.sum() * len(counts)
                edges = torch.linspace(0, 1, len(share) + 1)
                axes[1].stairs(share.numpy(), edges.numpy(), color=colour, ls=line)
        for name, line in (("held-out queries", "-"), ("one vMF per class", "--")):
            axes[1].plot([], [], line, color=style.GREY, label=name)
        axes[0].set(xlabel="training images of the class", ylabel=r"concentration $\kappa_c$")
        axes[1].set(xlabel="value of the fitted law", ylabel="density")
        style.legend_under(axes[0])
        style.legend_under(axes[1], columns=2)
        style.letter(axes)
    return figure


def draw_support(a: Analysis) -> Figure:
    """Draw fig:finite-sample: small supports and self-inclusion."""
    assert a.support is not None and a.self_inclusion is not None
    s, own = a.support, a.self_inclusion
    with style.style():
        figure, axes = style.panels(2, height=3.1)
        bars = {"yerr": s.error_sd.numpy(), "fmt": "o-", "capsize": 2}
        axes[0].errorbar(s.sizes, s.error.numpy(), label="mean, SD over classes", **bars)
        axes[0].plot(s.sizes, s.predicted_bias.numpy(), "--", label="expected bias")
        axes[0].set(xscale="log", xlabel="support size $n$", ylabel="error of $R_n$")
        n = own.count.numpy()
        bars = {"yerr": own.exact_sd.numpy(), "fmt": ".", "elinewidth": 0.6}
        axes[1].errorbar(n, own.exact.numpy(), label="one class, SD over queries", **bars)
        look = {"mfc": "none", "ms": 6, "mew": 0.8, "label": r"$(1-A^2)/(\tau n)$"}
        axes[1].plot(n, own.predicted.numpy(), "o", color=style.RED, **look)
        axes[1].set(xscale="log", yscale="log", xlabel="images of the class", ylabel="score gained")
        for ax in axes:
            style.legend_under(ax, columns=2)
        style.letter(axes)
    return figure


def draw_intercepts(
    drifts: Mapping[str, Sequence[float]],
    failing: Mapping[str, float],
    losses: Mapping[str, float],
    title: str,
) -> Figure:
    """Draw fig:realization: intercept drifts by realization, of native networks and of the failing
    one, and cross-entropies of one state by realization."""
    with style.style():
        figure, axes = style.panels(2)
        for i, (name, values) in enumerate(drifts.items()):
            axes[0].plot([i] * len(values), values, "o", mfc="none", color=style.BLUE)
            if name in failing:
                axes[0].plot(i, failing[name], "*", ms=9, color=style.RED)
        axes[0].set_yscale("symlog", linthresh=0.01)
        axes[0].set_xticks(range(len(drifts)), list(drifts))
        axes[0].set_ylabel("largest |change of $q_c(0)$|")
        axes[1].bar(list(losses), list(losses.values()))
        axes[1].set_ylabel("cross-entropy")
        axes[1].tick_params(axis="x", rotation=20)
        axes[1].set_title(title, loc="left")
        style.letter(axes)
    return figure


def draw_training_gain(
    applied: Mapping[str, Course],
    native: Mapping[str, Course],
    errors: Mapping[str, Mapping[str, Course]],
    plane: Mapping[str, Mapping[str, tuple[float, float]]] | None,
    plane_of: str,
    looks: Mapping[str, tuple[str, str]],
) -> Figure:
    """Draw fig:training-gain: gain dispersion, errors of leading increments, and their plane.

    Args:
        applied: Dispersion of applied gains over epochs, by policy.
        native: Dispersion of native gains over epochs, by policy.
        errors: Errors over epochs, by policy of the state and policy of the intervention.
        plane: End points of the exact and leading increments, by policy; None without a record.
        plane_of: Network of the plane.
        looks: Dash and colour by policy.
    """
    with style.style():
        figure, axes = style.panels(3, width=3.2)
        for name, course in applied.items():
            draw_course(axes[0], course, "-", looks[name][1], name)
        for name, course in native.items():
            draw_course(axes[0], course, ":", looks[name][1])
        for state, courses in errors.items():
            for intervention, course in courses.items():
                draw_course(axes[1], course, looks[state][0], looks[intervention][1])
        if errors:
            _key(axes[1], {f"state: {s.split()[0]}": {"ls": looks[s][0]} for s in errors})
        if plane:
            _draw_plane(axes[2], plane, {name: colour for name, (_, colour) in looks.items()})
            axes[2].set_xlabel(f"first axis; {plane_of}")
        axes[0].set(xlabel="epoch", ylabel="sd of gain (dotted: native)")
        axes[1].set(xlabel="epoch", ylabel="leading increment error (%)")
        axes[2].set_ylabel("second axis (other scale)")
        for ax, present in zip(axes, (applied, errors, plane), strict=True):
            if not present:
                ax.text(0.5, 0.5, "no record", transform=ax.transAxes, ha="center")
        style.letter(axes)
        style.legend_below(figure, axes[0])
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
