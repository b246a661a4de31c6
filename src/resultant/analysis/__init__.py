"""The analysis of frozen features, and the theory of their classes.

`analyze` tells the analysis as a sequence: `data` is the rows and their roles, `methods` are
classifiers, `evaluate` chooses one and measures all, `explain` finds rows to look at, `export`
writes files, and `result` holds it. `theory` and `goodness` answer questions of the paper about a
`space`. `metrics` are measures, and `ray` reads rows on a cluster.

Examples in docstrings assume ``import torch``, ``from resultant.analysis import *`` and this space:

    >>> z, y = torch.eye(4).repeat(9, 1) + 0.1 * torch.rand(36, 4), torch.arange(4).repeat(9)
    >>> space = FrozenSpace.fit(z, y, z, y)
"""

from resultant.analysis.goodness import GoodnessOfFit, goodness_of_fit
from resultant.analysis.metrics import Result
from resultant.analysis.space import FrozenSpace, SpaceSummary, load_space
from resultant.analysis.theory import (
    BoundaryDisplacement,
    CosineAgreement,
    GainDistribution,
    InterceptDrift,
    PredictedDisplacement,
    Theory,
    ask_theory,
    boundary_displacement,
    cosine_agreement,
    gain_distribution,
    intercept_drift,
)

__all__ = [
    "BoundaryDisplacement",
    "CosineAgreement",
    "FrozenSpace",
    "GainDistribution",
    "GoodnessOfFit",
    "InterceptDrift",
    "PredictedDisplacement",
    "Result",
    "SpaceSummary",
    "Theory",
    "ask_theory",
    "boundary_displacement",
    "cosine_agreement",
    "gain_distribution",
    "goodness_of_fit",
    "intercept_drift",
    "load_space",
]
