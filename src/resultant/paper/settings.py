"""tab:training-hyperparameters and tab:frozen-hyperparameters, beside what our presets say."""

from __future__ import annotations

from collections.abc import Callable

from resultant.boundaries import LOCATIONS
from resultant.paper.artefact import Artefact, Cell, Outcome, Value, printed, rows
from resultant.paper.evidence import Evidence
from resultant.paper.summary import TEMPERATURE
from resultant.presets import PRESETS, Run, TrainConfig
from resultant.probe import ProbeConfig

# The rows that are numbers; the encoders, SGD and the kinds of views are not.
TRAINING = """
Projection dimension | 128 | 1024
Training epochs | 200 | 90
Global batch size | 256 | 256
Initial learning rate | 0.3 | 0.1
Momentum | 0.9 | 0.9
Weight decay | 0.0002 | 0.0005
Training temperature | 0.1 | 0.07
Forward views | 2 | 3
Main training prior | 1 | 1
Main intervention strength | 0 | 0
Contrastive loss weight | 1 | 1
Classification weight, joint | 1 | 1
"""
READ: dict[str, Callable[[TrainConfig], float]] = {
    "Projection dimension": lambda c: c.dim,
    "Training epochs": lambda c: c.epochs,
    "Global batch size": lambda c: c.batch_size,
    "Initial learning rate": lambda c: c.learning_rate,
    "Momentum": lambda c: c.momentum,
    "Weight decay": lambda c: c.weight_decay,
    "Training temperature": lambda c: c.temperature,
    "Forward views": lambda c: c.views,
    "Main training prior": lambda c: c.prior,
    "Main intervention strength": lambda c: Run().beta,
    "Contrastive loss weight": lambda c: c.contrastive_weight,
    "Classification weight, joint": lambda c: c.alpha,
}

FROZEN = """
Linear-classifier epochs | 100
Linear-classifier batch size | 256
Linear-classifier learning rate | 0.1
Linear-classifier momentum | 0.9
Linear-classifier weight decay | 0
Frozen vMF base temperature | 0.1
Boundary bracket locations | 2,001
"""


def training(evidence: Evidence) -> Outcome:
    """The recipe of the controlled runs and of ImageNet-LT, number by number."""
    configs = [PRESETS["cifar-controlled"], PRESETS["imagenet-lt"]]
    cells = []
    for name, *texts in rows(TRAINING):
        for title, config, text in zip(("CIFAR", "ImageNet-LT"), configs, texts, strict=True):
            cells.append(Cell(name, title, printed(text), Value(float(READ[name](config)))))
    return Outcome(cells, notes=[_agreement(cells)])


def frozen(evidence: Evidence) -> Outcome:
    """The probes and the frozen evaluation."""
    probe = ProbeConfig()
    ours = (
        *(probe.epochs, probe.batch_size, probe.learning_rate, probe.momentum),
        *(probe.weight_decay, TEMPERATURE, LOCATIONS),
    )
    cells = [
        Cell(name, "value", printed(text), Value(float(value)))
        for (name, text), value in zip(rows(FROZEN), ours, strict=True)
    ]
    return Outcome(cells, notes=[_agreement(cells)])


def _agreement(cells: list[Cell]) -> str:
    apart = [f"{c.row} ({c.column})" for c in cells if c.difference]
    return f"Other than printed: {', '.join(apart)}." if apart else "All as printed."


ARTEFACTS = (
    Artefact(
        "training-hyperparameters",
        "tab:training-hyperparameters",
        "Feature-learning settings",
        training,
    ),
    Artefact(
        "frozen-hyperparameters", "tab:frozen-hyperparameters", "Frozen-evaluation settings", frozen
    ),
)
