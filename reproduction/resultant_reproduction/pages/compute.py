"""The items of ``items.toml`` with the functions that compute them."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module

from resultant_reproduction.cells.cells import Cell, Outcome, load, parse_cell
from resultant_reproduction.cells.charts import draw_charts
from resultant_reproduction.cells.statistics import Value
from resultant_reproduction.pages.queries import MEASURES
from resultant_reproduction.runs.evidence import Evidence
from resultant_reproduction.runs.items import Entry, catalog
from resultant_reproduction.runs.records import Records


def theory(name: str, evidence: Evidence) -> Outcome:
    """Draw the panels of the checks of an item together, and list the verdicts of those."""
    entry = catalog()[name]
    checks = [check for c in entry.checks if (check := evidence.check(c)).panels]
    return Outcome(
        draw=lambda: draw_charts([p for c in checks for p in (c.panels or list)()], **entry.layout),
        parts={c.name: True for c in checks},
        notes=[f"{c.claim}: paper {c.paper}; ours {c.ours}; {c.verdict}." for c in checks],
    )


def in_text(name: str, evidence: Evidence) -> list[Cell]:
    """Compare the numbers that the paper prints in its text, next to the table they belong to."""
    cells = []
    for entry in load("printed/in_text").get(name, []):
        measure = next(key for key in MEASURES if key in entry)
        ((_, values),) = MEASURES[measure](evidence, entry[measure])
        printed = parse_cell(entry["printed"])
        cells.append(Cell(entry["row"], entry["column"], printed, Value.of(values), external=True))
    return cells


@dataclass(frozen=True)
class Item:
    """A table, a figure or a question beyond the paper, and its function."""

    entry: Entry
    compute: Callable[[Evidence], Outcome]

    def status(self, outcome: Outcome) -> str:
        """Describe how far the item is rerun."""
        done, of, external, partial = outcome.counts()
        if self.entry.final:
            return "final"
        # A question that waits for all of its runs has nothing at all.
        waits = self.entry.plans and not (of or outcome.headline or outcome.draw)
        if done == of and not partial and not waits:
            return self.entry.kind
        if not done:
            return "not run yet" if self.entry.plans else "needs data we may not ship"
        external = external if self.entry.plans else of - done
        rest = f", {partial} with fewer seeds than planned" if partial else ""
        if external:
            rest += f"; {external} need{'s' * (external == 1)} data we may not ship"
        return f"partly {self.entry.kind} ({done} of {of}{rest})"


def _function(entry: Entry) -> Callable[[Evidence], Outcome]:
    """Return the function of an item; a function of several takes the name first."""

    def compute(evidence: Evidence) -> Outcome:
        module, _, name = entry.by.rpartition(".")
        function = getattr(import_module(f"resultant_reproduction.{module}"), name)
        several = len(inspect.signature(function).parameters) == 2
        outcome = function(entry.name, evidence) if several else function(evidence)
        return replace(outcome, in_text=in_text(entry.name, evidence))

    return compute


# Tables first, then figures, then questions beyond the paper.
ITEMS = {name: Item(entry, _function(entry)) for name, entry in catalog().items()}

__all__ = ["ITEMS", "Evidence", "Item", "Outcome", "Records"]
