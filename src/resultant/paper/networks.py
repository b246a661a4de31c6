"""Differences between rules on frozen features, network by network of the records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from resultant.paper.evidence import CONDITIONS, Evidence
from resultant.paper.intervals import Interval, over_seeds
from resultant.paper.records import dig
from resultant.paper.summary import SPACES

# How a number is read from a frozen summary.
Reader = Callable[[Mapping[str, Any]], float | None]


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


def over_networks(
    evidence: Evidence, read: Reader, conditions: Mapping[str, Any] | tuple[str, ...] = CONDITIONS
) -> dict[str, Interval]:
    """A number of the frozen summaries with Student's interval over networks, by condition and
    space, where there are any."""
    found = {}
    for condition in conditions:
        for space in SPACES:
            summaries = evidence.frozen(condition, space).values()
            i = over_seeds([v for s in summaries if (v := read(s)) is not None])
            if i is not None:
                found[f"{condition}, {space}"] = i
    return found


def several(found: Mapping[str, Interval]) -> dict[str, Interval]:
    """Those of more than one network."""
    return {name: i for name, i in found.items() if i.low is not None}
