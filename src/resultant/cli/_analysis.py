"""Steps of both analyze and compare: disk space, the analyses of a store, provenance, summary."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.text import Text

from resultant._core.text import one_line, printable
from resultant._core.versions import versions
from resultant.analysis import Advice, Analysis, FrozenSpace, advise, analyze_space, load_space
from resultant.analysis import ray as ray_engine
from resultant.analysis.advising import JUDGED, Settled, settle
from resultant.analysis.arcs import arcs
from resultant.analysis.response import PRIORS, response
from resultant.analysis.result import UnansweredError
from resultant.analysis.snippet import Source
from resultant.analysis.space import Progress
from resultant.cli.progress import Step, open_console
from resultant.features.prepare import Prepared
from resultant.features.rows import require_disk
from resultant.report.explorer import Side
from resultant.report.page import Page
from resultant.report.words import settings

# Temperature of the scores where none is chosen.
TEMPERATURE = 0.1

# Questions that a summary answers.
FIRST = ("gains", "cosine")


def require_space_for_copies(console: Console, *stores: Prepared) -> None:
    """Raise unless the disk has room for temporary copies of features; print their size."""
    sizes = [prepared.store.copied_bytes(*prepared.arrays) for prepared in stores]
    if any(sizes):
        copied = [p.store.where for p, size in zip(stores, sizes, strict=True) if size]
        require_disk(sum(sizes), " and ".join(copied))
        size, folder = f"{sum(sizes) / 1e9:.1f} GB", tempfile.gettempdir()
        console.print(f"{size} of features are copied to {folder} meanwhile", soft_wrap=True)


def analyze_store(
    prepared: Prepared,
    questions: Sequence[str],
    progress: Step,
    *,
    temperature: float | None,
    estimator: str,
    engine: str = "local",
    device: torch.device | str = "cpu",
    fit_fraction: float | None = None,
    references: str | None = None,
    opened: str | None = None,
    first: Callable[[dict[str, Analysis]], object] | None = None,
) -> dict[str, tuple[FrozenSpace, Analysis]]:
    """Fit a space to each of the features of a store, and analyze it.

    Args:
        prepared: The store.
        questions: Names of questions.
        progress: Called with the name of a step and the fraction that is done.
        temperature: Temperature of the scores; None to choose it.
        estimator: Estimator of kappa.
        engine: "local" or "ray".
        device: Device of the computation.
        fit_fraction: Fraction of the training rows that are fitted.
        references: References of the advice, "none", "fast" or "all"; None for no advice.
        opened: Code that opens the store, for the snippet of the advice.
        first: Called with the analyses as soon as they have the advice and the answers of a
            summary, before the other questions are asked.

    Returns:
        The space and the analysis by features.
    """
    store = prepared.store

    def report(name: str, step: str, fraction: float) -> None:
        # Mapped pages count as memory until they are released.
        store.release()
        progress(f"{name}: {step}", fraction)

    steps = {name: partial(report, name) for name in prepared.features}
    fit = partial(load_space, device=device, fitting_share=fit_fraction, val=prepared.val)
    if engine == "ray":
        fit = ray_engine.fit_space
    tau = TEMPERATURE if temperature is None else temperature
    options = {"test": prepared.test, "tau": tau, "estimator": estimator}
    spaces = {name: fit(store, name, **options, progress=steps[name]) for name in steps}
    if engine == "ray":
        cluster = ray_engine.analyze_on_cluster
        return {n: (s, cluster(s, questions, progress=steps[n])) for n, s in spaces.items()}
    advice: dict[str, Advice] = {}
    if references is not None:
        advice, spaces = _advise(
            spaces, steps, prepared, temperature, references, opened, fit_fraction
        )
    asked = [q for q in FIRST if q in questions]
    results = {
        name: (space, analyze_space(space, asked, advice=advice.get(name), progress=steps[name]))
        for name, space in spaces.items()
    }
    if first is not None:
        first({name: analysis for name, (_, analysis) in results.items()})
    for name, (space, early) in results.items():
        rest = [q for q in questions if q not in asked]
        late = analyze_space(space, rest, advice=advice.get(name), progress=steps[name])
        answers = {q: getattr(early, q) for q in asked}
        seconds = {**(early.seconds or {}), **(late.seconds or {})}
        notes = {**(early.notes or {}), **(late.notes or {})}
        results[name] = space, replace(late, **answers, seconds=seconds, notes=notes)
    return results


def _advise(
    spaces: Mapping[str, FrozenSpace],
    steps: Mapping[str, Progress],
    prepared: Prepared,
    temperature: float | None,
    references: str,
    opened: str | None,
    fit_fraction: float | None,
) -> tuple[dict[str, Advice], dict[str, FrozenSpace]]:
    """Advise on each of the features; fast references are fitted to the foremost alone."""
    settled: dict[str, Settled] = {}
    most = None if references == "all" else JUDGED
    for name, space in spaces.items():
        # Without an advice the reason stands in the notes of the analysis.
        with suppress(UnansweredError):
            settled[name] = settle(space, temperature=temperature, most=most, progress=steps[name])
    foremost = max(settled, key=lambda name: settled[name].quality, default=None)
    advice, advised = {}, dict(spaces)
    for name, done in settled.items():
        source = None
        if opened is not None:
            source = Source(opened, name, prepared.test, spaces[name].estimator, fit_fraction)
        level = references if name == foremost or references == "all" else "none"
        advice[name], advised[name] = advise(
            spaces[name], references=level, settled=done, source=source, progress=steps[name]
        )
    return advice, advised


def page_sides(
    results: Mapping[str, tuple[FrozenSpace, Analysis]],
    progress: Step,
    *,
    explored: str | None = None,
    realizations: Sequence[str] = (),
) -> dict[str, Side]:
    """Return the numbers of the sliders and of the arcs of a page, by features.

    Args:
        results: Spaces and analyses by features.
        progress: Called with the name of a step and the fraction that is done.
        explored: The features whose temperature can be moved as well, or None.
        realizations: Further realizations for these features.
    """
    sides = {}
    for name, (space, analysis) in results.items():
        if (grid := analysis.grid) is None:
            continue
        moved, taus = None, [space.tau]
        if name == explored:
            gammas = {*PRIORS, *grid.gammas}
            moved = response(
                space,
                realizations=("angular", settings(analysis).realization, *realizations),
                betas=grid.betas,
                gammas=tuple(gammas),
            )
            taus = list(moved.taus)
            progress(f"{name}: response", 1.0)
        sides[name] = Side(analysis, "", moved, arcs(space, taus, grid.betas))
    return sides


def provenance(prepared: Prepared, device: torch.device) -> dict[str, Any]:
    """Return the source, the metadata and the versions for results.json."""
    return {
        "source": prepared.store.where,
        "metadata": prepared.store.metadata,
        "versions": versions(device),
    }


def print_facts(facts: Sequence[tuple[str, str]]) -> None:
    """Print the facts of a summary, one per line, the first in bold."""
    console, width = open_console(), _width(facts)
    for i, (heading, text) in enumerate(facts):
        line = Text(f"{heading:<{width}}  ", style="bold cyan" if not i else "cyan")
        line.append(one_line(text), style="bold" if not i else "default")
        console.print(line, soft_wrap=True)


def print_rest(page: Page, out: Path) -> None:
    """Print the notes of a page, one per line, and the path of the page."""
    console, width = open_console(), _width(page.facts)
    lines = [*(("note", note) for note in page.notes), ("report", printable(out / "index.html"))]
    for heading, text in lines:
        line = Text(f"{heading:<{width}}  ", style="cyan")
        line.append(one_line(text), style="default")
        console.print(line, soft_wrap=True)


def print_summary(page: Page, out: Path) -> None:
    """Print the facts and the notes of a page, and the path of the page."""
    print_facts(page.facts)
    print_rest(page, out)


def _width(facts: Sequence[tuple[str, str]]) -> int:
    return max(len("report"), *(len(heading) for heading, _ in facts))
