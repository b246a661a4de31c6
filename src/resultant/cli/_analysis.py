"""Steps of both analyze and compare: disk space, the analyses of a store, provenance, summary."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.text import Text

from resultant._core.text import printable
from resultant._core.versions import versions
from resultant.analysis import Analysis, FrozenSpace, analyze_space, load_space
from resultant.analysis import ray as ray_engine
from resultant.cli.progress import Step
from resultant.features.prepare import Prepared
from resultant.features.rows import require_disk
from resultant.report.page import Page


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
    temperature: float,
    estimator: str,
    engine: str = "local",
    device: torch.device | str = "cpu",
    fit_fraction: float | None = None,
) -> dict[str, tuple[FrozenSpace, Analysis]]:
    """Fit a space to each of the features of a store, and analyze it."""
    store, results = prepared.store, {}
    fit = partial(load_space, device=device, fitting_share=fit_fraction)
    answer = analyze_space
    if engine == "ray":
        fit, answer = ray_engine.fit_space, ray_engine.analyze_on_cluster
    for name in prepared.features:

        def report(step: str, fraction: float, name: str = name) -> None:
            # Mapped pages count as memory until they are released.
            store.release()
            progress(f"{name}: {step}", fraction)

        space = fit(
            store, name, test=prepared.test, tau=temperature, estimator=estimator, progress=report
        )
        results[name] = space, answer(space, questions, progress=report)
    return results


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
