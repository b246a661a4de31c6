"""``resultant analyze``: frozen features, and a report on them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.text import Text

from resultant._core.files import replacing_folder
from resultant._core.text import printable
from resultant._core.versions import versions
from resultant.analysis import QUESTIONS, Analysis, FrozenSpace, analyze_space, load_space
from resultant.analysis import ray as ray_engine
from resultant.cli.arguments import find_device, refuse_network
from resultant.cli.options import Analyze, Engine
from resultant.cli.progress import Step, Steps, terminal
from resultant.features.packaged import packaged_file
from resultant.features.partition import open_store
from resultant.features.prepare import Prepared, check_features, prepare
from resultant.features.rows import require_disk
from resultant.features.store import FeatureStore
from resultant.report import page
from resultant.report.analysis_page import analysis_page
from resultant.score.limits import require_temperature


def analyze(options: Analyze) -> None:
    """Analyse the features, write the page of them, and tell its facts."""
    page.require()
    page.require_place(options.out)
    # Before features are read, which may take long.
    where = 1, torch.device("cpu"), True
    require_temperature(options.temperature, *where, dtype=torch.float32, name="--temperature")
    features, labels = options.features, options.labels
    place, aside = find_device(options.device), terminal(stderr=True)
    if options.engine == "ray" and place.type != "cpu":
        raise ValueError(f"expected --device cpu with --engine ray, got {options.device}")
    share, drop = options.fitting_share, options.drop_zero_rows
    if drop and options.engine == "ray":
        raise ValueError("expected no --drop-zero-rows with --engine ray, got both")
    if share is not None and (options.engine == "ray" or not 0 < share < 1):
        rule = "expected --fitting-share in (0, 1), and none with --engine ray"
        raise ValueError(f"{rule}, got {share:g} with --engine {options.engine}")
    with ExitStack() as stack:
        found = options.path or stack.enter_context(packaged_file())
        if options.engine == "ray":
            prepared = prepare(open_store(found, features, labels))
            stack.enter_context(ray_engine.cluster())
        else:
            refuse_network(found)
            prepared = prepare(FeatureStore.open(found, features=features, labels=labels), drop)
            require_room(aside, prepared)
        steps = len(prepared.features) * (len(QUESTIONS) + 2) + 2
        watch = stack.enter_context(Steps(aside, steps))
        if options.engine == "local":
            check_features(prepared, watch)
        answers = analyzed(
            *(prepared, QUESTIONS, options.temperature, options.estimator),
            *(watch, options.engine, place, share),
        )
        analyses = {name: analysis for name, (_, analysis) in answers.items()}
        made = analysis_page(
            analyses,
            printable(os.path.basename(os.path.abspath(found))),
            prepared.names,
            prepared.notes,
            about(prepared, place),
        )
        folder = stack.enter_context(replacing_folder(options.out))
        page.write_page(folder, made, watch)
    tell(Console(), made, options.out)


def require_room(console: Console, *stores: Prepared) -> None:
    """Raise unless there is disk for the copies that are made of features; tell how much."""
    sizes = [each.store.copied_bytes(*each.arrays) for each in stores]
    if any(sizes):
        copied = [each.store.where for each, size in zip(stores, sizes, strict=True) if size]
        require_disk(sum(sizes), " and ".join(copied))
        size, folder = f"{sum(sizes) / 1e9:.1f} GB", tempfile.gettempdir()
        console.print(f"{size} of features are copied to {folder} meanwhile", soft_wrap=True)


def analyzed(
    prepared: Prepared,
    questions: Sequence[str],
    tau: float,
    estimator: str,
    watch: Step,
    engine: Engine = "local",
    device: torch.device | str = "cpu",
    fitting_share: float | None = None,
) -> dict[str, tuple[FrozenSpace, Analysis]]:
    """The space of each feature of a store, and the analysis of it."""
    store, found = prepared.store, {}
    fit = partial(load_space, device=device, fitting_share=fitting_share)
    ask = analyze_space
    if engine == "ray":
        fit, ask = ray_engine.fit_space, ray_engine.analyze_on_cluster
    for name in prepared.features:

        def progress(step: str, share: float, name: str = name) -> None:
            # What is mapped counts as memory only while it is looked at.
            store.release()
            watch(f"{name}: {step}", share)

        space = fit(
            store, name, test=prepared.test, tau=tau, estimator=estimator, progress=progress
        )
        found[name] = space, ask(space, questions, progress=progress)
    return found


def about(prepared: Prepared, device: torch.device) -> dict[str, Any]:
    """Where the numbers come from."""
    return {
        "source": prepared.store.where,
        "metadata": prepared.store.metadata,
        "versions": versions(device),
    }


def tell(console: Console, made: page.Page, out: Path) -> None:
    """The facts and the notes, a line each, and where the page is."""
    notes = [("note", note) for note in made.notes]
    lines = [*made.facts, *notes, ("report", printable(out / "index.html"))]
    width = max(len(heading) for heading, _ in lines)
    for i, (heading, text) in enumerate(lines):
        line = Text(f"{heading:<{width}}  ", style="bold cyan" if not i else "cyan")
        line.append(text, style="bold" if not i else "default")
        console.print(line, soft_wrap=True)
