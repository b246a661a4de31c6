"""Sentences about leading gradients at fixed class statistics (sec:gradient-protocol) and along
trainings, and about intercepts there (sec:cifar10-local-mechanism)."""

from __future__ import annotations

from itertools import product
from statistics import fmean

from resultant.classes.rule import EDITED
from resultant_reproduction.artefact import Claim, judged, waiting
from resultant_reproduction.controls import OBJECTIVES, POLICIES, control_config
from resultant_reproduction.courses import Course
from resultant_reproduction.evidence import CONDITIONS, Evidence
from resultant_reproduction.historical import ENDS
from resultant_reproduction.networks import at_path, by_place
from resultant_reproduction.records import Records, dig, paired, path_of
from resultant_reproduction.rules import FACTOR, counted, of_networks, span
from resultant_reproduction.summarize import SPACES

LABEL = "sec:cifar10-local-mechanism"
# Twice the largest leading gradient error that is printed, of sec:historical-gradient.
CLOSE = FACTOR * max(
    float(text) for _, _, key, texts in ENDS if key == "gradient_error" for text in texts
)
TWICE = (
    ", twice the largest error of leading gradients that the paper prints "
    "(sec:historical-gradient), of which it does not say whether it is stacked over queries as "
    "ours is"
)
# Leading scores, and what the errors of their gradients are called in summaries.
LEADING = {"linear mean": "linear_error", "joint leading": "joint_error"}


def intercept_claim(records: Records) -> Claim:
    """sec:cifar10-local-mechanism: at the ends of trainings of CIFAR-10, and at the states before
    that a trajectory keeps."""
    text = "Intercepts at cosine zero are preserved at every recorded state: largest mean |drift|"
    paper = "0 under intercept-preserving and Pure Angular"
    ends: dict[str, list[float]] = {name: [] for name in EDITED}
    along: list[float] = []
    for record in records:
        name, drift = record["realization"], dig(record, "last.intercept_drift")
        if name not in ends or drift is None or record["config"]["dataset"] != "cifar10":
            continue
        ends[name].append(drift)
        if name != "temperature":
            told = record.get("trajectory", {})
            states = zip(told.get("epoch", ()), told.get("intercept_drift", ()), strict=False)
            last = record["config"]["epochs"]
            along += [v for epoch, v in states if epoch < last and v is not None]
    kept = [*ends["preserve"], *ends["angular"]]
    if not ends["preserve"] or not ends["angular"]:
        return waiting(LABEL, text, paper, "main")
    ours = f"{max(kept):.3g} at the ends of {len(ends['preserve'])} and {len(ends['angular'])} runs"
    states = "state" if len(along) == 1 else "states"
    ours += f", {max(along):.3g} at {len(along)} {states} before" if along else ""
    if moved := ends["temperature"]:
        ours += f"; direct temperature {min(moved):.3g} to {max(moved):.3g} in {len(moved)}"
    return judged(
        *(LABEL, text, paper, ours, max([*kept, *along]) <= 1e-9),
        "at most 1e-9 in every CIFAR-10 run, at its end and along trajectories, which the plan "
        "controls keeps; true by construction, so that it is a check of the code",
        tested=1 + bool(along),
        of=2,
    )


def frozen_gradient_claim(evidence: Evidence) -> Claim:
    """The main text on real boundaries and gradients, which leads to sec:gradient-protocol: both
    leading scores on the native networks of all conditions."""
    label, paper = "sec:gradient-protocol", "close (no number)"
    text = "Leading tangent gradients closely track exact ones at fixed class statistics: error (%)"
    found = {n: by_place(evidence, at_path(f"gradients.{key}")) for n, key in LEADING.items()}
    known = [values for own in found.values() for values in own.values()]
    if not known:
        return waiting(label, text, paper, "main")
    told = [
        f"{space} {name} {span(means, 2)}"
        for space, (name, own) in product(SPACES, found.items())
        if (means := [fmean(values) for (_, at), values in own.items() if at == space])
    ]
    claim = judged(
        *(label, text, paper, f"{', '.join(told)}; {counted(map(len, known))}"),
        max(map(fmean, known)) <= CLOSE,
        f"means over networks at most {CLOSE:.2f}{TWICE}; the paper does not say which leading "
        "score it takes, and both are asked",
        tested=len({place for own in found.values() for place in own}),
        of=len(CONDITIONS) * len(SPACES),
    )
    return of_networks(claim, min(map(len, known)))


def gradient_claim(evidence: Evidence) -> Claim:
    """sec:cifar10-local-mechanism: leading gradients along fig:c10-trajectory, of policies whose
    representations end less accurate than native."""
    text = (
        "CIFAR-10 IF50, uniform prior: leading gradients remain close where accuracy is lower, "
        "largest error of a recorded state (%)"
    )
    largest: dict[str, tuple[float, str]] = {}
    errors: list[float] = []
    seeds: list[int] = []
    for objective, (name, policy) in product(OBJECTIVES, list(POLICIES.items())[1:]):
        config = control_config("c10-if50-u", objective)
        lower = [
            d
            for space in SPACES
            for d in paired(
                *(
                    evidence.records.values(config, *kind, path_of(space, "balanced"))
                    for kind in (policy, ("native", 0.0))
                )
            ).values()
        ]
        course = Course.of(evidence.records.seeds(config, *policy), "gradient_error")
        if course is None or not lower or sum(lower) >= 0:
            continue
        own = {epoch: fmean(values) for epoch, values in course.values.items()}
        epoch = max(own, key=own.__getitem__)
        said = f"{objective} {own[epoch]:.2f} ({name}, epoch {epoch})"
        largest[objective] = max(largest.get(objective, (0.0, "")), (own[epoch], said))
        errors += own.values()
        seeds.append(len(course.seeds))
    if not errors:
        return waiting(LABEL, text, "close (no number)", "controls")
    far = sum(v > CLOSE for v in errors)
    ours = f"{', '.join(said for _, said in largest.values())}; above {CLOSE:.2f} at {far} of "
    ours += f"{len(errors)} states of {len(seeds)} policies; {counted(seeds)}"
    rule = f"mean over networks at most {CLOSE:.2f} at every state{TWICE}"
    claim = judged(LABEL, text, "close (no number)", ours, not far, rule)
    return of_networks(claim, min(seeds))
