"""Evidence that is made up: small features in place of stores, and records of trainings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mpmath

from resultant.analysis import FrozenSpace
from resultant.training.config import TrainConfig
from resultant_reproduction import Evidence, Records
from training_records import record


class OfSpaces(Evidence):
    """Records and, for every place, the space that ``make`` fits by an estimator."""

    def __init__(
        self, make: Callable[[str], FrozenSpace], records: Sequence[dict[str, Any]] = ()
    ) -> None:
        super().__init__(Records(records))
        self.make = make

    def _space(self, store: str, space: str, estimator: str = "proco") -> FrozenSpace:
        return self.make(estimator)


def probed(
    config: TrainConfig, realization: str, seed: int, accuracy: float, beta: float = 0.0
) -> dict[str, Any]:
    """A record of a training with long-tail probes, the same in both spaces."""
    spaces = {name: {"accuracy": accuracy} for name in ("encoder", "projection")}
    return record(config, realization, beta, seed, probes={"long_tail": spaces})


def seeds(
    config: TrainConfig, steps: Sequence[float], level: float = 0.5, beta: float = 0.0
) -> list[dict[str, Any]]:
    """Pairs of native and Pure Angular runs, one seed per step, that differ by the step."""
    result = []
    for seed, step in enumerate(steps):
        own = level + 0.01 * seed
        result.append(probed(config, "native", seed, own))
        result.append(probed(config, "angular", seed, own + step / 100, beta))
    return result


def numbered(differences: Sequence[float]) -> dict[int, float]:
    """Those of seeds 0, 1 and so on."""
    return dict(enumerate(differences))


def tail(t: float, degrees: float) -> float:
    """Return the tail probability of Student's t, by the integral of its density."""
    mp = mpmath.mp.clone()
    c = mp.gamma((degrees + 1) / 2) / (mp.sqrt(degrees * mp.pi) * mp.gamma(degrees / 2))
    beyond: Any = mp.quad(lambda x: c * (1 + x * x / degrees) ** (-(degrees + 1) / 2), [t, mp.inf])
    return float(beyond)
