"""Steps of both analyze and compare: disk space, the analyses of a store, provenance, summary."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
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
from resultant.analysis.advising import JUDGED, Plan, Settled, plan, settle
from resultant.analysis.arcs import arcs
from resultant.analysis.cosine import cosine_accuracy
from resultant.analysis.decisions import BETAS, GAMMAS
from resultant.analysis.references import Calls, References
from resultant.analysis.response import PRIORS, response
from resultant.analysis.result import UnansweredError
from resultant.analysis.snippet import Source
from resultant.cli.progress import Step, open_console
from resultant.features.prepare import Prepared
from resultant.features.rows import require_disk
from resultant.report.explorer import Side
from resultant.report.page import Page
from resultant.report.words import Settings, settings

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
    references: str = "none",
    calls: Calls | None = None,
    opened: str | None = None,
    mixtures: bool = True,
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
        references: References of the advice, "none", "fast" or "all".
        calls: Calls that fit the references, such as those of another process.
        opened: Code that opens the store, for the snippet of the advice.
        mixtures: Also try a mixture per class, where rows are few.
        first: Called with the analyses as soon as they have the advice and the answers of a
            summary, before the other questions are asked.

    Returns:
        The space and the analysis by features.
    """
    store, ready, announced = prepared.store, False, False
    pending: dict[str, References] = {}
    answers: dict[str, Analysis] = {}
    advice: dict[str, Advice] = {}

    def report(name: str, step: str, fraction: float) -> None:
        progress(f"{name}: {step}", fraction)
        if ready and all(p.done() for p in pending.values()):
            announce()

    def announce() -> None:
        """Finish the advice, and print the summary."""
        nonlocal announced
        if announced:
            return
        announced = True
        for name, done in settled.items():
            source = None
            if opened is not None:
                source = Source(opened, name, prepared.test, spaces[name].estimator, fit_fraction)
            own = pending.get(name) or References(spaces[name], done.plan.rows, "none")
            hashes = ray_engine.row_hashes if on_ray else None
            advice[name], _ = advise(
                spaces[name], settled=done, fitted=own, hashes=hashes, source=source
            )
            progress(f"{name}: references", 1.0)
        if first is not None and answers:
            first({n: replace(a, advice=advice.get(n)) for n, a in answers.items()})

    spaces: dict[str, FrozenSpace] = {}
    steps = {name: partial(report, name) for name in prepared.features}
    fit = partial(load_space, device=device, fitting_share=fit_fraction, val=prepared.val)
    on_ray = engine == "ray"
    if on_ray:
        fit = ray_engine.fit_space
    tau = TEMPERATURE if temperature is None else temperature
    options = {"test": prepared.test, "tau": tau, "estimator": estimator}
    for name in steps:
        spaces[name] = fit(store, name, **options, progress=steps[name])
    most = None if references == "all" else JUDGED
    start = partial(References, level=references, calls=calls)
    plans: dict[str, Plan] = {}
    unanswered: dict[str, str] = {}
    for name, space in spaces.items():
        try:
            plans[name] = plan(space, ray_engine.judging_rows(space) if on_ray else most)
        except UnansweredError as error:
            unanswered[name] = str(error)
    # Fast references are fitted to the foremost features alone, which is known at the end; the
    # cosine rule tells it in advance.
    likely = list(plans)
    if references != "all" and not on_ray:
        likely = [max(plans, key=lambda name: cosine_accuracy(spaces[name]))] if plans else []
    options = {"fold_sums": ray_engine.fold_sums if on_ray else None}
    settled: dict[str, Settled] = {}
    for name in likely:
        if on_ray:
            ray_engine.fetch_for_advice(spaces[name], plans[name], references)
        pending[name] = start(spaces[name], plans[name].rows, judged=plans[name].judged)
    for name, planned in plans.items():
        try:
            settled[name] = settle(
                spaces[name],
                temperature=temperature,
                plan=planned,
                progress=steps[name],
                mixtures=mixtures and not on_ray,
                **options,
            )
        except UnansweredError as error:
            unanswered[name] = str(error)
    foremost = max(settled, key=lambda n: settled[n].value(settled[n].row), default=None)
    if foremost is not None and foremost not in pending:
        chosen = plans[foremost]
        pending = {foremost: start(spaces[foremost], chosen.rows, judged=chosen.judged)}
    ordered = sorted(spaces, key=lambda name: name != foremost)
    at = {n: settled[n].at(spaces[n]) if n in settled else spaces[n] for n in ordered}
    grids = {n: _grid(settled.get(n)) for n in ordered}
    asked = [q for q in FIRST if q in questions]
    if on_ray:
        # The rows of the advice make room for those of the questions.
        announce()
        ask = ray_engine.analyze_on_cluster
        for name in ordered:
            found = ask(at[name], questions, **grids[name], progress=steps[name])
            answers[name] = replace(found, advice=advice.get(name))
        return {n: (at[n], answers[n]) for n in prepared.features}
    for name in ordered:
        early = analyze_space(at[name], asked, progress=partial(_named, progress, name))
        answers[name] = early
    ready, rest = True, [q for q in questions if q not in asked]
    for name in ordered:
        early, late = (
            answers[name],
            analyze_space(at[name], rest, **grids[name], progress=steps[name]),
        )
        both = {q: getattr(early, q) for q in asked}
        seconds = {**(early.seconds or {}), **(late.seconds or {})}
        notes = {**(early.notes or {}), **(late.notes or {})}
        if name in unanswered:
            notes["advice"] = unanswered[name]
        answers[name] = replace(late, **both, seconds=seconds, notes=notes)
    announce()
    return {n: (at[n], replace(answers[n], advice=advice.get(n))) for n in prepared.features}


def _named(progress: Step, name: str, step: str, fraction: float) -> None:
    progress(f"{name}: {step}", fraction)


def _grid(settled: Settled | None) -> dict[str, Any]:
    """Return beta and gamma of a grid that has the preferred rule."""
    if settled is None:
        return {}
    s = settled.row.settings
    return {
        "betas": tuple(sorted({*BETAS, s["beta"]})),
        "gammas": tuple(sorted({*GAMMAS, s["prior"]})),
    }


def page_sides(
    results: Mapping[str, tuple[FrozenSpace, Analysis]],
    progress: Step,
    *,
    explored: str | None = None,
    others: Sequence[Settings] = (),
) -> dict[str, Side]:
    """Return the numbers of the sliders and of the arcs of a page, by features.

    Args:
        results: Spaces and analyses by features.
        progress: Called with the name of a step and the fraction that is done.
        explored: The features whose temperature can be moved as well, or None.
        others: Further settings that these features are measured at.
    """
    sides = {}
    for name, (space, analysis) in results.items():
        if (grid := analysis.grid) is None:
            continue
        moved, taus = None, [space.tau]
        if name == explored:
            own = (settings(analysis), *others)
            low, high = (end(at.tau for at in own) for end in (min, max))
            moved = response(
                space,
                realizations=("angular", *(at.realization for at in own)),
                taus={low / 4, low / 2, *(at.tau for at in own), 2 * high, 4 * high},
                betas={*grid.betas, *(at.beta for at in own)},
                gammas={*PRIORS, *grid.gammas, *(at.prior for at in own)},
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
