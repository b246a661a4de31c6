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
from resultant_reproduction.cells.text import markdown_table
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
# Beginnings of the names of settings, by data set.
DATASETS = ("CIFAR-10 ", "CIFAR-100 ")
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
    """Apply the rule of the protocol, which is for an effect above zero at 0.1."""
    if (shared.sign or 0) < 1:
        return "no gain at 0.1"
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
    notes = [f"Chosen temperatures, median and range: {'; '.join(chosen)}.", whole(evidence)]
    return Outcome(
        cells,
        draw=lambda: intervals(drawn, "percentage points"),
        notes=[*filter(None, notes)],
        headline=answer(evidence),
        sections={"By data set and space": place_table(evidence)}
        if places(evidence, *DATASETS)
        else {},
    )


Place = tuple[str, str]


def places(evidence: Evidence, *datasets: str) -> dict[Place, dict[str, Estimate]]:
    """Effects by data set and space, by choice of temperatures, where there are records."""
    found = {
        (name.strip(), space): effects(evidence, (space,), name)
        for name, space in product(datasets, SPACES)
    }
    return {
        place: {choice: e for choice, e in own.items() if e is not None}
        for place, own in found.items()
        if None not in own.values()
    }


def _parts(found: Mapping[Place, Mapping[str, Estimate]], named: bool = True) -> str:
    """Effects by place: at 0.1 and with temperatures chosen by halves, with the verdict."""
    texts = []
    for (name, space), own in found.items():
        said = verdict(own["shared"], own["halves"])
        place = f"{name} {space}s" if named else f"{space}s"
        texts.append(f"{place} {own['shared'].mean:+.2f}, then {own['halves'].text()} ({said})")
    return "; ".join(texts)


def answer(evidence: Evidence) -> str:
    """State the effects at 0.1 and at chosen temperatures by data set and space, with the verdicts
    of the protocol."""
    cifar = places(evidence, *DATASETS)
    if not cifar:
        return ""
    n = sum(len(own) for name, own in networks(evidence).items() if name != PHOTOS)
    said = say("tuned", n=n, parts=_parts(cifar))
    photos = places(evidence, PHOTOS)
    if not photos:
        return said
    n = next(iter(photos.values()))["shared"].n
    return f"{said} {say('tuned-photos', n=n, of=PHOTOS, parts=_parts(photos, named=False))}"


def whole(evidence: Evidence) -> str:
    """State the primary effect of the protocol: the mean over settings and spaces."""
    shared, halves, folds = effects(evidence).values()
    if shared is None or halves is None or folds is None:
        return ""
    own = [estimate.text() for estimate in (shared, halves, folds)]
    return say("tuned-mean", e=own, verdicts=(verdict(shared, halves), verdict(shared, folds)))


def place_table(evidence: Evidence) -> str:
    """Table of the effects by data set and space."""
    known = places(evidence, *DATASETS, PHOTOS)
    rows = [
        (
            *(f"{name}, {space}s [{own['shared'].n}]", own["shared"].text()),
            *(
                cell
                for choice in ("halves", "folds")
                for cell in (own[choice].text(), verdict(own["shared"], own[choice]))
            ),
        )
        for (name, space), own in known.items()
    ]
    headings = (
        "",
        CHOICES["shared"],
        *(h for c in ("halves", "folds") for h in (CHOICES[c], "verdict")),
    )
    return markdown_table(rows, headings)


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
