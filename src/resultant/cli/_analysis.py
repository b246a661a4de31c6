"""Steps of both analyze and compare: numbers of the page, provenance, summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from rich.text import Text

from resultant._core.text import one_line, printable
from resultant._core.versions import versions
from resultant.analysis import Analysis, FrozenSpace
from resultant.analysis.arcs import arcs
from resultant.analysis.decisions import BETAS, GAMMAS
from resultant.analysis.response import PRIORS, Response, response
from resultant.cli.progress import Step, open_console
from resultant.features.prepare import Prepared
from resultant.report.explorer import Side
from resultant.report.page import Page
from resultant.report.summary import HEADINGS
from resultant.report.words import Settings, settings

# Columns of a heading of the summary.
WIDTH = len("angular gain")


def explore(
    space: FrozenSpace, analysis: Analysis, progress: Step, others: Sequence[Settings] = ()
) -> Response:
    """Return the numbers of the sliders of a page.

    Args:
        space: The space.
        analysis: Its analysis, or its advice alone.
        progress: Called with the name of a step and the fraction that is done.
        others: Further settings that the space is measured at.
    """
    own = (settings(analysis), *others)
    low, high = (end(at.tau for at in own) for end in (min, max))
    moved = response(
        space,
        realizations=("angular", *(at.realization for at in own)),
        taus={low / 4, low / 2, *(at.tau for at in own), 2 * high, 4 * high},
        betas={*BETAS, *(at.beta for at in own)},
        gammas={*PRIORS, *GAMMAS, *(at.prior for at in own)},
    )
    progress(f"{space.name}: response", 1.0)
    return moved


def page_sides(
    results: Mapping[str, tuple[FrozenSpace, Analysis]], moved: Mapping[str, Response]
) -> dict[str, Side]:
    """Return the numbers of the sliders and of the arcs of a page, by features.

    Args:
        results: Spaces and analyses by features.
        moved: Results of `explore` by features; the others move at their temperature alone.
    """
    sides = {}
    for name, (space, analysis) in results.items():
        if (grid := analysis.grid) is not None:
            found = moved.get(name)
            taus = [space.tau] if found is None else list(found.taus)
            sides[name] = Side(analysis, "", found, arcs(space, taus, grid.betas))
    return sides


def held_out_notes(analyses: Mapping[str, Analysis], chosen: str) -> list[str]:
    """Return a note per features whose advised rule is better on the held-out rows than that of the
    chosen features: held-out rows judge, they do not choose."""
    first, notes = analyses[chosen].advice, []
    for name, analysis in analyses.items():
        advice = analysis.advice
        if first is None or advice is None or name == chosen:
            continue
        word = "balanced accuracy" if first.metric == "balanced" else "accuracy"
        values = [
            row.balanced if first.metric == "balanced" else row.accuracy
            for row in (advice.row(advice.advised), first.row(first.advised))
        ]
        if values[0] - values[1] >= first.margin:
            own, other = (f"{100 * value:.2f} %" for value in values)
            notes.append(
                f"The advice is for {chosen}, but on the held-out rows {name} has {own} {word} "
                f"against {other}: give a split val of unseen rows, or --features {name}."
            )
    return notes


def provenance(prepared: Prepared, device: torch.device) -> dict[str, Any]:
    """Return the source, the metadata and the versions for results.json."""
    return {
        "source": prepared.store.where,
        "metadata": prepared.store.metadata,
        "versions": versions(device),
    }


def print_facts(facts: Sequence[tuple[str, str]]) -> None:
    """Print the facts of a summary, one per line, the first sentence of an advice in bold."""
    console = open_console()
    for heading, text in facts:
        bold = heading in (HEADINGS[0], "use")
        line = Text(f"{heading:<{WIDTH}}  ", style="bold cyan" if bold else "cyan")
        line.append(one_line(text), style="bold" if bold else "default")
        console.print(line, soft_wrap=True)


def print_rest(page: Page, out: Path) -> None:
    """Print the notes of a page, one per line, and the path of the page."""
    console = open_console()
    lines = [*(("note", note) for note in page.notes), ("report", printable(out / "index.html"))]
    for heading, text in lines:
        line = Text(f"{heading:<{WIDTH}}  ", style="cyan")
        line.append(one_line(text), style="default")
        console.print(line, soft_wrap=True)


def print_summary(page: Page, out: Path) -> None:
    """Print the facts and the notes of a page, and the path of the page."""
    print_facts(page.facts)
    print_rest(page, out)
