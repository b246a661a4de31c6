"""Courses of a number over the epochs of trainings, by seed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from resultant.training.records import Record
from resultant_reproduction.formats import seed_list
from resultant_reproduction.records import dig
from resultant_reproduction.value import Value


class Course(NamedTuple):
    """A number by epoch, one value per seed, and the seeds that have values."""

    values: dict[int, list[float]]
    seeds: tuple[int, ...]

    @staticmethod
    def of(records: Mapping[int, Record], path: str) -> Course | None:
        """Read the number at a dotted path from records by seed; None if no record has it."""
        values: dict[int, list[float]] = {}
        seeds = []
        name = path.partition(".")[0]
        for seed, record in records.items():
            trajectory = record.get("trajectory", {})
            rows = zip(trajectory.get("epoch", ()), trajectory.get(name, ()), strict=False)
            own = {e: v for e, row in rows if (v := dig({name: row}, path)) is not None}
            for epoch, value in own.items():
                values.setdefault(epoch, []).append(value)
            seeds += [seed] if own else []
        return Course(dict(sorted(values.items())), tuple(seeds)) if values else None

    def at(self, epoch: int) -> Value | None:
        return Value.of(self.values.get(epoch, []))


def seeds_of(courses: Mapping[str, Course | None]) -> str:
    """Describe the seeds of courses by name, once if all are equal."""
    texts = {name: seed_list(course.seeds if course else ()) for name, course in courses.items()}
    kinds = set(texts.values())
    return kinds.pop() if len(kinds) == 1 else "; ".join(f"{n} {s}" for n, s in texts.items())
