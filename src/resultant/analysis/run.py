"""All questions about one frozen space."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from functools import cache

from resultant.analysis.cosine import (
    CosineAgreement,
    GradientComparison,
    compare_gradients,
    cosine_agreement,
)
from resultant.analysis.decisions import BETAS, GAMMAS
from resultant.analysis.finite_sample import (
    SelfInclusion,
    SupportCurve,
    self_inclusion,
    support_curve,
)
from resultant.analysis.fits import FitComparison, compare_fits
from resultant.analysis.gains import GainDistribution, gain_distribution
from resultant.analysis.goodness import GoodnessOfFit, goodness_of_fit
from resultant.analysis.grid import RealizationGrid, realization_grid
from resultant.analysis.intercepts import InterceptDrift, SameState, intercept_drift, same_state
from resultant.analysis.pairs import (
    BoundaryDisplacement,
    MarginDirections,
    boundary_displacement,
    choose_pairs,
    margin_directions,
)
from resultant.analysis.plain import Result, UnansweredError
from resultant.analysis.space import FrozenSpace, SpaceSummary
from resultant.analysis.typical import TypicalMargins, typical_margins


@dataclass(frozen=True, eq=False)
class Analysis(Result):
    """The answers for one feature space, None for questions that were not asked.

    ``seconds`` is the time per question. ``notes`` has the reasons by name for questions that the
    space cannot answer.
    """

    space: SpaceSummary
    gains: GainDistribution | None = None
    grid: RealizationGrid | None = None
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
    fits: FitComparison | None = None
    seconds: dict[str, float] | None = None
    notes: dict[str, str] | None = None


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
        space: The classes and the queries.
        questions: Names among `QUESTIONS`.
        betas: Strengths of the target gain.
        gammas: Multiples of the log prior.
        seed: Seed of all draws.
        progress: Called with the name of a question before it is answered.

    Returns:
        The answers.

    Raises:
        ValueError: A question is not in `QUESTIONS`.

    Example:
        >>> import torch
        >>> from resultant.analysis import FrozenSpace, analyze_space
        >>> z, y = torch.eye(4).repeat(3, 1) + 0.1, torch.arange(4).repeat(3)
        >>> analyze_space(FrozenSpace.fit(z, y, z, y), ["grid"]).grid.point("native").accuracy
        1.0
    """
    questions = tuple(questions)
    unknown = [name for name in questions if name not in QUESTIONS]
    if unknown:
        raise ValueError(f"expected questions among {', '.join(QUESTIONS)}, got {unknown}")
    pairs = cache(lambda: choose_pairs(space, seed=seed))
    functions: dict[str, Callable[[], Result]] = {
        "gains": lambda: gain_distribution(space),
        "grid": lambda: realization_grid(space, betas, gammas),
        "cosine": lambda: cosine_agreement(space),
        "gradients": lambda: compare_gradients(space, seed=seed),
        "boundaries": lambda: boundary_displacement(space, pairs()),
        "margins": lambda: margin_directions(space, pairs()),
        "typical": lambda: typical_margins(space, pairs()),
        "intercepts": lambda: intercept_drift(space),
        "same_state": lambda: same_state(space),
        "support": lambda: support_curve(space, seed=seed),
        "self_inclusion": lambda: self_inclusion(space, seed=seed),
        "fit": lambda: goodness_of_fit(space, seed=seed),
        "fits": lambda: compare_fits(space),
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
