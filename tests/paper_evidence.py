"""Made-up records of trainings, and a tail probability by its integral."""

from __future__ import annotations

from typing import Any

import mpmath

from resultant.training.config import TrainConfig
from resultant_reproduction import Outcome, Records
from resultant_reproduction.records import probe_path
from resultant_reproduction.tables import realizations
from training_records import record


def probed(
    config: TrainConfig, realization: str, seed: int, accuracy: float, beta: float = 0.0
) -> dict[str, Any]:
    """A record of a training with long-tail probes, the same in both spaces."""
    spaces = {name: {"accuracy": accuracy} for name in ("encoder", "projection")}
    return record(config, realization, beta, seed, probes={"long_tail": spaces})


def tail(t: float, degrees: float) -> float:
    """Return the tail probability of Student's t, by the integral of its density."""
    mp = mpmath.mp.clone()
    c = mp.gamma((degrees + 1) / 2) / (mp.sqrt(degrees * mp.pi) * mp.gamma(degrees / 2))
    beyond: Any = mp.quad(lambda x: c * (1 + x * x / degrees) ** (-(degrees + 1) / 2), [t, mp.inf])
    return float(beyond)


def angular_training(records: Records) -> Outcome:
    """tab:angular-training from given records."""
    return realizations(records, "angular-training", probe_path)
