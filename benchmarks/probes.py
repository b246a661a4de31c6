"""Choices of a linear probe that the paper leaves open, and their effect on the packaged features.

Each choice is compared with ours in the same order of features (`training.probe.linear_probes`):
random initial weights instead of zeros, an incomplete last batch left out, a learning rate that
falls per step and not per epoch. Other orders are compared with the first."""

from __future__ import annotations

import math
from pathlib import Path

import torch
from torch import Tensor, nn

from benchmarks import Row, Table
from resultant.training.config import ProbeConfig
from resultant.training.probe import linear_probes
from resultant_reproduction.evidence import PACKAGED, packaged
from resultant_reproduction.summarize import SPACES

GPU = False
ORDERS = 5
CHOICES: dict[str, dict[str, bool]] = {
    "order": {},
    "first weights": {"random": True},
    "last batch left out": {"drop": True},
    "rate by steps": {"by_steps": True},
}
# Features and labels to fit, and to test.
Split = tuple[Tensor, Tensor, Tensor, Tensor]


def accuracy(
    split: Split,
    config: ProbeConfig,
    *,
    random: bool = False,
    drop: bool = False,
    by_steps: bool = False,
) -> float:
    """Return the test accuracy of one probe (%)."""
    x, y, test, expected = split
    torch.manual_seed(config.seed)
    layer = nn.Linear(x.shape[1], int(y.max()) + 1)
    if not random:
        nn.init.zeros_(layer.weight)
        nn.init.zeros_(layer.bias)
    optimizer = torch.optim.SGD(layer.parameters(), config.learning_rate, config.momentum)
    generator = torch.Generator().manual_seed(config.seed)
    for epoch in range(config.epochs):
        batches = torch.randperm(len(x), generator=generator).split(config.batch_size)
        if drop and len(batches[-1]) < config.batch_size:
            batches = batches[:-1]
        for step, rows in enumerate(batches):
            done = (epoch + by_steps * step / len(batches)) / config.epochs
            rate = config.learning_rate * (1 + math.cos(math.pi * done)) / 2
            optimizer.param_groups[0]["lr"] = rate
            optimizer.zero_grad()
            nn.functional.cross_entropy(layer(x[rows]), y[rows]).backward()
            optimizer.step()
    with torch.no_grad():
        return 100 * float((layer(test).argmax(1) == expected).double().mean())


def changes(split: Split, orders: int = ORDERS) -> dict[str, str]:
    """Return our accuracy, and the smallest and largest change by each choice (points)."""
    x, y, test, expected = split
    ours = linear_probes(x[None], y, test[None], expected, int(y.max()) + 1)
    configs = [ProbeConfig(seed=seed) for seed in range(orders)]
    plain = [accuracy(split, config) for config in configs]
    cells = {"ours": f"{100 * float(ours.accuracy[0]):.2f} %"}
    for name, choice in CHOICES.items():
        if choice:
            own = [accuracy(split, config, **choice) for config in configs]
            points = [a - b for a, b in zip(own, plain, strict=True)]
        else:
            points = [value - plain[0] for value in plain[1:]]
        cells[name] = f"{min(points):+z.2f} to {max(points):+z.2f}"
    return cells


def run(data: Path | None) -> list[Table]:
    with packaged() as store:
        columns = {
            space: changes(
                (
                    store[f"train/{space}"][:].float(),
                    store["train/labels"][:],
                    store[f"test/{space}"][:].float(),
                    store["test/labels"][:],
                )
            )
            for space in SPACES
        }
    rows: list[Row] = [
        {"another": name, **{space: cells[name] for space, cells in columns.items()}}
        for name in ("ours", *CHOICES)
    ]
    return [{"rows": rows, "note": NOTE}]


NOTE = f"""\
Choices of a linear probe that the paper leaves open, on the packaged features ({PACKAGED}). Each
row is the change in points when one choice differs from ours, at the same order of features: the
smallest and largest of {ORDERS} orders. The row of orders compares orders with the first."""
