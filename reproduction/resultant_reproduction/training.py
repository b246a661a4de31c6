"""Representations and classifiers after training: tab:angular-training and tab:joint-fc."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from resultant_reproduction.artefact import (
    LATER,
    Artefact,
    Cell,
    Change,
    Outcome,
    Value,
    printed,
    rows,
)
from resultant_reproduction.evidence import Evidence, foreign, trained_as
from resultant_reproduction.figures import forest
from resultant_reproduction.plan import RULES, plan, wanted
from resultant_reproduction.records import paired, path_of
from resultant_reproduction.rules import positive, several, span, toward, whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = ("ProCo", "Direct temperature", "Intercept-preserving", "Pure Angular")
CHANGES = tuple(f"{column} - ProCo" for column in COLUMNS[1:])

TRAINING = """
CIFAR-10 / 10 | Encoder | 86.28 ± 0.09 | 86.52 ± 0.15 | 86.54 ± 0.11 | 86.93 ± 0.10 | +0.65
CIFAR-10 / 10 | Projection | 87.10 ± 0.06 | 87.55 ± 0.08 | 87.65 ± 0.16 | 87.96 ± 0.13 | +0.86
CIFAR-10 / 50 | Encoder | 75.73 ± 0.12 | 75.93 ± 0.19 | 76.02 ± 0.10 | 76.14 ± 0.17 | +0.41
CIFAR-10 / 50 | Projection | 77.66 ± 0.07 | 77.64 ± 0.11 | 78.46 ± 0.14 | 78.83 ± 0.09 | +1.17
CIFAR-10 / 100 | Encoder | 68.24 ± 0.16 | 67.89 ± 0.13 | 68.13 ± 0.13 | 68.43 ± 0.11 | +0.19
CIFAR-10 / 100 | Projection | 72.65 ± 0.10 | 72.48 ± 0.14 | 72.74 ± 0.08 | 73.12 ± 0.16 | +0.47
CIFAR-100 / 10 | Encoder | 53.08 ± 0.12 | 53.11 ± 0.11 | 53.24 ± 0.16 | 53.82 ± 0.14 | +0.74
CIFAR-100 / 10 | Projection | 52.89 ± 0.09 | 53.24 ± 0.15 | 53.09 ± 0.18 | 53.75 ± 0.11 | +0.86
CIFAR-100 / 50 | Encoder | 37.97 ± 0.15 | 39.14 ± 0.17 | 38.46 ± 0.17 | 38.91 ± 0.13 | +0.94
CIFAR-100 / 50 | Projection | 37.40 ± 0.08 | 37.44 ± 0.16 | 38.14 ± 0.11 | 37.76 ± 0.12 | +0.36
CIFAR-100 / 100 | Encoder | 34.62 ± 0.14 | 34.11 ± 0.19 | 34.32 ± 0.16 | 35.39 ± 0.20 | +0.77
CIFAR-100 / 100 | Projection | 34.19 ± 0.10 | 33.68 ± 0.17 | 33.27 ± 0.12 | 34.41 ± 0.09 | +0.22
ImageNet-LT | Encoder | 23.05 ± 0.12 | 22.93 ± 0.15 | 23.12 ± 0.16 | 23.22 ± 0.19 | +0.17
ImageNet-LT | Projection | 36.86 ± 0.06 | 37.05 ± 0.10 | 37.04 ± 0.13 | 37.07 ± 0.11 | +0.21
"""

JOINT = """
CIFAR-10 / 10 | 87.46 | 87.29 | 87.41 | 87.24 | -0.22
CIFAR-10 / 50 | 80.52 | 80.46 | 80.81 | 80.79 | +0.27
CIFAR-10 / 100 | 77.79 | 77.39 | 76.71 | 76.50 | -1.29
CIFAR-100 / 10 | 58.26 | 58.24 | 57.55 | 58.75 | +0.49
CIFAR-100 / 50 | 47.63 | 46.73 | 48.82 | 48.10 | +0.47
CIFAR-100 / 100 | 44.67 | 43.15 | 43.54 | 43.88 | -0.79
ImageNet-LT | 57.26 | 56.75 | -- | 57.35 | +0.09
"""

IMAGENET = (
    "resultant train imagenet-lt --objective contrastive --realization native temperature preserve "
    "angular --seeds 0 1 2 --data LISTS --images IMAGES --out out/imagenet",
    "for run in out/imagenet/*-seed?; do run=${run##*/}",
    "  resultant extract out/imagenet/$run/$run.safetensors --out out/imagenet/$run/features."
    "safetensors --data LISTS --images IMAGES",
    "  resultant probe out/imagenet/$run/features.safetensors --out out/imagenet/$run/probes.json",
    "done",
    "resultant reproduce angular-training --records out/imagenet/*/probes.json",
)
IMAGENET_JOINT = (
    "resultant train imagenet-lt --realization native temperature angular --data LISTS "
    "--images IMAGES --out out/imagenet-joint",
    "resultant reproduce joint-fc --records out/imagenet-joint/records.jsonl",
)


def _row(
    evidence: Evidence, name: str, title: str, texts: list[str], path: str, **changes: object
) -> tuple[list[Cell], list[Change]]:
    """The cells of a printed row that ends with the change of the last column from the first, and
    the changes of all columns; none where the data are foreign and nobody brought records."""
    config = trained_as(name, **changes)
    values = [evidence.records.values(config, r, 0.0, path) for r in RULES]
    seeds = [0 if foreign(name) else wanted(config, r) for r in RULES]
    shown = [printed(text) for text in texts]
    differences = [paired(after, values[0]) for after in values[1:]]
    ours = [*(Value.of(list(v.values())) for v in values), Value.of([*differences[-1].values()])]
    cells = [
        Cell(title, column, paper, value, foreign(name), wanted=n)
        for column, paper, value, n in zip(
            (*COLUMNS, "Δ"), shown, ours, (*seeds, min(seeds)), strict=True
        )
    ]
    before, tested = shown[0], []
    assert before is not None
    for what, paper, found in zip(CHANGES, shown[1:], differences, strict=False):
        if paper is not None and (found or not foreign(name)):
            delta = round(paper.value.mean - before.value.mean, 2)
            tested.append(Change(title, what, delta, found))
    return cells, tested


def of_cifar(outcome: Outcome, what: str = CHANGES[-1]) -> list[Change]:
    """One kind of changes of a table, in the settings of CIFAR."""
    return [c for c in outcome.changes if c.what == what and c.row.startswith("CIFAR")]


def angular_training(evidence: Evidence) -> Outcome:
    """tab:angular-training: long-tail probes after contrastive training, frequency prior."""
    cells, changes = [], []
    for name, space, *texts in rows(TRAINING):
        path = path_of(space.lower())
        more, tested = _row(evidence, name, f"{name}, {space}", texts, path)
        cells += more
        changes += tested
    note = (
        "Probes of the last epoch. Δ and the changes are paired: over the seeds that both kinds "
        "have, so that Δ need not be the difference of the two means. "
        f"{LATER}"
    )
    drawings = {"changes": lambda: _draw(changes)}
    found = Outcome(cells, changes, drawings, notes=[note])
    return replace(found, headline=_in_short(of_cifar(found)))


def _in_short(own: list[Change]) -> str:
    """What Pure Angular adds on CIFAR, printed and ours."""
    seeds = plan("main").seeds
    planned = [replace(c, by_seed={s: c.by_seed[s] for s in c.by_seed if s in seeds}) for c in own]
    known = [c.ours.mean for c in own if c.ours]
    if not known:
        return ""
    paper = [c.paper for c in own if c.paper is not None]
    alone = "" if planned == own else f" By the planned seeds alone it is {whole(planned)}."
    return (
        f"Training with Pure Angular in place of ProCo changes long-tail probes by {whole(own)}, "
        f"in points, mean over the settings of CIFAR; {sum(v > 0 for v in known)} of {len(known)} "
        f"readouts rise. Printed are {span(paper, 2, sign='+')}, and "
        f"{sum(v > 0 for v in paper)} of {len(paper)} rise.{alone}"
    )


def joint_fc(evidence: Evidence) -> Outcome:
    """tab:joint-fc: the classifier of joint training, last epoch."""
    cells, changes = [], []
    for name, *texts in rows(JOINT):
        more, tested = _row(evidence, name, name, texts, "last.accuracy", objective="joint")
        cells += more
        changes += tested
    note = (
        "The paper's are printed without a spread, and taken to be single runs; ours are of the "
        "last epoch, both views into the classifier."
    )
    found = Outcome(cells, changes, {"changes": lambda: _draw(changes)}, notes=[note])
    return replace(found, headline=_joint_in_short(of_cifar(found)))


def _joint_in_short(changes: list[Change]) -> str:
    """What Pure Angular does to classifiers, and what is printed."""
    known = [c for c in changes if c.ours is not None]
    if not known:
        return ""
    kept, where = several(known)
    paper = span([c.paper or 0.0 for c in changes], 2, sign="+")
    return (
        "Joint training with Pure Angular in place of ProCo changes classifiers by "
        f"{whole(kept)}, in points, mean over {where}; {positive(toward(known))} of {len(known)} "
        f"have the printed sign. Printed are {paper}."
    )


def _draw(changes: list[Change]) -> Figure:
    """Pure Angular less ProCo, printed and ours, with each seed."""
    rows = {c.row: (c.paper or 0.0, c.differences) for c in changes if c.what == CHANGES[-1]}
    return forest(rows, "Pure Angular less ProCo, percentage points")


ARTEFACTS = (
    Artefact(
        "angular-training",
        "tab:angular-training",
        "Representation accuracy after contrastive-only training",
        angular_training,
        ("main",),
        "ImageNet-LT images",
        IMAGENET,
    ),
    Artefact(
        "joint-fc",
        "tab:joint-fc",
        "Classifier accuracy after joint training",
        joint_fc,
        ("joint",),
        "ImageNet-LT images",
        IMAGENET_JOINT,
    ),
)
