"""The analysis of frozen features, and questions about them, each a function with a plain result.

`analyze` tells the analysis as a sequence: `data` is the rows and their roles, `methods` are
classifiers, `evaluate` chooses one and measures all, `explain` finds rows to look at, `export`
writes files. `result` holds it, and answers of the paper about a `space`: `gains`, `decisions`,
`pairs`, `finite_sample` and `fits`. `metrics` are measures, and `ray` reads rows on a cluster.

Examples in docstrings assume ``import torch``, ``from resultant.analysis import *`` and this space:

    >>> z, y = torch.eye(4).repeat(9, 1) + 0.1 * torch.rand(36, 4), torch.arange(4).repeat(9)
    >>> space = FrozenSpace.fit(z, y, z, y)
"""

from resultant.analysis.decisions import (
    CosineAgreement,
    Decisions,
    GradientComparison,
    GridPoint,
    Policy,
    RealizationGrid,
    compare_gradients,
    cosine_agreement,
    decide,
    realization_grid,
)
from resultant.analysis.finite_sample import (
    SelfInclusion,
    SupportCurve,
    self_inclusion,
    support_curve,
)
from resultant.analysis.fits import FitComparison, GoodnessOfFit, compare_fits, goodness_of_fit
from resultant.analysis.gains import (
    FocusClass,
    GainDistribution,
    InterceptDrift,
    SameState,
    SameStateRow,
    gain_distribution,
    intercept_drift,
    same_state,
)
from resultant.analysis.metrics import Result
from resultant.analysis.pairs import (
    BoundaryDisplacement,
    MarginDirections,
    PredictedDisplacement,
    TypicalMargins,
    boundary_displacement,
    margin_directions,
    typical_margins,
)
from resultant.analysis.result import QUESTIONS, Analysis, analyze_space
from resultant.analysis.space import FrozenSpace, SpaceSummary, load_space

__all__ = [
    "QUESTIONS",
    "Analysis",
    "BoundaryDisplacement",
    "CosineAgreement",
    "Decisions",
    "FitComparison",
    "FocusClass",
    "FrozenSpace",
    "GainDistribution",
    "GoodnessOfFit",
    "GradientComparison",
    "GridPoint",
    "InterceptDrift",
    "MarginDirections",
    "Policy",
    "PredictedDisplacement",
    "RealizationGrid",
    "Result",
    "SameState",
    "SameStateRow",
    "SelfInclusion",
    "SpaceSummary",
    "SupportCurve",
    "TypicalMargins",
    "analyze_space",
    "boundary_displacement",
    "compare_fits",
    "compare_gradients",
    "cosine_agreement",
    "decide",
    "gain_distribution",
    "goodness_of_fit",
    "intercept_drift",
    "load_space",
    "margin_directions",
    "realization_grid",
    "same_state",
    "self_inclusion",
    "support_curve",
    "typical_margins",
]
