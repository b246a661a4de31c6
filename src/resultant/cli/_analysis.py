"""Steps of both analyze and compare: disk space, the analyses of a store, provenance, summary."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.text import Text

from resultant._core.text import printable
from resultant._core.versions import versions
from resultant.analysis import Analysis, FrozenSpace, advise, analyze_space, load_space
from resultant.analysis import ray as ray_engine
from resultant.analysis.arcs import arcs
from resultant.analysis.response import PRIORS, response
from resultant.analysis.snippet import Source
from resultant.cli.progress import Step
from resultant.features.prepare import Prepared
from resultant.features.rows import require_disk
from resultant.report.explorer import Side
from resultant.report.page import Page
from resultant.report.words import settings

# Temperature of the scores where none is chosen.
TEMPERATURE = 0.1


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

    Returns:
        The space and the analysis by features.
    """
    store, results = prepared.store, {}
    fit = partial(load_space, device=device, fitting_share=fit_fraction, val=prepared.val)
    answer = analyze_space
    if engine == "ray":
        fit, answer = ray_engine.fit_space, ray_engine.analyze_on_cluster
    for name in prepared.features:

        def report(step: str, fraction: float, name: str = name) -> None:
            # Mapped pages count as memory until they are released.
            store.release()
            progress(f"{name}: {step}", fraction)

        tau = TEMPERATURE if temperature is None else temperature
        space = fit(store, name, test=prepared.test, tau=tau, estimator=estimator, progress=report)
        if references is not None and engine == "local":
            source = None
            if opened is not None:
                source = Source(opened, name, prepared.test, estimator, fit_fraction)
            advice, space = advise(
                space,
                references=references,
                temperature=temperature,
                source=source,
                progress=report,
            )
            results[name] = space, analyze_space(space, questions, advice=advice, progress=report)
        else:
            results[name] = space, answer(space, questions, progress=report)
    return results


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


def print_summary(page: Page, out: Path) -> None:
    """Print the facts and the notes of a page, one per line, and the path of the page."""
    console, notes = Console(), [("note", note) for note in page.notes]
    lines = [*page.facts, *notes, ("report", printable(out / "index.html"))]
    width = max(len(heading) for heading, _ in lines)
    for i, (heading, text) in enumerate(lines):
        line = Text(f"{heading:<{width}}  ", style="bold cyan" if not i else "cyan")
        line.append(text, style="bold" if not i else "default")
        console.print(line, soft_wrap=True)
