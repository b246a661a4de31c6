"""What figures show and the paper prints no numbers of: means over seeds, at the end and over the
epochs of trainings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from resultant.training.records import Record
from resultant_reproduction.formats import seed_list
from resultant_reproduction.records import dig
from resultant_reproduction.value import Value


class Course(NamedTuple):
    """A number of trajectories by epoch, a value a seed, and the seeds that have it."""

    values: dict[int, list[float]]
    seeds: tuple[int, ...]

    @staticmethod
    def of(records: Mapping[int, Record], path: str) -> Course | None:
        """That at a dotted path, of records by seed; None where none of them has it."""
        values: dict[int, list[float]] = {}
        seeds = []
        name = path.partition(".")[0]
        for seed, record in records.items():
            told = record.get("trajectory", {})
            rows = zip(told.get("epoch", ()), told.get(name, ()), strict=False)
            own = {e: v for e, row in rows if (v := dig({name: row}, path)) is not None}
            for epoch, value in own.items():
                values.setdefault(epoch, []).append(value)
            seeds += [seed] if own else []
        return Course(dict(sorted(values.items())), tuple(seeds)) if values else None

    def at(self, epoch: int) -> Value | None:
        return Value.of(self.values.get(epoch, []))


def seeds_of(courses: Mapping[str, Course | None]) -> str:
    """Which seeds courses are of, by name; said once where they are the same."""
    said = {name: seed_list(course.seeds if course else ()) for name, course in courses.items()}
    kinds = set(said.values())
    return kinds.pop() if len(kinds) == 1 else "; ".join(f"{n} {s}" for n, s in said.items())
