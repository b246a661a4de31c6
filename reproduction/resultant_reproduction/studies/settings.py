"""tab:training-hyperparameters and tab:frozen-hyperparameters, compared with our code.

Ours are read from presets, plans, functions and features. Settings that cannot be read are not
compared, and the note has the reason.
"""

import inspect
import math
import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

import torch

from resultant.classes.rule import REALIZATIONS
from resultant.classifiers.search import FIXED_BETA
from resultant.decisions.boundaries import LOCATIONS, short_arc_roots
from resultant.features.packaged import PACKAGED
from resultant.images.longtail import long_tail_counts
from resultant.training.config import Run
from resultant_reproduction.cells.cells import Cell, Outcome, load, parse_cell, printed_rows
from resultant_reproduction.cells.statistics import Value
from resultant_reproduction.cifar.network import HIDDEN
from resultant_reproduction.cifar.stack import Stack
from resultant_reproduction.frozen.decisions import BETAS
from resultant_reproduction.recipes.config import CIFAR, ProbeConfig, preset
from resultant_reproduction.recipes.evaluation import FROZEN_TEMPERATURE
from resultant_reproduction.recipes.probes import main_encoder
from resultant_reproduction.runs.evidence import FIT_FRACTION, PACKAGED_KIND, Evidence, trained_as
from resultant_reproduction.runs.plans import CLASSES, IMBALANCES, PER_CLASS, PLANS

IMAGENET = "imagenet-lt"
# Widths of the encoders of listed images, which are those of their projectors.
WIDTHS = {"resnet32": HIDDEN, "resnet50": 2048, "resnext50": 2048}

# Condition of the networks of a column, and a store of one of them.
COLUMNS = {"CIFAR": ("CIFAR-100 / 100", PACKAGED), "ImageNet-LT": ("ImageNet-LT", IMAGENET)}

NUMBERS = {"zero": 0, "one": 1, "two": 2}
# Tolerance of lengths of rows in float16.
ROUNDING = 1e-3

Ours = float | str | None


class Setting(NamedTuple):
    """A printed setting and ours, None if not compared, and a store that it needs."""

    row: str
    what: str
    paper: str
    ours: Ours
    store: str = ""

    @property
    def number(self) -> float | None:
        """The printed number, in figures or as a sum of words."""
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
            return Cell(row, column, parse_cell(self.paper), ours, bool(self.store))
        ours = "not compared" if self.ours is None else f"{self.ours}".removesuffix(".0")
        # A slash separates the printed setting from ours.
        both = [text.replace(" / ", " and ") for text in (self.paper, ours)]
        return Cell(row, column, None, text=" / ".join(both))


def _letters(text: str) -> str:
    """Keep letters and figures: ResNet-32 becomes resnet32."""
    return re.sub(r"[^0-9a-z]", "", text.lower())


def _note(settings: Sequence[Setting], left: dict[str, str]) -> str:
    """Count the compared rows, list the differences, and give reasons for the others."""
    by_row: dict[str, list[Setting]] = {}
    for setting in settings:
        by_row.setdefault(setting.row, []).append(setting)
    some = {row for row, own in by_row.items() if any(s.ours is not None for s in own)}
    full = {row for row in some - left.keys() if all(s.ours is not None for s in by_row[row])}
    differing = [s for s in settings if s.ours is not None and not s.same]
    result = "all that is compared is as printed"
    if differing:
        listed = "; ".join(f"{s.row}, {s.what} ({s.paper}, ours {s.ours})" for s in differing)
        result += f", but for {listed}"
        apart = load("studies/settings")["apart"]
        rows = dict.fromkeys(s.row for s in differing if s.row in apart)
        result += "".join(f". {row}: {apart[row]}" for row in rows)
    why = dict(left)
    for row, own in by_row.items():
        lacking = [f"{s.what} {s.paper}" for s in own if s.ours is None and s.store]
        if lacking:
            why[row] = f"{', '.join(lacking)}, of data that are not shipped"
    reasons = ". ".join(f"{row}: {why[row]}" for row in by_row if row in why)
    counts = f"{len(full)} of {len(by_row)} rows are compared in full, {len(some - full)} in part"
    return f"{counts}; {result}. Not compared: {reasons or 'nothing'}."


def training(evidence: Evidence) -> Outcome:
    """tab:training-hyperparameters: the controlled recipe and that of ImageNet-LT."""
    ours = {column: _trained(evidence, column) for column in COLUMNS}
    settings = [
        Setting(row, column, text, ours[column][row])
        for row, *texts in printed_rows("training-hyperparameters")
        for column, text in zip(COLUMNS, texts, strict=True)
        if text != "--"
    ]
    cells = [s.cell(s.row, s.what) for s in settings]
    return Outcome(cells, notes=[_note(settings, load("studies/settings")["training"]["left"])])


def _trained(evidence: Evidence, column: str) -> dict[str, Ours]:
    """Our settings, by row."""
    condition, store = COLUMNS[column]
    config, fields = trained_as(condition), load("studies/settings")["training"]["fields"]
    small = config.dataset in CIFAR
    width: Ours = WIDTHS.get(config.architecture)
    if evidence.has(store, "encoder"):
        width = float(evidence.space(store, "encoder").train.shape[1])
    stacks = map(_stack, ("contrastive", "joint"))
    main = _only(run.beta for job in PLANS["main"].jobs() for run in job.runs)
    ours = {row: getattr(config, field) for row, field in fields.items()}
    return ours | {
        "Encoder dimension": width,
        "Optimizer": type(_stack(config.objective).optimizer).__name__,
        "Contrastive views": config.views - config.classification_view,
        "Main intervention strength": main if small else None,
        "Classification weight (pure / joint)": " / ".join(
            f"{config.alpha if s.classification else 0:g}" for s in stacks
        ),
        "Imbalance factors (stated below the table)": ", ".join(map(str, IMBALANCES)),
        "Schedule (stated below the table)": config.schedule if small else None,
    }


@cache
def _stack(objective: str) -> Stack:
    """Trainer of one small network of two classes, by the recipe of all networks."""
    batches: Any = None
    config = preset("cifar-controlled", objective=objective)
    return Stack(config, [Run()], batches, torch.ones(2), torch.device("cpu"))


def frozen(evidence: Evidence) -> Outcome:
    """tab:frozen-hyperparameters: probes and frozen evaluation."""
    ours, stores = _evaluated(evidence), load("studies/settings")["frozen"]["stores"]
    settings = []
    for row, what, text in printed_rows("frozen-hyperparameters"):
        store = stores.get(name := f"{row}: {what}", ("",))[0]
        settings.append(Setting(row, what, text, ours.get(name), store.replace(PACKAGED, "")))
    cells = [s.cell(f"{s.row}: {s.what}", "value") for s in settings]
    return Outcome(cells, notes=[_note(settings, load("studies/settings")["frozen"]["left"])])


def _evaluated(evidence: Evidence) -> dict[str, Ours]:
    """Our settings, by row and part."""
    probe, about = ProbeConfig(), load("studies/settings")["frozen"]
    grid = evidence.analysis(PACKAGED, "projection").grid
    assert grid is not None
    # Rules of the main table.
    main = [grid.point(rule) for rule in REALIZATIONS]
    lengths = evidence.space(PACKAGED, "projection").test[:].float().norm(dim=-1)
    unit = bool(((lengths - 1).abs() < ROUNDING).all())
    exhaustive = inspect.signature(short_arc_roots).parameters["exhaustive"].default
    ends = f"{LOCATIONS:,}, or the two ends where both scores rise with the cosine"
    return {
        **{name: getattr(probe, field) for name, field in about["fields"].items()},
        **{name: _number_of(evidence, *place) for name, place in about["stores"].items()},
        "Linear-classifier optimizer: schedule": _schedule(ProbeConfig(epochs=6)),
        "Main linear fitting pool: CIFAR": _pool(evidence, "long-tail training subset"),
        "Main Encoder preprocessing: CIFAR": _only(FORMS[main_encoder(name)] for name in CIFAR),
        "Main Encoder preprocessing: ImageNet": FORMS[main_encoder(IMAGENET)],
        "Projection preprocessing: CIFAR": FORMS["unit" if unit else "raw"],
        "Historical CIFAR balanced pool: images": _only(
            PER_CLASS[name] * CLASSES[name] for name in CIFAR
        ),
        "Frozen vMF base temperature: tau": FROZEN_TEMPERATURE,
        "Main frozen strength: main": _only(
            p.beta for p in main if p.realization not in FIXED_BETA
        ),
        "Main frozen strength: controls": next(beta for beta in BETAS if 0 < beta < 1),
        "Frozen evaluation prior: main": _only(p.gamma for p in main),
        "Frozen vMF fitting pool: CIFAR": _pool(evidence, "training subset"),
        "Frozen vMF fitting pool: ImageNet": (
            "others" if IMAGENET in FIT_FRACTION else "training subset"
        ),
        "Boundary calculation: locations": LOCATIONS if exhaustive else ends,
        "Boundary calculation: refinement": "Chandrupatla",
    }


# Forms of features for probes, in the words of the paper.
FORMS = {"raw": "raw", "unit": "unit-normalized"}


def _only(values: Iterable[float | str]) -> float | str:
    """Reduce equal values to one; join different ones."""
    unique = list(dict.fromkeys(values))
    return unique[0] if len(unique) == 1 else " or ".join(map(str, unique))


def _schedule(probe: ProbeConfig) -> str:
    """Recognize a cosine schedule by the rates after two, three and four of six epochs."""
    shares = [probe.rate(epoch) / probe.learning_rate for epoch in (0, 2, 3, 4)]
    alike = all(map(math.isclose, shares, (1.0, 0.75, 0.5, 0.25)))
    return "cosine" if alike else "another"


def _pool(evidence: Evidence, words: str) -> str:
    """The words of the paper, if the packaged network is fitted to all of its subset."""
    dataset, imbalance, _ = PACKAGED_KIND
    space = evidence.space(PACKAGED, "projection")
    counts = long_tail_counts(PER_CLASS[dataset], CLASSES[dataset], imbalance)
    return words if space.fitting is None and torch.equal(space.counts, counts) else "others"


def _number_of(evidence: Evidence, store: str, split: str) -> float | None:
    """Number of fitted or held-out images of a store, None without the store."""
    if not evidence.has(store, "projection"):
        return None
    space = evidence.space(store, "projection")
    if split == "test":
        return len(space.test_labels)
    return len(space.labels) if space.fitting is None else int(space.fitting.sum())
