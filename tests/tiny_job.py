"""Two runs on a few small images, trained in a moment, and the metrics that they wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from resultant.training.config import Run, TrainConfig
from tiny_cifar import tiny_cifar, tiny_config

DATA = tiny_cifar(each=6, size=16)
TWO = (Run("native", seed=1), Run("angular", 0.5, 0))


def config(**changes: Any) -> TrainConfig:
    """Two steps of six images an epoch."""
    return tiny_config(**({"batch_size": 6} | changes))


def metrics(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
