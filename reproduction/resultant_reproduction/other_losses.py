"""Beyond the paper: gains and rules on networks of other losses, group 4 of ``protocol.md``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from resultant_reproduction.evidence import Evidence
from resultant_reproduction.figures import intervals
from resultant_reproduction.formats import p_text
from resultant_reproduction.plan import controlled, other_losses
from resultant_reproduction.records import Records
from resultant_reproduction.spec import Cell, Outcome
from resultant_reproduction.summarize import SPACES
from resultant_reproduction.value import Value
from resultant_reproduction.verdicts import Arm, Estimate, contrast, holm

PROCO = "ProCo"
TITLES = {"supcon": "SupCon", "balanced": "BCL", "cross-entropy": "cross-entropy"}
EDITS = ("temperature", "preserve", "angular")
# A spread of gains is shared with at least this part of ProCo's.
LEAST_SPREAD = 0.5

# Frozen summaries of the networks of a loss, by space.
Summaries = Mapping[str, Sequence[Mapping[str, Any]]]


def networks(records: Records) -> dict[str, Summaries]:
    """Frozen summaries by loss and space, ProCo's kappa. Cross-entropy trains no projection."""
    configs = {PROCO: controlled("cifar100", 100)}
    configs |= {TITLES[name]: config for name, config in other_losses().items()}
    found = {}
    for name, config in configs.items():
        own = records.frozen(config)
        if own["encoder"]:
            spaces = SPACES if config.contrastive_weight else SPACES[:1]
            found[name] = {space: own[space] for space in spaces}
    return found


def variation(summaries: Sequence[Mapping[str, Any]]) -> list[float]:
    """Coefficient of variation of the gains, per network."""
    return [s["gains"]["standard_deviation"] / s["gains"]["mean"] for s in summaries]


def change(summaries: Sequence[Mapping[str, Any]], edit: str) -> Estimate:
    """Accuracy of an edit at beta 0 less native, in points over networks."""
    points = [100 * (s["accuracy"][edit] - s["accuracy"]["native"]) for s in summaries]
    return contrast([(1.0, Arm.of(points))])


def _side(estimate: Estimate) -> int:
    if estimate.low is None or estimate.high is None:
        return 0
    return int(estimate.low > 0) - int(estimate.high < 0)


def verdicts(found: Mapping[str, Summaries]) -> tuple[str, str]:
    """Judge whether the spread of gains, and the effect of equal gains, are everyone's."""

    def word(shared: Sequence[bool]) -> str:
        return "everyone's" if all(shared) else "mixed" if any(shared) else "ProCo's own"

    others = [own["encoder"] for name, own in found.items() if name != PROCO]
    if PROCO not in found or len(others) < len(TITLES):
        return "open", "open"
    usual, effect = found[PROCO]["encoder"], _side(change(found[PROCO]["encoder"], "angular"))
    least = LEAST_SPREAD * fmean(variation(usual))
    return (
        word([fmean(variation(own)) >= least for own in others]),
        word([effect != 0 and _side(change(own, "angular")) == effect for own in others]),
    )


def losses(evidence: Evidence) -> Outcome:
    """Gains, edits and certificates by loss and space."""
    found = networks(evidence.every)
    cells = []
    for name, by_space in found.items():
        effects = {(s, e): change(own, e) for s, own in by_space.items() for e in EDITS}
        tested = {key: i.p for key, i in effects.items() if i.p is not None}
        adjusted = dict(zip(tested, holm([*tested.values()]), strict=True))
        for space, own in by_space.items():
            row = f"{name}, {space} [{len(own)}]"
            shares = {
                "variation of gains": Value.of(variation(own)),
                "certified (%)": _share(own, "certified"),
                "agreement of cosine (%)": Value.of([100 * s["cosine"]["agreement"] for s in own]),
                "native (%)": Value.of([100 * s["accuracy"]["native"] for s in own]),
            }
            for column, value in shares.items():
                digits = 4 if column.startswith("variation") else 2
                text = "–" if value is None else value.text(digits)
                cells.append(Cell(row, column, None, value, text=text))
            for edit in EDITS:
                text = f"{effects[space, edit].text(2)}, p {p_text(adjusted.get((space, edit)))}"
                cells.append(Cell(row, f"{edit} - native", None, text=text))
    spread, effect = verdicts(found)
    note = (
        "Frozen features, CIFAR-100-LT, imbalance 100, temperature 0.1; [networks]. Edits at beta "
        "0 less native in points, with 95 % intervals over networks and p values corrected within "
        "a loss by Holm's method. Variation is the standard deviation of the gains over their "
        "mean."
    )
    complete = len(found) > len(TITLES)
    numbers = ", ".join(f"{name} {len(own['encoder'])}" for name, own in found.items())
    drawn = {
        f"{edit} less native, points": {
            f"{name}, {space} [{len(own)}]": (i.mean, i.low, i.high)
            for name, by_space in found.items()
            for space, own in by_space.items()
            for i in (change(own, edit),)
        }
        for edit in ("angular", "temperature")
    }
    return Outcome(
        cells,
        parts={title: title in found for title in TITLES.values()},
        notes=[note],
        headline=f"The spread of gains is {spread}. The effect of equal gains is {effect}. "
        f"Networks: {numbers}."
        if complete
        else "",
        draw=(lambda: intervals(drawn)) if len(found) > 1 else None,
    )


def _share(summaries: Sequence[Mapping[str, Any]], name: str) -> Value | None:
    return Value.of([100 * s["cosine"][name] / s["cosine"]["queries"] for s in summaries])
