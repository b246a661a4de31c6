"""fig:realization: intercepts under matched interventions, and the state that fails."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from resultant import figures
from resultant.paper.artefact import Artefact, Claim, Outcome, judged, waiting
from resultant.paper.evidence import CONDITIONS, Evidence
from resultant.paper.plan import controlled
from resultant.paper.records import Record, dig

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES = ("temperature", "preserve", "angular")
LABEL = "sec:same-state-diagnostic"


def _trained(evidence: Evidence, realization: str) -> list[Record]:
    """The networks of CIFAR-100 IF 10 under a uniform prior, by seed."""
    config = controlled("cifar100", 10, prior=0.0)
    return list(evidence.records.seeds(config, realization, 0.0).values())


def failing_state(evidence: Evidence) -> dict[str, Any] | None:
    """The rules at the last state of the first direct temperature network there
    (`resultant.paper.summary.summarize_state`)."""
    return next((r["ended"] for r in _trained(evidence, "temperature") if "ended" in r), None)


def failing_claims(evidence: Evidence) -> Iterator[Claim]:
    """The numbers that the paper prints of that network."""
    text = "CIFAR-100 IF 10, uniform prior, direct temperature: least kappa of a class at its end"
    least = [
        [v for r in _trained(evidence, name) if (v := dig(r, "last.kappa_min")) is not None]
        for name in ("temperature", "native")
    ]
    if not all(least):
        yield waiting(LABEL, text, "5.4415", "failure")
    else:
        edited, native = (", ".join(f"{v:.4g}" for v in each) for each in least)
        holds = max(least[0]) < min(least[1]) / 10
        rule = "below a tenth of native's, whose classes do not collapse"
        ours = f"{edited} (native {native}); n = {len(least[0])} and {len(least[1])}"
        yield judged(LABEL, text, "5.4415", ours, holds, rule)
    state = failing_state(evidence)
    asked = {
        "cross-entropy native, temperature, preserve, Pure Angular": (
            "2.2452, 72.3403, 2.1502, 2.1503"
        ),
        "classes predicted by temperature, preserve, Pure Angular": "1, 95, 95",
        "the collapsed class: score at cosine zero, native and temperature": "0.3888, 79.1456",
        "accuracy of native (%)": "37.2",
        "target gain": "7.4057",
    }
    if state is None:
        for text, paper in asked.items():
            yield waiting(LABEL, f"The same network at its end: {text}", paper, "failure")
        return
    rows, focus = state["same_state"], state["focus"]
    losses = [rows[name]["cross_entropy"] for name in ("native", *NAMES)]
    distinct = [rows[name]["distinct"] for name in NAMES]
    before, after = (focus["intercepts"][name] for name in ("native", "temperature"))
    accuracy, target = 100 * rows["native"]["accuracy"], focus["target_gain"]
    found = (
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
    for (text, paper), (ours, holds, rule) in zip(asked.items(), found, strict=True):
        ours, text = f"{ours}; n = 1", f"The same network at its end: {text}"
        yield judged(LABEL, text, paper, ours, holds, rule)


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
    star = "star: the last state of the direct temperature network"
    if failing is None:
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
