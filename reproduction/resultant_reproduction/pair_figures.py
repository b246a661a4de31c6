"""Figures of one pair of classes of the packaged network, beside all classes and pairs of others.

What approximates is drawn as hollow marks: as a line it would lie on the exact one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch

from resultant.analysis import Analysis
from resultant.report import style
from resultant.score.exact import vmf_score
from resultant.score.expansion import joint_expansion
from resultant_reproduction.evidence import packaged

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIDES = (style.BLUE, style.ORANGE)


def closest_pair(a: Analysis) -> int:
    """The closest pair of a head and a tail class that has one boundary before and after, or the
    closest of others where there is none: what it is does not depend on how far that moves."""
    assert a.boundaries is not None
    b, placed = a.boundaries, ~a.boundaries.shift_degrees.isnan()
    mixed = torch.tensor([kind == "HT" for kind in b.kind])
    wanted = next((w for w in (placed & mixed, placed) if w.any()), torch.ones_like(placed))
    return int(b.cosine.where(wanted, -math.inf).argmax())


def names_of(pair: torch.Tensor) -> list[str]:
    """What the classes of a pair [2] of the packaged network are called."""
    with packaged() as store:
        known = store.metadata["class_names"]
    return [known[c].replace("_", " ") for c in pair.tolist()]


def draw_gains(found: Mapping[str, Analysis]) -> Figure:
    """fig:gain-discovery, of analyses by data set, that of the packaged network first."""
    a = next(iter(found.values()))
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
        for (title, b), colour in zip(found.items(), style.CYCLE, strict=False):
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
    """The half sphere seen from between the prototypes: linear-mean boundaries and regions.

    x is along the difference of the prototypes, and gains g_a, g_b meet where
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


def draw_boundaries(found: Mapping[str, Analysis]) -> Figure:
    """fig:main-boundaries, of analyses by data set, that of the packaged network first."""
    a = next(iter(found.values()))
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
        for (title, other), colour in zip(found.items(), style.CYCLE, strict=False):
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
