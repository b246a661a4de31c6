"""fig:realization: intercepts under matched interventions, and the state that fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resultant import figures
from resultant.paper.artefact import Artefact, Outcome
from resultant.paper.evidence import CONDITIONS, Evidence
from resultant.paper.plan import controlled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES = ("temperature", "preserve", "angular")


def failing_state(evidence: Evidence, estimator: str = "proco") -> dict[str, Any] | None:
    """The summary of the direct temperature network of CIFAR-100 IF 10, uniform prior."""
    config = controlled("cifar100", 10, prior=0.0)
    for record in evidence.records.seeds(config, "temperature", 0.0).values():
        if "analysis" in record:
            return record["analysis"]["projection"][estimator]
    return None


def realization(evidence: Evidence) -> Outcome:
    """Intercept drift of native networks and of the failing one; its cross-entropies."""
    states = [
        found
        for condition in CONDITIONS
        for found in evidence.frozen(condition, "projection").values()
        if "intercepts" in found
    ]
    failing = failing_state(evidence)

    def draw() -> Figure:
        shown = failing or states[0]
        with figures.style():
            figure, axes = figures.panels(2)
            for i, name in enumerate(NAMES):
                values = [state["intercepts"][name] for state in states]
                axes[0].plot([i] * len(values), values, "o", mfc="none", color=figures.BLUE)
                if failing is not None and name in failing["intercepts"]:
                    axes[0].plot(i, failing["intercepts"][name], "*", ms=9, color=figures.RED)
            axes[0].set_yscale("symlog", linthresh=0.01)
            axes[0].set_xticks(range(len(NAMES)), NAMES)
            axes[0].set_ylabel("largest |change of $q_c(0)$|")
            rows = shown["same_state"]
            axes[1].bar(list(rows), [row["cross_entropy"] for row in rows.values()])
            axes[1].set_ylabel("cross-entropy")
            axes[1].tick_params(axis="x", rotation=20)
            which = "failing state" if failing else "a native state"
            axes[1].set_title(which, loc="left")
            figures.letter(axes)
        return figure

    parts = {"native states": bool(states), "failing state": failing is not None}
    notes = [
        f"Circles: {len(states)} native networks of the frozen tables, every seed; star: the "
        "failing state. Panel (b) is of a native state until that one is trained."
    ]
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
