"""Questions about frozen features, each a function that returns a plain result.

`FrozenSpace.fit` in `space` fits the classes of a feature space, `load_space` in `loading` the
features of a store. Each question is a function of a space and has a module: `gains`, `intercepts`,
`grid` of `decisions`, `fits`, `goodness`, `finite_sample`, `pairs`, `typical` and `cosine`.
`analyze_space` in `run` asks all of them; answers are plain dataclasses (`result`).

The `advice` is made by `advising`: `choice` selects settings on rows that do not judge, `mixtures`
and `references` are further classifiers, `judging` measures all of them on held-out rows,
`cautions` warns, `headline`, `gainers` and `snippet` are its text and its code. `metrics` and
`sampling` serve the questions, `response` and `arcs` the sliders of a page.

`analyze` tells the analysis of feature sets as a sequence: `data` (rows and their roles), `rules`
(vMF classifiers by one search) and `reference_models` as `candidates`, `evaluate`, `suspects`,
`warnings` and `explore`; `ray` maps rows on a cluster; `comparison` of two sets, `export` of
files. `result` and `plain` are the dataclasses.
"""

from resultant.analysis.advice import (
    Advice,
    Caution,
    Difference,
    Probabilities,
    Reliability,
    RuleRow,
)
from resultant.analysis.advising import advise
from resultant.analysis.cosine import (
    CosineAgreement,
    GradientComparison,
    compare_gradients,
    cosine_agreement,
)
from resultant.analysis.decisions import Decisions, Policy, decide
from resultant.analysis.finite_sample import (
    SelfInclusion,
    SupportCurve,
    self_inclusion,
    support_curve,
)
from resultant.analysis.fits import FitComparison, compare_fits
from resultant.analysis.gains import GainDistribution, gain_distribution
from resultant.analysis.goodness import GoodnessOfFit, goodness_of_fit
from resultant.analysis.grid import GridPoint, RealizationGrid, realization_grid
from resultant.analysis.intercepts import (
    FocusClass,
    InterceptDrift,
    SameState,
    SameStateRow,
    intercept_drift,
    same_state,
)
from resultant.analysis.loading import load_space
from resultant.analysis.pairs import (
    BoundaryDisplacement,
    MarginDirections,
    PredictedDisplacement,
    boundary_displacement,
    margin_directions,
)
from resultant.analysis.plain import Result
from resultant.analysis.run import QUESTIONS, Analysis, analyze_space
from resultant.analysis.space import FrozenSpace, SpaceSummary
from resultant.analysis.typical import TypicalMargins, typical_margins

__all__ = [
    "QUESTIONS",
    "Advice",
    "Analysis",
    "BoundaryDisplacement",
    "Caution",
    "CosineAgreement",
    "Decisions",
    "Difference",
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
    "Probabilities",
    "RealizationGrid",
    "Reliability",
    "Result",
    "RuleRow",
    "SameState",
    "SameStateRow",
    "SelfInclusion",
    "SpaceSummary",
    "SupportCurve",
    "TypicalMargins",
    "advise",
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
