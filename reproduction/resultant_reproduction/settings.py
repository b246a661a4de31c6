"""tab:training-hyperparameters and tab:frozen-hyperparameters, beside what our code does.

Ours are read from presets, plans, functions and features; what cannot be read is said not to be
compared, with the reason.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from resultant.analysis.decisions import BETAS, FIXED
from resultant.classes.rule import REALIZATIONS
from resultant.decisions.boundaries import LOCATIONS, short_arc_roots
from resultant.images.longtail import long_tail_counts
from resultant.training.config import CIFAR, Run, TrainConfig, preset
from resultant.training.evaluation import FROZEN_TEMPERATURE
from resultant.training.probe import ProbeConfig, main_encoder
from resultant.training.proco_checkpoint import WIDTHS
from resultant.training.stack import Stack
from resultant_reproduction import frozen_tables
from resultant_reproduction.artefact import Artefact, Cell, Outcome, Value, printed, rows
from resultant_reproduction.evidence import (
    FITTING_SHARE,
    PACKAGED,
    PACKAGED_KIND,
    Evidence,
    trained_as,
)
from resultant_reproduction.plan import CLASSES, IMBALANCES, PER_CLASS, PLANS

IMAGENET, INATURALIST = "imagenet-lt", "inaturalist18"

# Where the numbers of a column come from: how networks are trained, and a store of one.
COLUMNS = {"CIFAR": ("CIFAR-100 / 100", PACKAGED), "ImageNet-LT": ("ImageNet-LT", IMAGENET)}

TRAINING = """
Encoder | ResNet-32 | ResNet-50
Encoder dimension | 64 | 2048
Projection dimension | 128 | 1024
Training epochs | 200 | 90
Global batch size | 256 | 256
Optimizer | SGD | SGD
Initial learning rate | 0.3 | 0.1
Momentum | 0.9 | 0.9
Weight decay | 0.0002 | 0.0005
Training temperature | 0.1 | 0.07
Contrastive views | two strong | two strong
Forward views | two | one weak + two strong
Main training prior | 1 | 1
Main intervention strength | 0 | 0
Contrastive loss weight | 1 | 1
Classification weight (pure / joint) | 0 / 1 | 0 / 1
"""
# What is said below the table.
BELOW = """
Schedule (said below the table) | cosine | baseline
Imbalance factors (said below the table) | 10, 50, 100 | --
"""
KINDS = "of what kind they are; what is strong and what is weak is not said"
TRAINING_LEFT = {
    "Contrastive views": KINDS,
    "Forward views": KINDS,
    "Main intervention strength": "that of ImageNet-LT, which no plan trains",
    "Schedule (said below the table)": "that of ImageNet-LT, which is not named",
}

# Row, what of it, and the words of the paper.
FROZEN = """
Linear-classifier epochs | epochs | 100
Linear-classifier epochs | representation | fixed final-epoch
Linear-classifier optimizer | optimizer | SGD
Linear-classifier optimizer | batch size | 256
Linear-classifier optimizer | learning rate | 0.1
Linear-classifier optimizer | momentum | 0.9
Linear-classifier optimizer | weight decay | zero
Linear-classifier optimizer | schedule | cosine
Linear-classifier objective | loss | Ordinary cross-entropy
Main linear fitting pool | CIFAR | long-tail training subset
Main linear fitting pool | ImageNet | 115,846
Main Encoder preprocessing | CIFAR | raw
Main Encoder preprocessing | ImageNet | unit-normalized
Projection preprocessing | CIFAR | unit-normalized
Historical CIFAR balanced pool | images | 50,000
Frozen vMF base temperature | tau | 0.1
Main frozen strength | main | 0
Main frozen strength | controls | 0.5
Frozen evaluation prior | main | Zero
Frozen vMF fitting pool | CIFAR | training subset
Frozen vMF fitting pool | ImageNet | training subset
Frozen vMF fitting pool | iNaturalist | 353,237
Held-out classification images | CIFAR | 10,000
Held-out classification images | ImageNet | 50,000
Held-out classification images | iNaturalist | 24,426
Boundary calculation | locations | 2,001
Boundary calculation | refinement | Brent
"""
FROZEN_LEFT = {
    "Linear-classifier epochs": "the epoch of the networks: of training the last one alone is kept",
    "Linear-classifier optimizer": "SGD, whose steps are written out for many probes at once: the "
    "tests hold them to those of torch",
    "Linear-classifier objective": "written out as well, and held to torch's cross-entropy of an "
    "affine layer, with nothing added",
}

# Why ours may be otherwise, by row.
APART = {
    "Boundary calculation": "the number of roots is the same, for the difference of two scores "
    "that rise with the cosine falls all along the arc: it has at most one root, which its signs "
    "at the ends tell; either method refines to rounding",
}

NUMBERS = {"zero": 0, "one": 1, "two": 2}
# Lengths of rows that are kept in float16.
ROUNDING = 1e-3

Ours = float | str | None


@dataclass(frozen=True)
class Setting:
    """What a row of a table says, and ours, None where it is not compared. ``store`` is the one
    that it asks for, if that is not shipped."""

    row: str
    what: str
    paper: str
    ours: Ours
    store: str = ""

    @property
    def number(self) -> float | None:
        """The number that is printed, in figures or, added up, in words."""
        try:
            return float(self.paper.replace(",", ""))
        except ValueError:
            words = [NUMBERS[w] for w in self.paper.lower().split() if w in NUMBERS]
            return float(sum(words)) if words else None

    @property
    def same(self) -> bool:
        if isinstance(self.ours, str):
            return _letters(self.ours) == _letters(self.paper)
        return self.ours == self.number

    def cell(self, row: str, column: str) -> Cell:
        compared = self.ours is not None or self.store
        if compared and re.fullmatch(r"[\d.,]+", self.paper) and not isinstance(self.ours, str):
            ours = None if self.ours is None else Value(float(self.ours))
            return Cell(row, column, printed(self.paper), ours, bool(self.store))
        said = "not compared" if self.ours is None else f"{self.ours}".removesuffix(".0")
        # A bar sets the paper's apart from ours.
        both = [text.replace(" / ", " and ") for text in (self.paper, said)]
        return Cell(row, column, None, text=" / ".join(both))


def _letters(text: str) -> str:
    """Letters and figures alone: ResNet-32 is resnet32."""
    return re.sub(r"[^0-9a-z]", "", text.lower())


def _note(settings: Sequence[Setting], left: dict[str, str]) -> str:
    """How many rows are compared and what came of it, and what is not compared and why."""
    by_row: dict[str, list[Setting]] = {}
    for setting in settings:
        by_row.setdefault(setting.row, []).append(setting)
    some = {row for row, each in by_row.items() if any(s.ours is not None for s in each)}
    whole = {row for row in some - left.keys() if all(s.ours is not None for s in by_row[row])}
    apart = [s for s in settings if s.ours is not None and not s.same]
    found = "all that is compared is as printed"
    if apart:
        listed = "; ".join(f"{s.row}, {s.what} ({s.paper}, ours {s.ours})" for s in apart)
        found = f"all that is compared is as printed, but for {listed}"
        differing = dict.fromkeys(s.row for s in apart if s.row in APART)
        found += "".join(f". {row}: {APART[row]}" for row in differing)
    why = dict(left)
    for row, each in by_row.items():
        lacking = [f"{s.what} {s.paper}" for s in each if s.ours is None and s.store]
        if lacking:
            why[row] = f"{', '.join(lacking)}, of data that are not shipped"
    reasons = ". ".join(f"{row}: {why[row]}" for row in by_row if row in why)
    counts = f"{len(whole)} of {len(by_row)} rows are compared in full, {len(some - whole)} in part"
    return f"{counts}; {found}. Not compared: {reasons or 'nothing'}."


def training(evidence: Evidence) -> Outcome:
    """The recipe of the controlled runs and of ImageNet-LT, row by row."""
    settings = [
        Setting(row, column, text, _trained(evidence, row, column))
        for row, *texts in rows(TRAINING + BELOW.lstrip())
        for column, text in zip(COLUMNS, texts, strict=True)
        if text != "--"
    ]
    cells = [s.cell(s.row, s.what) for s in settings]
    return Outcome(cells, notes=[_note(settings, TRAINING_LEFT)])


READ: dict[str, Callable[[TrainConfig], Ours]] = {
    "Encoder": lambda c: c.architecture,
    "Projection dimension": lambda c: float(c.dim),
    "Training epochs": lambda c: float(c.epochs),
    "Global batch size": lambda c: float(c.batch_size),
    "Optimizer": lambda c: type(_stack(c.objective).optimizer).__name__,
    "Initial learning rate": lambda c: c.learning_rate,
    "Momentum": lambda c: c.momentum,
    "Weight decay": lambda c: c.weight_decay,
    "Training temperature": lambda c: c.temperature,
    "Contrastive views": lambda c: float(c.views - c.classification_view),
    "Forward views": lambda c: float(c.views),
    "Main training prior": lambda c: c.prior,
    "Main intervention strength": lambda c: _strength(c),
    "Contrastive loss weight": lambda c: c.contrastive_weight,
    "Classification weight (pure / joint)": lambda c: (
        f"{_classification(c, 'contrastive'):g} / {_classification(c, 'joint'):g}"
    ),
    "Schedule (said below the table)": lambda c: c.schedule if c.dataset in CIFAR else None,
    "Imbalance factors (said below the table)": lambda c: ", ".join(map(str, IMBALANCES)),
}


def _trained(evidence: Evidence, row: str, column: str) -> Ours:
    """Ours of a row."""
    condition, store = COLUMNS[column]
    config = trained_as(condition)
    if row != "Encoder dimension":
        return READ[row](config)
    if evidence.has(store, "encoder"):
        return float(evidence.space(store, "encoder").train.shape[1])
    # A projector of listed images is as wide inside as the encoder.
    width = WIDTHS.get(config.architecture)
    return None if width is None else float(width)


@cache
def _stack(objective: str) -> Stack:
    """What trains networks of any recipe; this one a small network, of two classes."""
    batches: Any = None
    config = preset("cifar-controlled", objective=objective)
    return Stack(config, [Run()], batches, torch.ones(2), torch.device("cpu"))


def _classification(config: TrainConfig, objective: str) -> float:
    """The weight of the classification loss."""
    return 0.0 if _stack(objective).classification is None else config.alpha


def _strength(config: TrainConfig) -> Ours:
    """beta of the runs of the main plan, None where there is no plan."""
    runs = [run for job in PLANS["main"].jobs() for run in job.runs]
    return _only(run.beta for run in runs) if config.dataset in CIFAR else None


def frozen(evidence: Evidence) -> Outcome:
    """The probes and the frozen evaluation, row by row."""
    ours = _evaluated(evidence)
    settings = [
        Setting(row, what, text, ours.get(f"{row}: {what}"), ASKED.get(f"{row}: {what}", ""))
        for row, what, text in rows(FROZEN)
    ]
    cells = [s.cell(f"{s.row}: {s.what}", "value") for s in settings]
    return Outcome(cells, notes=[_note(settings, FROZEN_LEFT)])


# The stores that numbers of images are of.
ASKED = {
    "Main linear fitting pool: ImageNet": IMAGENET,
    "Frozen vMF fitting pool: iNaturalist": INATURALIST,
    "Held-out classification images: ImageNet": IMAGENET,
    "Held-out classification images: iNaturalist": INATURALIST,
}


def _evaluated(evidence: Evidence) -> dict[str, Ours]:
    """Ours of tab:frozen-hyperparameters, by row and what of it."""
    probe = ProbeConfig()
    space = evidence.space(PACKAGED, "projection")
    grid = evidence.analysis(PACKAGED, "projection").grid
    assert grid is not None
    # What the main table has the accuracies of.
    main = [grid.point(rule) for rule in REALIZATIONS]
    lengths = space.test[:].float().norm(dim=-1)
    unit = bool(((lengths - 1).abs() < ROUNDING).all())
    exhaustive = inspect.signature(short_arc_roots).parameters["exhaustive"].default
    found: dict[str, Ours] = {
        "Linear-classifier epochs: epochs": float(probe.epochs),
        "Linear-classifier optimizer: batch size": float(probe.batch_size),
        "Linear-classifier optimizer: learning rate": probe.learning_rate,
        "Linear-classifier optimizer: momentum": probe.momentum,
        "Linear-classifier optimizer: weight decay": probe.weight_decay,
        "Linear-classifier optimizer: schedule": _schedule(ProbeConfig(epochs=6)),
        "Main linear fitting pool: CIFAR": _pool(evidence, "long-tail training subset"),
        "Main Encoder preprocessing: CIFAR": _only(FORMS[main_encoder(name)] for name in CIFAR),
        "Main Encoder preprocessing: ImageNet": FORMS[main_encoder(IMAGENET)],
        "Projection preprocessing: CIFAR": FORMS["unit" if unit else "raw"],
        "Historical CIFAR balanced pool: images": _only(
            float(PER_CLASS[name] * CLASSES[name]) for name in CIFAR
        ),
        "Frozen vMF base temperature: tau": FROZEN_TEMPERATURE,
        "Main frozen strength: main": _only(p.beta for p in main if p.realization not in FIXED),
        "Main frozen strength: controls": next(beta for beta in BETAS if 0 < beta < 1),
        "Frozen evaluation prior: main": _only(p.gamma for p in main),
        "Frozen vMF fitting pool: CIFAR": _pool(evidence, "training subset"),
        "Frozen vMF fitting pool: ImageNet": (
            "others" if IMAGENET in FITTING_SHARE else "training subset"
        ),
        "Held-out classification images: CIFAR": _number_of(evidence, PACKAGED, "test"),
        "Boundary calculation: locations": (
            float(LOCATIONS)
            if exhaustive
            else f"{LOCATIONS:,}, or the two ends where both scores rise with the cosine"
        ),
        "Boundary calculation: refinement": "Brent" if exhaustive else "Chandrupatla",
    }
    for name, store in ASKED.items():
        split = "test" if name.startswith("Held-out") else "train"
        found[name] = _number_of(evidence, store, split)
    return found


# How features are given to probes, in the words of the paper.
FORMS = {"raw": "raw", "unit": "unit-normalized"}


def _only(values: Iterable[float | str]) -> float | str:
    """The one value that all are; where they differ, all of them in words."""
    found = list(dict.fromkeys(values))
    return found[0] if len(found) == 1 else " or ".join(map(str, found))


def _schedule(probe: ProbeConfig) -> str:
    """Cosine, if the rates after two, three and four of six epochs are its."""
    shares = [probe.rate(epoch) / probe.learning_rate for epoch in (0, 2, 3, 4)]
    alike = all(map(math.isclose, shares, (1.0, 0.75, 0.5, 0.25)))
    return "cosine" if alike else "another"


def _pool(evidence: Evidence, words: str) -> str:
    """The words of the paper, if the packaged network is fitted to all of the subset of its
    imbalance."""
    dataset, imbalance, _ = PACKAGED_KIND
    space = evidence.space(PACKAGED, "projection")
    counts = long_tail_counts(PER_CLASS[dataset], CLASSES[dataset], imbalance)
    return words if space.fitting is None and torch.equal(space.counts, counts) else "others"


def _number_of(evidence: Evidence, store: str, split: str) -> float | None:
    """How many images of a store are fitted, or held out; None where it is not there."""
    if not evidence.has(store, "projection"):
        return None
    space = evidence.space(store, "projection")
    if split == "test":
        return float(len(space.test_labels))
    return float(len(space.labels) if space.fitting is None else space.fitting.sum())


# The same images as for the frozen tables.
FOREIGN = frozen_tables.ARTEFACTS[0].foreign, frozen_tables.ARTEFACTS[0].commands

ARTEFACTS = (
    Artefact(
        "training-hyperparameters",
        "tab:training-hyperparameters",
        "Feature-learning settings",
        training,
    ),
    Artefact(
        "frozen-hyperparameters",
        "tab:frozen-hyperparameters",
        "Frozen-evaluation settings",
        frozen,
        (),
        *FOREIGN,
    ),
)
