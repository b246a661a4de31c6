"""Every question to one feature space."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields

from resultant.analysis.cosine import (
    CosineAgreement,
    GradientComparison,
    compare_gradients,
    cosine_agreement,
)
from resultant.analysis.decisions import (
    BETAS,
    GAMMAS,
    RealizationGrid,
    decide,
    grid_policies,
    realization_grid,
)
from resultant.analysis.finite_sample import (
    SelfInclusion,
    SupportCurve,
    self_inclusion,
    support_curve,
)
from resultant.analysis.gains import GainDistribution, gain_distribution
from resultant.analysis.goodness_of_fit import GoodnessOfFit, goodness_of_fit
from resultant.analysis.intercepts import InterceptDrift, SameState, intercept_drift, same_state
from resultant.analysis.pairs import (
    BoundaryDisplacement,
    MarginDirections,
    TypicalMargins,
    boundary_displacement,
    margin_directions,
    typical_margins,
)
from resultant.analysis.recommendation import Recommendation, recommend
from resultant.analysis.result import Result, UnansweredError
from resultant.analysis.space import FrozenSpace, Progress, SpaceSummary


@dataclass(frozen=True, eq=False)
class Analysis(Result):
    """The answers for one feature space, None for questions not asked; ``seconds`` of each, and
    ``notes`` on those that could not be answered, by name."""

    space: SpaceSummary
    gains: GainDistribution | None = None
    grid: RealizationGrid | None = None
    recommendation: Recommendation | None = None
    cosine: CosineAgreement | None = None
    gradients: GradientComparison | None = None
    boundaries: BoundaryDisplacement | None = None
    margins: MarginDirections | None = None
    typical: TypicalMargins | None = None
    intercepts: InterceptDrift | None = None
    same_state: SameState | None = None
    support: SupportCurve | None = None
    self_inclusion: SelfInclusion | None = None
    fit: GoodnessOfFit | None = None
    seconds: dict[str, float] | None = None
    notes: dict[str, str] | None = None


QUESTIONS = tuple(f.name for f in fields(Analysis) if f.name not in ("space", "seconds", "notes"))


def analyze_space(
    space: FrozenSpace,
    questions: Iterable[str] = QUESTIONS,
    *,
    betas: tuple[float, ...] = BETAS,
    gammas: tuple[float, ...] = GAMMAS,
    seed: int = 0,
    progress: Progress | None = None,
) -> Analysis:
    """Ask ``questions``, any of `QUESTIONS`, of one space.

    The recommendation is at zero prior. ``progress`` is called with the name of a question and the
    share of it that is done. A question that this space cannot answer (p = 2, no class with enough
    rows) leaves None and a note.
    """
    questions = tuple(questions)
    unknown = [name for name in questions if name not in QUESTIONS]
    if unknown:
        raise ValueError(f"expected questions among {', '.join(QUESTIONS)}, got {unknown}")
    shared = None
    if "grid" in questions or "recommendation" in questions:
        needed = grid_policies(betas, gammas if "grid" in questions else (0.0,))
        started = time.perf_counter()
        shared = decide(space, (*needed, *grid_policies(betas, (0.0,))), progress=progress)
        seconds = {"decisions": time.perf_counter() - started}
    else:
        seconds = {}
    asked: dict[str, Callable[[], Result]] = {
        "gains": lambda: gain_distribution(space),
        "grid": lambda: realization_grid(space, betas, gammas, decisions=shared),
        "recommendation": lambda: recommend(space, betas, decisions=shared, seed=seed),
        "cosine": lambda: cosine_agreement(space, progress=progress),
        "gradients": lambda: compare_gradients(space, seed=seed),
        "boundaries": lambda: boundary_displacement(space, seed=seed),
        "margins": lambda: margin_directions(space, seed=seed, progress=progress),
        "typical": lambda: typical_margins(space, seed=seed),
        "intercepts": lambda: intercept_drift(space),
        "same_state": lambda: same_state(space, decisions=shared),
        "support": lambda: support_curve(space, seed=seed, progress=progress),
        "self_inclusion": lambda: self_inclusion(space, seed=seed, progress=progress),
        "fit": lambda: goodness_of_fit(space, seed=seed, progress=progress),
    }
    answers, notes = {}, {}
    for name in (q for q in QUESTIONS if q in questions):
        started = time.perf_counter()
        try:
            answers[name] = asked[name]()
        except UnansweredError as error:
            notes[name] = str(error)
        seconds[name] = time.perf_counter() - started
        if progress is not None:
            progress(name, 1.0)
    return Analysis(space.summary(), **answers, seconds=seconds, notes=notes)
