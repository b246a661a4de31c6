"""Native and Pure Angular on frozen features, each at its own temperature (protocol, group 1).

``python -m resultant_reproduction.tuned FILE`` computes ``results/tuned.json``, the numbers of the
packaged network, in a minute on a CPU. ``results/tuned-tiny.json`` has networks of the plan tiny
that were trained again, since the features of its records are not stored.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from statistics import fmean, median
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from resultant.analysis.metrics import rank_in_class
from resultant.classes.realization import class_scores
from resultant.classes.statistics import ClassStatistics
from resultant_reproduction.evidence import CONDITIONS, Evidence, is_external, packaged, trained_as
from resultant_reproduction.figures import intervals
from resultant_reproduction.plan import BOTH, stand_in
from resultant_reproduction.records import packaged_json
from resultant_reproduction.spec import Cell, Outcome, say
from resultant_reproduction.summarize import SPACES
from resultant_reproduction.value import Estimate, Value, over_settings

Numbers = Mapping[str, Any]

# In descending order: of equal accuracies the first is chosen.
TEMPERATURES = (1.0, 0.5, 0.2, 0.1, 0.07, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 5e-4, 2e-4, 1e-4)
SHARED = 0.1
# Setting of photographs, with the backbone of the paper's.
PHOTOS = "Tiny-ImageNet-LT"
FOLDS = 5
# Choices of the temperatures, with their titles.
CHOICES = {
    "shared": "both at 0.1",
    "halves": "by half of the test images",
    "folds": "by folds of the training images",
}


def tuned(x: Tensor, y: Tensor, queries: Tensor, labels: Tensor) -> dict[str, dict[str, Any]]:
    """Compute the accuracy of both rules at 0.1 and at temperatures chosen by validation, from
    training features ``x`` [N, p] of classes ``y`` [N] and test features [M, p] of classes [M]:
    ``halves`` of the test rows choose for each other, ``folds`` of the training rows for all."""
    x, queries = (F.normalize(a.double(), dim=-1) for a in (x, queries))
    num_classes = int(y.max()) + 1
    statistics = ClassStatistics(num_classes, x.shape[1])
    statistics.update(x, y)
    half, fold = rank_in_class(labels) % 2, rank_in_class(y) % FOLDS
    # A class with one row is fitted in every fold.
    fold[torch.bincount(y)[y] == 1] = -1
    curves = {rule: ([], [], []) for rule in BOTH}
    for (rule, own), tau in product(curves.items(), TEMPERATURES):
        right = _decide(statistics, queries, tau, rule) == labels
        predicted = torch.full_like(y, -1)
        for k in range(FOLDS):
            held = fold == k
            part = ClassStatistics(num_classes, x.shape[1])
            part.update(x[held], y[held])
            predicted[held] = _decide(statistics.without(part), x[held], tau, rule)
        held = fold >= 0
        own[0].append(float(right[half == 0].double().mean()))
        own[1].append(float(right[half == 1].double().mean()))
        own[2].append(_balanced(predicted[held], y[held]))
    return {rule: _choose(*own) for rule, own in curves.items()}


def _choose(
    first: Sequence[float], second: Sequence[float], folds: Sequence[float]
) -> dict[str, Any]:
    best = [max(range(len(own)), key=own.__getitem__) for own in (first, second, folds)]
    both = [(a + b) / 2 for a, b in zip(first, second, strict=True)]
    return {
        "shared": both[TEMPERATURES.index(SHARED)],
        "halves": (first[best[1]] + second[best[0]]) / 2,
        "folds": both[best[2]],
        "temperatures": [TEMPERATURES[i] for i in best],
        "curves": {"first": list(first), "second": list(second), "folds": list(folds)},
    }


def _decide(statistics: ClassStatistics, z: Tensor, tau: float, rule: str) -> Tensor:
    return class_scores(z, statistics.state("proco"), tau, rule).argmax(-1)


def _balanced(predicted: Tensor, labels: Tensor) -> float:
    right = (predicted == labels).double()
    counts = torch.bincount(labels)
    per_class = torch.zeros(len(counts), dtype=torch.float64).index_add_(0, labels, right)
    return float((per_class / counts)[counts > 0].mean())


def networks(evidence: Evidence) -> dict[str, list[Numbers]]:
    """Numbers of `tuned` by space, of the native networks of each setting."""
    configs = {name: trained_as(name) for name in CONDITIONS if not is_external(name)}
    configs[PHOTOS] = stand_in()
    found = {
        name: [r["tuned"] for r in evidence.every.seeds(config).values() if "tuned" in r]
        for name, config in configs.items()
    }
    found[PHOTOS] = found[PHOTOS] or packaged_json("tuned-tiny.json").get("networks", [])
    return {name: own for name, own in found.items() if own}


def change(network: Numbers, choice: str, spaces: Sequence[str] = SPACES) -> float:
    """Angular less native, points, the mean over spaces."""
    native, angular = (fmean(network[space][rule][choice] for space in spaces) for rule in BOTH)
    return 100 * (angular - native)


def effects(
    evidence: Evidence, spaces: Sequence[str] = SPACES, dataset: str = "CIFAR"
) -> dict[str, Estimate | None]:
    """Mean change over the settings whose names begin with a dataset, by choice of temperatures."""
    settings = [own for name, own in networks(evidence).items() if name.startswith(dataset)]
    return {
        choice: over_settings([[change(n, choice, spaces) for n in own] for own in settings])
        for choice in CHOICES
    }


def verdict(shared: Estimate, chosen: Estimate) -> str:
    """Apply the rule of the protocol."""
    if chosen.low is None or chosen.high is None:
        return "not tested"
    if chosen.low <= 0:
        return "all of it goes"
    if chosen.high < shared.mean / 2:
        return "most of it goes"
    return "it remains" if chosen.low > shared.mean / 2 else "open"


def tuned_rules(evidence: Evidence) -> Outcome:
    """Both rules at 0.1 and at chosen temperatures, by setting."""
    rows = networks(evidence)
    if shipped := packaged_json("tuned.json"):
        rows["packaged network"] = [shipped]
    cells, drawn = [], {title: {} for title in CHOICES.values()}
    for (name, own), (choice, title) in product(rows.items(), CHOICES.items()):
        row = f"{name} [{len(own)}]"
        for rule in BOTH:
            value = 100 * fmean(n[space][rule][choice] for n in own for space in SPACES)
            cells.append(Cell(row, f"{rule}, {title}", None, Value(value), text=f"{value:.2f}"))
        i = over_settings([[change(n, choice) for n in own]])
        assert i is not None
        cells.append(Cell(row, f"change, {title}", None, Value(i.mean), text=i.text()))
        drawn[title][row] = i, None
    chosen = []
    for space, rule in product(SPACES, BOTH):
        used = [t for own in rows.values() for n in own for t in n[space][rule]["temperatures"]]
        chosen.append(f"{rule} on {space}s {median(used):g} ({min(used):g} to {max(used):g})")
    note = f"Chosen temperatures, median and range: {'; '.join(chosen)}."
    draw = lambda: intervals(drawn, "percentage points")  # noqa: E731
    return Outcome(cells, draw=draw, notes=[note], headline=answer(evidence))


def answer(evidence: Evidence) -> str:
    """State the effect at 0.1 and at chosen temperatures, with the verdict of the protocol."""
    shared, halves, folds = effects(evidence).values()
    if shared is None or halves is None or folds is None:
        return ""
    before, after, _ = effects(evidence, ("encoder",)).values()
    assert before is not None and after is not None
    own = [shared, halves, folds, before, after]
    verdicts = verdict(shared, halves), verdict(shared, folds)
    said = say("tuned", n=shared.n, e=[estimate.text() for estimate in own], verdicts=verdicts)
    photos = [e for e in effects(evidence, dataset=PHOTOS).values() if e is not None]
    more = [e.text() for e in photos]
    return f"{said} {say('tuned-photos', n=photos[0].n, of=PHOTOS, e=more)}" if photos else said


def main(path: Path) -> None:
    """Compute the numbers of the packaged network."""
    numbers = {}
    with packaged() as store:
        for space in SPACES:
            train, test = ((store[f"{s}/{space}"], store[f"{s}/labels"]) for s in ("train", "test"))
            numbers[space] = tuned(*train, *test)
    path.write_text(json.dumps(numbers, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
