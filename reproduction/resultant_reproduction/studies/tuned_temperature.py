"""The question "Does Pure Angular help if each rule has its own temperature?" (protocol, group 1).

``python -m resultant_reproduction.studies.tuned_temperature FILE`` computes
``results/tuned.json``, the numbers of the packaged network, in a minute on a CPU.
``results/tuned-tiny.json`` has networks of the plan tiny that were trained again, since the
features of its records are not stored.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from statistics import fmean, median
from typing import Any

from resultant_reproduction.cells.cells import Cell, Outcome, say
from resultant_reproduction.cells.charts import intervals
from resultant_reproduction.cells.statistics import Estimate, Value, over_settings
from resultant_reproduction.frozen.summarize import SPACES
from resultant_reproduction.frozen.tuned import BOTH, tuned
from resultant_reproduction.runs.evidence import (
    CONDITIONS,
    Evidence,
    is_external,
    packaged,
    trained_as,
)
from resultant_reproduction.runs.plans import stand_in
from resultant_reproduction.runs.records import packaged_json

Numbers = Mapping[str, Any]

# Setting of photographs, with the backbone of the paper's.
PHOTOS = "Tiny-ImageNet-LT"
# Choices of the temperatures, with their titles.
CHOICES = {
    "shared": "both at 0.1",
    "halves": "by half of the test images",
    "folds": "by folds of the training images",
}


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
