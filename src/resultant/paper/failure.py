"""fig:realization: intercepts under matched interventions, and the state that fails."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from resultant import figures
from resultant.paper.artefact import Artefact, Claim, Outcome, judged, waiting
from resultant.paper.evidence import CONDITIONS, Evidence
from resultant.paper.plan import controlled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES = ("temperature", "preserve", "angular")
LABEL = "sec:same-state-diagnostic"


class Training(NamedTuple):
    """The least kappa of a class when a training ended, the loss of its last epoch, and the rules
    at its last state (`resultant.paper.summary.summarize_state`) where they were kept."""

    kappa: float
    loss: float
    state: dict[str, Any] | None


class Trainings(NamedTuple):
    """Those of CIFAR-100 IF 10 under a uniform prior, by direct temperature and native. A seed that
    was trained twice counts twice: rounding is enough for a class to collapse or not."""

    edited: list[Training]
    native: list[Training]

    @staticmethod
    def of(evidence: Evidence) -> Trainings | None:
        """None until there are both kinds."""
        config = controlled("cifar100", 10, prior=0.0)
        edited, native = (
            [
                Training(record["last"]["kappa_min"], record["last"]["loss"], record.get("ended"))
                for record in evidence.records.trainings(config, name)
            ]
            for name in ("temperature", "native")
        )
        return Trainings(edited, native) if edited and native else None

    def lost(self, training: Training) -> bool:
        """Whether a class collapsed: its kappa is below a tenth of the least of native ones."""
        return training.kappa < min(t.kappa for t in self.native) / 10

    def kept(self) -> Training | None:
        """The one of least kappa among the edited ones that keep their last state."""
        kept = [training for training in self.edited if training.state is not None]
        return min(kept, key=lambda training: training.kappa, default=None)


def failing_claims(evidence: Evidence) -> Iterator[Claim]:
    """The numbers that the paper prints of that network."""
    text = "CIFAR-100 IF 10, uniform prior, direct temperature: least kappa of a class at its end"
    trainings = Trainings.of(evidence)
    if trainings is None:
        yield waiting(LABEL, text, "5.4415", "failure")
    else:
        edited, native = (", ".join(f"{t.kappa:.4g}" for t in each) for each in trainings)
        lost = [trainings.lost(training) for training in trainings.edited]
        holds = None if any(lost) and not all(lost) else all(lost)
        rule = "below a tenth of native's in every training; in some of them leaves it open"
        ours = f"{edited} (native {native}); n = {len(lost)} and {len(trainings.native)}"
        yield judged(LABEL, text, "5.4415", ours, holds, rule)
    asked = {
        "cross-entropy native, temperature, preserve, Pure Angular": (
            "2.2452, 72.3403, 2.1502, 2.1503"
        ),
        "classes predicted by temperature, preserve, Pure Angular": "1, 95, 95",
        "the collapsed class: score at cosine zero, native and temperature": "0.3888, 79.1456",
        "accuracy of native (%)": "37.2",
        "target gain": "7.4057",
    }
    training = trainings and trainings.kept()
    if trainings is None or training is None or training.state is None:
        for text, paper in asked.items():
            yield waiting(LABEL, f"The same network at its end: {text}", paper, "failure")
        return
    rows, focus = training.state["same_state"], training.state["focus"]
    # The paper's network lost a class: what one that did not does is neither for it nor against.
    spared = any(map(trainings.lost, trainings.edited)) and not trainings.lost(training)
    losses = [rows[name]["cross_entropy"] for name in ("native", *NAMES)]
    distinct = [rows[name]["distinct"] for name in NAMES]
    before, after = (focus["intercepts"][name] for name in ("native", "temperature"))
    accuracy, target = 100 * rows["native"]["accuracy"], focus["target_gain"]
    outcomes = (
        (
            ", ".join(f"{v:.4f}" for v in losses),
            losses[1] > 10 * losses[0] and max(losses[2:]) < 1.5 * losses[0],
            "temperature at least ten times native, the others no worse than 1.5 times",
        ),
        (
            ", ".join(map(str, distinct)),
            distinct[0] < 10 and min(distinct[1:]) > 50,
            "fewer than ten of 100 under temperature, most under the others",
        ),
        (
            f"{before:.4f}, {after:.4f}",
            after > 10 * max(before, 1.0),
            "ten times the native one, and ten, or more",
        ),
        (
            f"{accuracy:.1f}",
            abs(accuracy - 37.2) <= 5,
            "within five points: the standard error of 500 queries is two",
        ),
        (f"{target:.4f}", 0.8 <= target / 7.4057 <= 1.25, "within a quarter"),
    )
    for (text, paper), (ours, holds, rule) in zip(asked.items(), outcomes, strict=True):
        ours, text = f"{ours}; n = 1", f"The same network at its end: {text}"
        if spared:
            holds, rule = None, f"{rule}; it kept its classes, and none that lost one has its end"
        yield judged(LABEL, text, paper, ours, holds, rule)


def realization(evidence: Evidence) -> Outcome:
    """Intercept drift of native networks and of the failing one; its cross-entropies."""
    states = [
        found
        for condition in CONDITIONS
        for found in evidence.frozen(condition, "projection").values()
        if "intercepts" in found
    ]
    trainings = Trainings.of(evidence)
    training = trainings and trainings.kept()
    last = training and training.state

    def draw() -> Figure:
        shown = last or states[0]
        with figures.style():
            figure, axes = figures.panels(2)
            for i, name in enumerate(NAMES):
                values = [state["intercepts"][name] for state in states]
                axes[0].plot([i] * len(values), values, "o", mfc="none", color=figures.BLUE)
                if last and name in last["intercepts"]:
                    axes[0].plot(i, last["intercepts"][name], "*", ms=9, color=figures.RED)
            axes[0].set_yscale("symlog", linthresh=0.01)
            axes[0].set_xticks(range(len(NAMES)), NAMES)
            axes[0].set_ylabel("largest |change of $q_c(0)$|")
            rows = shown["same_state"]
            axes[1].bar(list(rows), [row["cross_entropy"] for row in rows.values()])
            axes[1].set_ylabel("cross-entropy")
            axes[1].tick_params(axis="x", rotation=20)
            axes[1].set_title("direct temperature" if last else "native", loc="left")
            figures.letter(axes)
        return figure

    parts = {"native states": bool(states), "failing state": last is not None}
    star = (
        "star and panel (b): the last state of a network trained by direct temperature on "
        "CIFAR-100 IF 10 under a uniform prior; whether a class collapsed there, the claims say"
    )
    if last is None:
        star = "panel (b) is of a native state until the failing one is trained"
    notes = [f"Circles: {len(states)} native networks of the frozen tables, every seed; {star}."]
    return Outcome(drawings={"intercepts": draw}, parts=parts, notes=notes)


ARTEFACTS = (
    Artefact(
        "realization",
        "fig:realization",
        "Intercept drift under matched gain interventions",
        realization,
        ("failure",),
    ),
)
