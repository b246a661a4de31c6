"""Records of training runs, found by what was trained and compared seed by seed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite
from pathlib import Path
from typing import Any

from resultant.training.config import RESULTS, TrainConfig
from resultant.training.records import (
    Record,
    identity,
    of_record,
    read_folder,
    run_of,
    same_training,
)
from resultant_reproduction.artefact import Value


class Records:
    """Records by what was trained and by seed; of two of the same run the fuller one counts, of two
    as full ones the later. The other is ``set_aside`` if it is of another training."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self.by_kind: dict[str, dict[int, Record]] = {}
        self.set_aside: list[Record] = []
        # The kinds that were looked for.
        self.asked: set[str] = set()
        displaced: list[Record] = []
        for record in records:
            known = self.by_kind.setdefault(of_record(record), {})
            pair = [r for r in (known.get(record["seed"]), record) if r is not None]
            # The later of two as full ones.
            *others, known[record["seed"]] = sorted(pair, key=_fullness)
            displaced += others
        trainings: dict[tuple[str, int], list[Record]] = {}
        for record in displaced:
            kind, seed = run = run_of(record)
            known = trainings.setdefault(run, [self.by_kind[kind][seed]])
            if not any(same_training(record, other) for other in known):
                known.append(record)
                self.set_aside.append(record)

    @staticmethod
    def read(*folders: Path) -> Records:
        """All ``*.jsonl`` of folders; none of one that is not there."""
        return Records(record for folder in folders for record in read_folder(folder))

    def __len__(self) -> int:
        return sum(map(len, self.by_kind.values()))

    def __iter__(self):
        return (record for known in self.by_kind.values() for record in known.values())

    def seeds(
        self, config: TrainConfig, realization: str = "native", beta: float = 0.0
    ) -> dict[int, Record]:
        """The records of one kind of run, by seed."""
        self.asked.add(kind := identity(config, realization, beta))
        return dict(sorted(self.by_kind.get(kind, {}).items()))

    def trainings(
        self, config: TrainConfig, realization: str = "native", beta: float = 0.0
    ) -> list[Record]:
        """The records of one kind of run by seed, and then those that were set aside."""
        kind = identity(config, realization, beta)
        aside = [record for record in self.set_aside if of_record(record) == kind]
        return [*self.seeds(config, realization, beta).values(), *aside]

    def values(
        self,
        config: TrainConfig,
        realization: str,
        beta: float,
        path: str,
        scale: float = 100.0,
    ) -> dict[int, float]:
        """A number of such records by seed: ``path`` leads to it, by default in percent."""
        found = {s: dig(r, path) for s, r in self.seeds(config, realization, beta).items()}
        return {s: scale * v for s, v in found.items() if v is not None}

    def value(
        self,
        config: TrainConfig,
        realization: str,
        beta: float,
        path: str,
        scale: float = 100.0,
    ) -> Value | None:
        return Value.of(list(self.values(config, realization, beta, path, scale).values()))


def dig(record: Any, path: str) -> float | None:
    """The finite number at the end of a dotted path, None where there is none."""
    for part in path.split("."):
        record = record.get(part) if isinstance(record, Mapping) else None
    return float(record) if isinstance(record, (int, float)) and isfinite(record) else None


def path_of(space: str, pool: str = "long_tail") -> str:
    """Where a record has the accuracy of a probe."""
    return f"probes.{pool}.{space}.accuracy"


def paired(after: Mapping[int, float], before: Mapping[int, float]) -> dict[int, float]:
    """The differences by seed, of the seeds that both have."""
    return {seed: after[seed] - before[seed] for seed in after if seed in before}


def _fullness(record: Record) -> tuple[bool | int, ...]:
    whole = ("ended", "analysis", "trajectory")
    return *(part in record for part in whole), len(record.get("probes", {}))


def folders(results: Path) -> list[Path]:
    """Where records are read: a folder of one's own, and before it, if that is the usual one, the
    folder of our own trainings, which an installed package has in it and a checkout beside it."""
    here = Path(__file__).parent
    places = here / "results", here.parent / "results"
    ours = next((place for place in places if place.is_dir()), None)
    if results != RESULTS or ours is None:
        return [results]
    return [ours] if results.is_dir() and results.samefile(ours) else [ours, results]
