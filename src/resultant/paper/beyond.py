"""Beyond the paper: a sweep of beta, other views, and ProCo's public recipe."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from resultant import figures
from resultant.paper.artefact import Artefact, Cell, Change, Outcome, Value, printed, rows
from resultant.paper.evidence import Evidence
from resultant.paper.plan import BOTH, controlled, official, stronger_views
from resultant.paper.records import paired
from resultant.paper.summary import SPACES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BETAS = (-0.5, 0.0, 0.5, 1.0, 1.5, 2.0)
COLOURS = dict(zip(SPACES, (figures.BLUE, figures.ORANGE), strict=True))

# The authors' public logs, IF 100: last and best epoch on the test set.
LOGS = """
CIFAR-10 | 85.63 | 85.93
CIFAR-100 | 52.76 | 52.84
"""


def sweep(evidence: Evidence) -> Outcome:
    """Long-tail probes over beta for Pure Angular, CIFAR-100 IF 100; beta = 1 is native."""
    config, found = controlled("cifar100", 100), {}
    for space in SPACES:
        path = f"probes.long_tail.{space}.accuracy"
        for beta in BETAS:
            kind = ("native", 0.0) if beta == 1 else ("angular", beta)
            found[space, beta] = evidence.records.value(config, *kind, path)

    def draw() -> Figure:
        with figures.style():
            figure, (ax,) = figures.panels(width=4.6, height=3.2)
            for space, colour in COLOURS.items():
                known = {b: v for b in BETAS if (v := found[space, b]) is not None}
                means = [v.mean for v in known.values()]
                spread = [v.sd or 0.0 for v in known.values()]
                ax.errorbar(list(known), means, spread, fmt="o-", color=colour, label=space)
            ax.axvline(1, color=figures.GREY, ls=":")
            ax.set(xlabel=r"$\beta$ (dotted: native)", ylabel="long-tail probe (%)")
            figures.legend_below(figure, ax)
        return figure

    some = any(value is not None for value in found.values())
    drawings: dict[str, Callable[[], Figure]] = {"beta": draw} if some else {}
    parts = {f"{space} {beta:g}": value is not None for (space, beta), value in found.items()}
    return Outcome(drawings=drawings, parts=parts)


def recipe(evidence: Evidence) -> Outcome:
    """The three-view joint recipe beside the authors' public logs."""
    cells = []
    for (name, *texts), dataset in zip(rows(LOGS), ("cifar10", "cifar100"), strict=True):
        config = official(dataset, 100)
        for column, key, text in zip(
            ("last epoch", "best epoch"), ("accuracy", "best_accuracy"), texts, strict=True
        ):
            ours: Value | None = evidence.records.value(config, "native", 0.0, f"last.{key}")
            cells.append(Cell(f"{name} / 100", column, printed(text), ours))
    notes = ["The printed values are of the authors' public logs, not of the paper."]
    return Outcome(cells, notes=notes)


TITLES = dict(zip(BOTH, ("ProCo", "Pure Angular"), strict=True))


def views(evidence: Evidence) -> Outcome:
    """Whether Pure Angular helps on AutoAugment and Cutout views, CIFAR-10 IF 100, long-tail
    probes; and what the views themselves change."""
    configs = {"SimCLR": controlled("cifar10", 100), "AutoAugment": stronger_views()}
    changes, notes, parts = [], [], {}
    for space in SPACES:
        path = f"probes.long_tail.{space}.accuracy"
        found = {
            (kind, r): evidence.records.values(config, r, 0.0, path)
            for kind, config in configs.items()
            for r in BOTH
        }
        for kind in configs:
            differences = paired(found[kind, "angular"], found[kind, "native"])
            changes.append(
                Change(f"{kind} views, {space}", "Pure Angular - ProCo", 0.0, differences)
            )
        for r, title in TITLES.items():
            differences = paired(found["AutoAugment", r], found["SimCLR", r])
            changes.append(Change(f"{title}, {space}", "AutoAugment - SimCLR", 0.0, differences))
            parts[f"{title}, {space}"] = bool(found["AutoAugment", r])
        said = [
            f"{title} on {kind} views {value.said(2)}"
            for kind in configs
            for r, title in TITLES.items()
            if (value := Value.of(list(found[kind, r].values()))) is not None
        ]
        if said:
            notes.append(f"{space.capitalize()} (%): {', '.join(said)}.")
    return Outcome((), [c for c in changes if c.differences], parts=parts, notes=notes)


ARTEFACTS = (
    Artefact(
        "official-recipe",
        "beyond:official-recipe",
        "ProCo's public recipe, classifier accuracy",
        recipe,
        ("power", "official"),
    ),
    Artefact(
        "beta-sweep",
        "beyond:beta-sweep",
        "Strength of the intervention, CIFAR-100 IF 100",
        sweep,
        ("main", "beyond"),
    ),
    Artefact(
        "stronger-views",
        "beyond:stronger-views",
        "AutoAugment and Cutout views, CIFAR-10 IF 100",
        views,
        ("main", "beyond"),
    ),
)
