"""All questions about one frozen space."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from functools import cache

from resultant.analysis import decisions, finite_sample, fits, gains, pairs
from resultant.analysis.decisions import BETAS, GAMMAS
from resultant.analysis.plain import Result, UnansweredError
from resultant.analysis.space import FrozenSpace, SpaceSummary


@dataclass(frozen=True, eq=False)
class Analysis(Result):
    """The answers for one feature space, None for questions that were not asked."""

    space: SpaceSummary
    gains: gains.GainDistribution | None = None
    grid: decisions.RealizationGrid | None = None
    cosine: decisions.CosineAgreement | None = None
    gradients: decisions.GradientComparison | None = None
    boundaries: pairs.BoundaryDisplacement | None = None
    margins: pairs.MarginDirections | None = None
    typical: pairs.TypicalMargins | None = None
    intercepts: gains.InterceptDrift | None = None
    same_state: gains.SameState | None = None
    support: finite_sample.SupportCurve | None = None
    self_inclusion: finite_sample.SelfInclusion | None = None
    fit: fits.GoodnessOfFit | None = None
    fits: fits.FitComparison | None = None
    seconds: dict[str, float] | None = None  #: time per question
    notes: dict[str, str] | None = None  #: reasons for questions that the space cannot answer


OTHERS = ("space", "seconds", "notes")
QUESTIONS = tuple(f.name for f in fields(Analysis) if f.name not in OTHERS)


def analyze_space(
    space: FrozenSpace,
    questions: Iterable[str] = QUESTIONS,
    *,
    betas: tuple[float, ...] = BETAS,
    gammas: tuple[float, ...] = GAMMAS,
    seed: int = 0,
    progress: Callable[[str], object] = lambda _: None,
) -> Analysis:
    """Ask questions about one space.

    A question that the space cannot answer (p = 2, no class with enough rows) leaves None and a
    note.

    Args:
        questions: Names among `QUESTIONS`.
        betas, gammas: Strengths of the target gain, and multiples of the log prior.
        seed: Seed of all draws.
        progress: Called with the name of a question before it is answered.

    Raises:
        ValueError: A question is not in `QUESTIONS`.

    Example:
        >>> analyze_space(space, ["grid"]).grid.point("native").accuracy
        1.0
    """
    questions = tuple(questions)
    if unknown := [name for name in questions if name not in QUESTIONS]:
        raise ValueError(f"expected questions among {', '.join(QUESTIONS)}, got {unknown}")
    chosen = cache(lambda: pairs.choose_pairs(space, seed=seed))
    functions: dict[str, Callable[[], Result]] = {
        "gains": lambda: gains.gain_distribution(space),
        "grid": lambda: decisions.realization_grid(space, betas, gammas),
        "cosine": lambda: decisions.cosine_agreement(space),
        "gradients": lambda: decisions.compare_gradients(space, seed=seed),
        "boundaries": lambda: pairs.boundary_displacement(space, chosen()),
        "margins": lambda: pairs.margin_directions(space, chosen()),
        "typical": lambda: pairs.typical_margins(space, chosen()),
        "intercepts": lambda: gains.intercept_drift(space),
        "same_state": lambda: gains.same_state(space),
        "support": lambda: finite_sample.support_curve(space, seed=seed),
        "self_inclusion": lambda: finite_sample.self_inclusion(space, seed=seed),
        "fit": lambda: fits.goodness_of_fit(space, seed=seed),
        "fits": lambda: fits.compare_fits(space),
    }
    answers, seconds, notes = {}, {}, {}
    for name in (q for q in QUESTIONS if q in questions):
        progress(name)
        started = time.perf_counter()
        try:
            answers[name] = functions[name]()
        except UnansweredError as error:
            notes[name] = str(error)
        seconds[name] = time.perf_counter() - started
    return Analysis(space.summary(), **answers, seconds=seconds, notes=notes)
