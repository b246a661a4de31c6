"""The analyses of all features of a store, with the summary as soon as the advice is there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from resultant.analysis import (
    QUESTIONS,
    Advice,
    Analysis,
    FrozenSpace,
    advise,
    analyze_space,
    load_space,
)
from resultant.analysis import ray as ray_engine
from resultant.analysis.advising import JUDGED, Plan, Settled, plan, settle
from resultant.analysis.choice import Evidence, foremost_features, gather_evidence
from resultant.analysis.decisions import BETAS, GAMMAS
from resultant.analysis.plain import UnansweredError
from resultant.analysis.references import References
from resultant.analysis.sampling import sample_rows
from resultant.analysis.snippet import Source
from resultant.classifiers.reference_process import ReferenceProcess
from resultant.cli.progress import Step
from resultant.features.prepare import Prepared

# Temperature of the scores where none is chosen.
TEMPERATURE = 0.1

# Held-out rows times classes at most that questions are asked about.
ASKED_CELLS = 50_000_000

# Questions that a summary answers, and the others in parts that share work, the longest first:
# threads that take the next part end at about the same time.
FIRST = ("gains", "cosine")
REST = (
    ("grid", "same_state", "intercepts", "gradients"),
    ("fits",),
    ("boundaries", "margins", "typical"),
    ("fit",),
    ("support", "self_inclusion"),
)


@contextmanager
def _threads_restored() -> Iterator[None]:
    threads = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@_threads_restored()
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
    fits: ReferenceProcess | None = None,
    calibration: str = "scale",
    opened: str | None = None,
    mixtures: bool = True,
    first: Callable[[dict[str, Analysis], dict[str, FrozenSpace]], Callable[[], object]]
    | None = None,
    then: Callable[[dict[str, Analysis], dict[str, FrozenSpace]], object] | None = None,
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
        fits: The process that fits the references, by default this one.
        calibration: Calibration of the vMF rules, "scale", "sigmoid" or "isotonic".
        opened: Code that opens the store, for the snippet of the advice.
        mixtures: Also try a mixture per class, where rows are few.
        first: Called with the analyses as soon as they have the answers of a summary and an advice
            without references, which are still fitted, and with the spaces that have one. It
            returns work to do meanwhile.
        then: Called with the same as soon as the advice is there, while the other questions are
            answered.

    Returns:
        The space and the analysis by features.
    """
    store, on_ray, lock = prepared.store, engine == "ray", threading.Lock()

    def report(name: str, step: str, fraction: float) -> None:
        with lock:
            progress(f"{name}: {step}", fraction)

    steps = {name: partial(report, name) for name in prepared.features}
    fit = partial(load_space, device=device, fitting_share=fit_fraction, val=prepared.val)
    if on_ray:
        fit = ray_engine.fit_space
    tau = TEMPERATURE if temperature is None else temperature
    options = {"test": prepared.test, "tau": tau, "estimator": estimator}
    spaces = {n: fit(store, n, **options, progress=steps[n]) for n in steps}
    most = None if references == "all" else JUDGED
    plans: dict[str, Plan] = {}
    unanswered: dict[str, str] = {}
    for name, space in spaces.items():
        try:
            plans[name] = plan(space, ray_engine.judging_rows(space) if on_ray else most)
        except UnansweredError as error:
            unanswered[name] = str(error)
    # Fast references are fitted to the features of the best class directions alone; the rows that
    # choose say which.
    compared, evidence = list(plans), dict[str, Evidence]()
    if references == "fast" and not on_ray and len(plans) > 1:
        evidence = {n: gather_evidence(spaces[n], plans[n].rows, steps[n]) for n in plans}
        split = next(iter(plans.values())).rows.split
        compared = [foremost_features({n: e.nearest for n, e in evidence.items()}, split)]
    cores = torch.get_num_threads()
    if references != "none":
        # The other half belongs to the references.
        torch.set_num_threads(max(1, cores // 2))
    pending: dict[str, References] = {}
    for name in compared:
        if on_ray:
            ray_engine.fetch_for_advice(spaces[name], plans[name], references)
        rows, judged = plans[name].rows, plans[name].judged
        pending[name] = References(spaces[name], rows, references, judged, fits)
    settled: dict[str, Settled] = {}
    answers: dict[str, Analysis] = {}

    def prepare(name: str) -> FrozenSpace:
        """Choose the settings of the vMF rules; return the space at the chosen temperature."""
        if name not in plans:
            return spaces[name]
        if on_ray:
            rows, sums = plans[name].rows, ray_engine.fold_sums
            evidence[name] = gather_evidence(spaces[name], rows, steps[name], sums)
        try:
            settled[name] = settle(
                spaces[name],
                temperature=temperature,
                plan=plans[name],
                evidence=evidence.get(name),
                progress=steps[name],
                mixtures=mixtures and not on_ray,
                calibration=calibration,
            )
        except UnansweredError as error:
            unanswered[name] = str(error)
            return spaces[name]
        return settled[name].at(spaces[name])

    def advised(name: str, alone: bool = False) -> Advice | None:
        """Finish the advice, which may wait for the references, unless it does without them."""
        if name not in settled:
            return None
        source = None
        if opened is not None:
            splits = prepared.test, spaces[name].estimator, fit_fraction, prepared.val
            source = Source(opened, name, *splits)
        own = None if alone else pending.get(name)
        own = own or References(spaces[name], plans[name].rows, "none")
        hashes = ray_engine.row_hashes if on_ray else None
        advice, _ = advise(
            spaces[name],
            settled=settled[name],
            fitted=own,
            hashes=hashes,
            source=source,
            names=prepared.names,
        )
        if not alone:
            report(name, "references", 1.0)
        return advice

    def known(advice: dict[str, Advice | None]) -> dict[str, Analysis]:
        """Return the analyses so far with an advice."""
        answered = {n: Analysis(spaces[n].summary()) for n in spaces} | early
        return {n: _with_advice(a, advice.get(n), unanswered.get(n)) for n, a in answered.items()}

    def answer(name: str, at: FrozenSpace, asked: Sequence[str]) -> Analysis:
        """Ask some of the questions about one space."""
        some, grid = [q for q in asked if q in questions], _grid(settled.get(name))
        answers = analyze_space(_bounded(at), some, **grid, progress=steps[name])
        return replace(answers, space=at.summary())

    if on_ray:
        at = {name: prepare(name) for name in spaces}
        # The rows of the advice make room for those of the questions.
        advice = {name: advised(name) for name in spaces}
        for name in spaces:
            grid = _grid(settled.get(name))
            ask = ray_engine.analyze_on_cluster
            answers[name] = ask(at[name], questions, **grid, progress=steps[name])
        return {n: (at[n], _with_advice(answers[n], advice[n], unanswered.get(n))) for n in at}
    # What the summary shows comes first; others follow beside the rest of the questions.
    shown = compared if references == "fast" and compared else list(spaces)
    at = {name: prepare(name) for name in shown}
    early = {n: answer(n, at[n], FIRST) for n in shown}
    meanwhile = None
    if first is not None and pending and references != "none":
        meanwhile = first(known({name: advised(name, alone=True) for name in shown}), at)
    others = [name for name in spaces if name not in at]
    with _workers(len(spaces), cores) as pool:
        ready = {n: pool.submit(prepare, n) for n in others}
        parts = {n: [pool.submit(answer, n, at[n], asked) for asked in REST] for n in shown}
        for n in others:
            parts[n] = [
                pool.submit(lambda n=n, asked=asked: answer(n, ready[n].result(), asked))
                for asked in (FIRST, *REST)
            ]
        if meanwhile is not None:
            meanwhile()
        advice = {name: advised(name) for name in shown}
        if then is not None:
            then(known(advice), at)
        for name in others:
            at[name] = ready[name].result()
            advice[name] = advised(name)
        answers = {
            n: _joined([*([early[n]] if n in early else []), *(part.result() for part in parts[n])])
            for n in spaces
        }
    return {n: (at[n], _with_advice(answers[n], advice[n], unanswered.get(n))) for n in spaces}


def _bounded(space: FrozenSpace) -> FrozenSpace:
    """Return the space with a sample of its held-out rows where rows times classes are many."""
    most = ASKED_CELLS // space.num_classes
    if len(space.test) <= most:
        return space
    rows = sample_rows(len(space.test), most, 0)
    return replace(space, test=space.test[rows], test_labels=space.test_labels[rows])


def _joined(parts: Sequence[Analysis]) -> Analysis:
    """Return one analysis with the answers of several."""
    answers: dict[str, Any] = {"seconds": {}, "notes": {}}
    for part in parts:
        answers |= {q: a for q in QUESTIONS if (a := getattr(part, q)) is not None}
        answers["seconds"] |= part.seconds or {}
        answers["notes"] |= part.notes or {}
    return Analysis(parts[0].space, **answers)


def _workers(features: int, cores: int) -> ThreadPoolExecutor:
    """Return threads for the questions about the features, which share the cores."""
    number = max(1, min(features, cores))
    return ThreadPoolExecutor(
        number, initializer=torch.set_num_threads, initargs=(max(1, cores // number),)
    )


def _with_advice(analysis: Analysis, advice: Advice | None, reason: str | None) -> Analysis:
    """Return an analysis with its advice, or the reason why there is none."""
    notes = analysis.notes if reason is None else {**(analysis.notes or {}), "advice": reason}
    return replace(analysis, advice=advice, notes=notes)


def _grid(settled: Settled | None) -> dict[str, Any]:
    """Return beta and gamma of a grid that has the advised rule."""
    if settled is None:
        return {}
    s = settled.row.settings
    return {
        "betas": tuple(sorted({*BETAS, s["beta"]})),
        "gammas": tuple(sorted({*GAMMAS, s["prior"]})),
    }
