"""Choices of a linear probe that the paper leaves open, and their effect: probes of the packaged
features in plain torch; writes benchmarks/probes.json.

python -m benchmarks.probes

Each choice is compared with ours in the same order of features (`training.probe.linear_probes`):
random initial weights instead of zeros, an incomplete last batch left out, a learning rate that
falls per step and not per epoch. Other orders are compared with the first."""

from __future__ import annotations

import json
import math
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks import HERE, today
from resultant._core.files import write_text
from resultant.training.config import ProbeConfig
from resultant.training.probe import linear_probes
from resultant_reproduction.evidence import PACKAGED, packaged
from resultant_reproduction.summarize import SPACES

ORDERS = 5
# Choices that differ from ours, by name.
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
    x, y, test, wanted = split
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
        return 100 * float((layer(test).argmax(1) == wanted).double().mean())


def measure(splits: dict[str, Split], orders: int = ORDERS) -> dict[str, Any]:
    """Measure our probe in the first order, and the change by each choice (points)."""
    found: dict[str, Any] = {"ours": {}, "changes": {name: {} for name in CHOICES}}
    for space, split in splits.items():
        x, y, test, wanted = split
        result = linear_probes(x[None], y, test[None], wanted, int(y.max()) + 1)
        found["ours"][space] = 100 * float(result.accuracy[0])
        configs = [ProbeConfig(seed=seed) for seed in range(orders)]
        plain = [accuracy(split, config) for config in configs]
        for name, choice in CHOICES.items():
            if choice:
                own = [accuracy(split, config, **choice) for config in configs]
                changes = [a - b for a, b in zip(own, plain, strict=True)]
            else:
                changes = [value - plain[0] for value in plain[1:]]
            found["changes"][name][space] = changes
    return found


def main() -> None:
    with packaged() as store:
        splits: dict[str, Split] = {
            space: (
                store[f"train/{space}"][:].float(),
                store["train/labels"][:],
                store[f"test/{space}"][:].float(),
                store["test/labels"][:],
            )
            for space in SPACES
        }
    found = {"features": PACKAGED, "date": today(), **measure(splits)}
    write_text(HERE / "probes.json", json.dumps(found, indent=1) + "\n")
    print("benchmarks/probes.json")


if __name__ == "__main__":
    main()
