"""fig:realization: intercepts under matched interventions, and the state that fails."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from resultant.classes.rule import EDITED
from resultant.report import style
from resultant_reproduction.cells.cells import Cell, Outcome, load, parse_cell, say
from resultant_reproduction.cells.charts import HOLLOW, Chart, Curve, draw_charts
from resultant_reproduction.cells.statistics import Value
from resultant_reproduction.cells.text import seed_list
from resultant_reproduction.runs.evidence import CONDITIONS, Evidence
from resultant_reproduction.runs.plans import controlled
from resultant_reproduction.runs.records import dig

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Printed: cross-entropies, and scores of the collapsed class at cosine zero.
LOSSES, INTERCEPTS = (load("printed/figures")["realization"][n] for n in ("losses", "intercepts"))
# Predictions collapsed if fewer than these of 100 classes are among them.
FEW = 10


class Training(NamedTuple):
    """The least kappa when a training ended, its seed, and its last state, empty if not kept."""

    kappa: float
    seed: int
    state: dict[str, Any]

    @property
    def name(self) -> str:
        return f"seed {self.seed}, kappa {self.kappa:.3g}"


class Trainings(NamedTuple):
    """Trainings on CIFAR-100 IF 10 under a uniform prior, by direct temperature and native. A seed
    that was trained twice counts twice: rounding is enough for a class to collapse or not."""

    edited: list[Training]
    native: list[Training]

    @staticmethod
    def of(evidence: Evidence) -> Trainings | None:
        """Return None until there are both kinds; records without a least kappa are left out."""
        config, kinds = controlled("cifar100", 10, prior=0.0), ("temperature", "native")
        edited, native = (
            [
                Training(kappa, record["seed"], record.get("ended") or {})
                for record in evidence.records.trainings(config, name)
                if (kappa := dig(record, "last.kappa_min")) is not None
            ]
            for name in kinds
        )
        return Trainings(edited, native) if edited and native else None

    def lost(self, training: Training) -> bool:
        """Test for a kappa below a tenth of native ones, or fewer than `FEW` predicted classes."""
        distinct = dig(training.state, "same_state.temperature.distinct")
        low = training.kappa < min(t.kappa for t in self.native) / 10
        return low or (distinct is not None and distinct < FEW)

    def ends(self) -> list[Training]:
        """Return the edited trainings that kept a state that failed, in the order of kappa."""
        lost = [own for own in self.edited if own.state and self.lost(own)]
        return sorted(lost, key=lambda own: own.kappa)


def realization(evidence: Evidence) -> Outcome:
    """Intercept drift of native networks and of the failing one; its cross-entropies."""
    states = [
        summary
        for condition in CONDITIONS
        for summary in evidence.frozen(condition, "projection").values()
        if "intercepts" in summary
    ]
    trainings = Trainings.of(evidence)
    ends = trainings.ends() if trainings else []

    def draw() -> Figure:
        drifts = {name: [state["intercepts"][name] for state in states] for name in EDITED}
        named = {own.name.replace("kappa", "least kappa"): own.state for own in ends}
        return _draw_intercepts(drifts, named)

    note = say("native-states", number=len(states), star=_star(trainings, ends))
    parts = {"native states": bool(states)}
    return Outcome(_cells(ends), draw=draw if states or ends else None, parts=parts, notes=[note])


def _cells(failed: Sequence[Training]) -> list[Cell]:
    """Return the printed numbers of the failing state with ours, one column per training."""
    columns = {own.name: own.state for own in failed} or {"failing state": None}
    cells = []
    for column, state in columns.items():
        for name, text in LOSSES.items():
            ours = Value(state["same_state"][name]["cross_entropy"]) if state else None
            cells.append(Cell(f"cross-entropy, {name}", column, parse_cell(text), ours))
        for name, text in INTERCEPTS.items():
            ours = Value(state["focus"]["intercepts"][name]) if state else None
            row = f"score of the collapsed class at cosine zero, {name}"
            cells.append(Cell(row, column, parse_cell(text), ours))
    return cells


def _star(trainings: Trainings | None, ends: Sequence[Training]) -> str:
    """Describe the network of the first star and of panel (b)."""
    if trainings is None or not ends:
        return say("no-failing-state")
    training, rows = ends[0], ends[0].state["same_state"].items()
    losses = ", ".join(f"{name} {row['cross_entropy']:.2f}" for name, row in rows)
    kappas = f"least kappa {training.kappa:.3g}"
    if own := [t.kappa for t in trainings.native if t.seed == training.seed]:
        kappas += f", native of that seed {' and '.join(f'{kappa:.3g}' for kappa in own)}"
    kappas += f", the least of {len(ends)} such states" if len(ends) > 1 else ""
    lost, seeds = [*map(trainings.lost, trainings.edited)], {t.seed for t in trainings.edited}
    texts = {"kappas": kappas, "losses": losses, "seeds": seed_list(sorted(seeds))}
    return say("failing-state", **texts, seed=training.seed, lost=sum(lost), of=len(lost))


# Colours of single states.
STATES = (style.RED, style.PURPLE, style.GREEN)


def symlog(ax: Axes, linear: float = 0.01) -> None:
    """Set a logarithmic scale of both signs, linear near zero."""
    ax.set_yscale("symlog", linthresh=linear)


def _draw_intercepts(
    drifts: Mapping[str, Sequence[float]], states: Mapping[str, Mapping[str, Any]]
) -> Figure:
    """Draw drifts of native networks, and cross-entropies of states that failed."""
    count = len(next(iter(drifts.values())))
    colours = dict(zip(states, itertools.cycle(STATES)))
    drifted, losses = [], []
    # Side by side, so that equal values and stars do not hide each other.
    for i, values in enumerate(drifts.values()):
        x = [i - 0.35 + 0.4 * k / max(1, count - 1) for k in range(count)]
        label = None if i else f"{count} native networks"
        drifted.append(Curve(x, values, "o", label, style.BLUE, more={**HOLLOW, "mew": 0.8}))
    for k, (state, own) in enumerate(states.items()):
        x, star = [i + 0.22 + 0.16 * k for i in range(len(drifts))], {"ms": 9}
        y = [own["intercepts"][name] for name in drifts]
        drifted.append(Curve(x, y, "*", state, colours[state], more=star))
        y = [own["same_state"][name]["cross_entropy"] for name in LOSSES]
        x = [i + 0.16 * (k + 1) for i in range(len(LOSSES))]
        losses.append(Curve(x, y, "*", state, colours[state], more=star))
    printed = [*map(float, LOSSES.values())]
    losses.append(Curve(range(len(LOSSES)), printed, "D", "paper", style.ORANGE))
    scale = {"yscale": "log", "ylim": (1, 130), "yticks": [1, 10, 100], "yticklabels": [1, 10, 100]}
    ticks = [{"xticks": range(len(names)), "xticklabels": [*names]} for names in (drifts, LOSSES)]
    charts = [
        Chart(drifted, "", "largest |change of $q_c(0)$|", more=ticks[0], paint=symlog),
        Chart(losses, "", "cross-entropy (log scale)", more=ticks[1] | scale),
    ]
    return draw_charts(charts, width=4.2, height=3.5, legend=1, under=True)
