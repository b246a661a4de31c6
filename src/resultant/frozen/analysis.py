"""Every question to one feature space."""

from __future__ import annotations

from dataclasses import dataclass

from resultant.frozen.cosine import CosineAgreement, GradientComparison
from resultant.frozen.decisions import RealizationGrid
from resultant.frozen.fit import GoodnessOfFit
from resultant.frozen.gains import GainDistribution
from resultant.frozen.intercepts import InterceptDrift, SameState
from resultant.frozen.pairs import BoundaryDisplacement, MarginDirections, TypicalMargins
from resultant.frozen.recommend import Recommendation
from resultant.frozen.result import Result
from resultant.frozen.samples import SelfInclusion, SupportCurve
from resultant.frozen.space import SpaceSummary


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
