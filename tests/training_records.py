"""Records of trainings that are made up."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from resultant.presets import TrainConfig


def record(
    config: TrainConfig, realization: str, beta: float, seed: int, **more: Any
) -> dict[str, Any]:
    """A training as it is written and read, with what ``more`` it has."""
    made = {"realization": realization, "beta": beta, "seed": seed, "config": asdict(config)}
    return json.loads(json.dumps(made | more))
