"""All questions of the paper about one frozen space, asked together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from functools import cache

from resultant.analysis.metrics import Result, UnansweredError
from resultant.analysis.theory import GainDistribution
from resultant_reproduction.frozen import (
    agreement,
    decisions,
    finite_sample,
    goodness,
    pairs,
    same_state,
)
from resultant_reproduction.frozen.boundaries import (
    BoundaryDisplacement,
    boundary_displacement,
    choose_pairs,
)
from resultant_reproduction.frozen.decisions import BETAS
from resultant_reproduction.frozen.space import FrozenSpace, SpaceSummary


@dataclass(frozen=True, eq=False)
class Analysis(Result):
    """The answers for one feature space, None for questions that were not asked."""

    space: SpaceSummary
    gains: GainDistribution | None = None
    grid: decisions.RealizationGrid | None = None
    cosine: agreement.CosineAgreement | None = None
    gradients: decisions.GradientComparison | None = None
    boundaries: BoundaryDisplacement | None = None
    margins: pairs.MarginDirections | None = None
    typical: pairs.TypicalMargins | None = None
    intercepts: agreement.InterceptDrift | None = None
    same_state: same_state.SameState | None = None
    support: finite_sample.SupportCurve | None = None
    self_inclusion: finite_sample.SelfInclusion | None = None
    fit: goodness.GoodnessOfFit | None = None
    notes: dict[str, str] | None = None  #: reasons for questions that the space cannot answer


QUESTIONS = tuple(f.name for f in fields(Analysis) if f.name not in ("space", "notes"))


def analyze_space(
    space: FrozenSpace, questions: Iterable[str] = QUESTIONS, betas: tuple[float, ...] = BETAS
) -> Analysis:
    """Ask questions about one space; one that it cannot answer leaves None and a note."""
    questions = tuple(questions)
    if unknown := [name for name in questions if name not in QUESTIONS]:
        raise ValueError(f"expected questions among {', '.join(QUESTIONS)}, got {unknown}")
    chosen = cache(lambda: choose_pairs(space))
    functions: dict[str, Callable[[], Result]] = {
        "gains": space.gains,
        "grid": lambda: decisions.realization_grid(space, betas),
        "cosine": lambda: agreement.cosine_agreement(space),
        "gradients": lambda: decisions.compare_gradients(space),
        "boundaries": lambda: boundary_displacement(space, chosen()),
        "margins": lambda: pairs.margin_directions(space, chosen()),
        "typical": lambda: pairs.typical_margins(space, chosen()),
        "intercepts": lambda: agreement.intercept_drift(space),
        "same_state": lambda: same_state.same_state(space),
        "support": lambda: finite_sample.support_curve(space),
        "self_inclusion": lambda: finite_sample.self_inclusion(space),
        "fit": lambda: goodness.goodness_of_fit(space),
    }
    answers, notes = {}, {}
    for name in (q for q in QUESTIONS if q in questions):
        try:
            answers[name] = functions[name]()
        except UnansweredError as error:
            notes[name] = str(error)
    return Analysis(space.summary(), **answers, notes=notes)
