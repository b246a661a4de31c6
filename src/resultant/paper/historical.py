"""The historical power-temperature family: classifiers, gains and gradients, common readouts
(sec:historical-power-temperature)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from resultant import figures
from resultant.paper.artefact import Artefact, Cell, Outcome, Value, printed, rows
from resultant.paper.evidence import Evidence
from resultant.paper.plan import official, wanted
from resultant.paper.records import paired

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEADS = """
ProCo | 87.57 | 85.39 | 55.78 | 51.34
Reduced gain disparity | 87.72 | 85.10 | 56.62 | 51.72
Increased gain disparity | 87.56 | 85.14 | 55.99 | 52.05
"""

SETTINGS = (("cifar10", 50), ("cifar10", 100), ("cifar100", 50), ("cifar100", 100))
COLUMNS = ("CIFAR-10 / 50", "CIFAR-10 / 100", "CIFAR-100 / 50", "CIFAR-100 / 100")
# Realization and beta of the power family.
POLICIES = {
    "ProCo": ("native", 0.0),
    "Reduced gain disparity": ("temperature", 0.5),
    "Increased gain disparity": ("temperature", 1.5),
}
COLOURS = dict(zip(POLICIES, (figures.BLACK, figures.BLUE, figures.ORANGE), strict=True))


def heads(evidence: Evidence) -> Outcome:
    """tab:historical-power-temperature: the classifiers of three-view joint training."""
    cells, best = [], []
    for policy, *texts in rows(HEADS):
        for column, setting, text in zip(COLUMNS, SETTINGS, texts, strict=True):
            config = official(*setting, family="power")
            ours = evidence.records.value(config, *POLICIES[policy], "last.accuracy")
            seeds = wanted(config, *POLICIES[policy])
            cells.append(Cell(policy, column, printed(text), ours, wanted=seeds))
            top = evidence.records.value(config, *POLICIES[policy], "last.best_accuracy")
            if top is not None:
                best.append(f"{policy}, {column}: {top.said(2)} [{top.n}]")
    notes = ["Last epoch; the paper does not say whether its numbers are of the last or the best."]
    if best:
        notes.append(f"Best epoch on the test set: {'; '.join(best)}.")
    return Outcome(cells, notes=notes)


def training_gain(evidence: Evidence) -> Outcome:
    """fig:training-gain: gain dispersion and the error of leading gradients, CIFAR-100 IF 100."""
    config = official("cifar100", 100, family="power")
    known = {
        name: next(iter(evidence.records.seeds(config, *policy).values()), {})
        for name, policy in POLICIES.items()
    }
    lines = {name: r["trajectory"] for name, r in known.items() if "trajectory" in r}
    bars = {name: r["increments"] for name, r in known.items() if "increments" in r}

    def draw() -> Figure:
        with figures.style():
            figure, axes = figures.panels(3, width=3.2)
            for name, found in lines.items():
                colour = COLOURS[name]
                axes[0].plot(found["epoch"], found["applied_gain_sd"], color=colour, label=name)
                axes[0].plot(found["epoch"], found["gain_sd"], ":", color=colour)
                axes[1].plot(found["epoch"], found["gradient_error"], color=colour)
            for place, (name, found) in enumerate(bars.items()):
                at = [place - 0.2, place + 0.2][: len(found)]
                axes[2].bar(at, list(found.values()), 0.35, color=COLOURS[name])
            axes[0].set_ylabel("sd of gain (dotted: native)")
            axes[1].set_ylabel("leading gradient error (%)")
            axes[2].set_ylabel("increment error (%), beta 0.5 and 1.5")
            axes[2].set_xticks([])
            for ax in axes[:2]:
                ax.set_xlabel("epoch")
            figures.letter(axes)
            figures.legend_below(figure, axes[0])
        return figure

    drawings: dict[str, Callable[[], Figure]] = {"training-gain": draw} if lines else {}
    parts = {"trajectories": bool(lines), "increments": bool(bars), "projected increments": False}
    notes = ["Panel (c) of the paper projects increments onto a plane; ours shows their errors."]
    return Outcome(drawings=drawings, parts=parts, notes=notes)


def common_readouts(evidence: Evidence) -> Outcome:
    """fig:common-readouts: linear probes of the historical models against those of ProCo."""
    config = official("cifar100", 100, family="power")
    found: dict[tuple[str, str], Value | None] = {}
    for policy in list(POLICIES)[1:]:
        for pool in ("long_tail", "balanced"):
            for space in ("encoder", "projection"):
                path = f"probes.{pool}.{space}.accuracy"
                after, before = (
                    evidence.records.values(config, *POLICIES[name], path)
                    for name in (policy, "ProCo")
                )
                at = f"{pool.replace('_', '-')} {space}"
                found[policy, at] = Value.of(paired(after, before))

    def draw() -> Figure:
        names = list(dict.fromkeys(at for _, at in found))
        with figures.style():
            figure, (ax,) = figures.panels(width=5.2, height=3.0)
            for i, policy in enumerate(list(POLICIES)[1:]):
                heights = [v.mean if (v := found[policy, at]) else 0.0 for at in names]
                at = [x + 0.4 * i - 0.2 for x in range(len(names))]
                ax.bar(at, heights, 0.38, color=COLOURS[policy], label=policy)
            ax.axhline(0, color=figures.GREY, lw=1)
            ax.set_xticks(range(len(names)), [n.replace(" ", "\n") for n in names])
            ax.set_ylabel("points from ProCo")
            figures.legend_below(figure, ax)
        return figure

    some = any(value is not None for value in found.values())
    drawings: dict[str, Callable[[], Figure]] = {"readouts": draw} if some else {}
    parts = {f"{policy}, {at}": value is not None for (policy, at), value in found.items()}
    return Outcome(drawings=drawings, parts=parts)


ARTEFACTS = (
    Artefact(
        "historical-power-temperature",
        "tab:historical-power-temperature",
        "Power-temperature intervention, classifier accuracy",
        heads,
        ("power", "official"),
    ),
    Artefact(
        "training-gain",
        "fig:training-gain",
        "Angular gain and local gradients during training",
        training_gain,
        ("power",),
    ),
    Artefact(
        "common-readouts",
        "fig:common-readouts",
        "Changes in common linear readouts",
        common_readouts,
        ("power",),
    ),
)
