"""Numbers of frozen features, and differences between rules, network by network of the records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import Any

from resultant.paper.evidence import CONDITIONS, Evidence
from resultant.paper.intervals import Interval, over_settings
from resultant.paper.records import dig
from resultant.paper.summary import SPACES

# How a number is read from a frozen summary.
Reader = Callable[[Mapping[str, Any]], float | None]


def at_path(path: str, scale: float = 1.0) -> Reader:
    """Reads a number of a summary."""

    def read(summary: Mapping[str, Any]) -> float | None:
        value = dig(summary, path)
        return None if value is None else scale * value

    return read


def less(after: str, before: str, scale: float = 100.0) -> Reader:
    """Reads the difference of two numbers of a summary, by default in points."""

    def read(summary: Mapping[str, Any]) -> float | None:
        a, b = (dig(summary, path) for path in (after, before))
        return None if a is None or b is None else scale * (a - b)

    return read


def on_grid(beta: float, gamma: float = 0.0) -> Reader:
    """Reads what Pure Angular at beta changes in accuracy, from native at the same prior."""

    def read(summary: Mapping[str, Any]) -> float | None:
        grid = summary.get("grid", {})
        a, b = grid.get(f"angular {beta:g} {gamma:g}"), grid.get(f"native 1 {gamma:g}")
        return None if a is None or b is None else 100 * (a - b)

    return read


def by_place(
    evidence: Evidence,
    read: Reader,
    conditions: Iterable[str] = CONDITIONS,
    spaces: Sequence[str] = SPACES,
) -> dict[tuple[str, str], list[float]]:
    """A number of the frozen summaries, network by network, where there are any."""
    found = {}
    for condition, space in product(conditions, spaces):
        summaries = evidence.frozen(condition, space).values()
        values = [v for s in summaries if (v := read(s)) is not None]
        if values:
            found[condition, space] = values
    return found


def pooled(evidence: Evidence, read: Reader) -> dict[str, Interval]:
    """The mean over the settings of a data set, by data set and space, with its interval over
    networks."""
    settings: dict[str, list[list[float]]] = {}
    for (condition, space), values in by_place(evidence, read).items():
        settings.setdefault(f"{condition.partition(' / ')[0]} {space}", []).append(values)
    found = {place: over_settings(values) for place, values in settings.items()}
    return {place: i for place, i in found.items() if i is not None}
