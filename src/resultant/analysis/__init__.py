"""The analysis of frozen features, and the theory of their classes.

`run` is the analysis as a sequence: `read` rows with labels, `split` them, `fit` classifiers (a
`candidate` is one of them, `references` those of scikit-learn), `choose` one on validation rows,
`evaluate` all on test rows, `explain` rows to look at (the `quality` of their labels and
`duplicates`, with the `pictures` of the page and the `sets` of classes of test rows), give `advice`
about what to do next, and `write` files, of which `saved` classifiers can be loaded again. `rows`
returns the table of all rows. `result` is what a page shows, `compare` the verdict on two feature
sets, `metrics` are estimates and intervals, `sums` fits a classifier to files piece by piece, and
`ray` reads rows on a cluster. `theory` and `goodness` answer questions of the paper about the
classes of a `space`.

Examples in docstrings assume ``import torch``, ``from resultant.analysis import *`` and this space:

    >>> z, y = torch.eye(4).repeat(9, 1) + 0.1 * torch.rand(36, 4), torch.arange(4).repeat(9)
    >>> space = FrozenSpace.fit(z, y, z, y)
"""

from resultant.analysis.choose import choose
from resultant.analysis.compare import compare_sets
from resultant.analysis.evaluate import evaluate
from resultant.analysis.fit import fit
from resultant.analysis.goodness import GoodnessOfFit, goodness_of_fit
from resultant.analysis.metrics import Result
from resultant.analysis.read import read
from resultant.analysis.run import explain, run
from resultant.analysis.saved import load_classifier
from resultant.analysis.space import FrozenSpace, SpaceSummary, load_space
from resultant.analysis.split import plan
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
from resultant.analysis.write import write_files

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
    "choose",
    "compare_sets",
    "cosine_agreement",
    "evaluate",
    "explain",
    "fit",
    "gain_distribution",
    "goodness_of_fit",
    "intercept_drift",
    "load_classifier",
    "load_space",
    "plan",
    "read",
    "run",
    "write_files",
]
