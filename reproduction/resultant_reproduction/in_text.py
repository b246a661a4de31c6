"""Numbers that the paper prints in its text, next to the table that they belong to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from resultant_reproduction.evidence import Evidence
from resultant_reproduction.measures import MEASURES
from resultant_reproduction.spec import Cell, Outcome, load, parse_cell
from resultant_reproduction.value import Value


def in_text(name: str, evidence: Evidence) -> list[Cell]:
    """Compare the numbers of ``printed/in_text.toml`` that belong to a table."""
    cells = []
    for entry in load("printed/in_text").get(name, []):
        measure = next(key for key in MEASURES if key in entry)
        ((_, values),) = MEASURES[measure](evidence, entry[measure])
        printed = parse_cell(entry["printed"])
        cells.append(Cell(entry["row"], entry["column"], printed, Value.of(values), external=True))
    return cells


def with_text(name: str, compute: Callable[[Evidence], Outcome]) -> Callable[[Evidence], Outcome]:
    """Add the numbers of the text to the outcome of a table."""
    if name not in load("printed/in_text"):
        return compute
    return lambda evidence: replace(compute(evidence), in_text=in_text(name, evidence))
