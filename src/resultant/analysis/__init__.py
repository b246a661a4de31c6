"""The analysis of frozen features.

`run` is the analysis as a sequence: `read` rows with labels, `split` them, `fit` classifiers (a
`candidate` is one of them, `references` those of scikit-learn), `choose` one on validation rows,
`evaluate` all on test rows, `explain` rows to look at (the `quality` of their labels and
`duplicates`, with the `pictures` of the page and the `sets` of classes of test rows), give `advice`
about what to do next, and `write` files, of which `saved` classifiers can be loaded again. `rows`
returns the table of all rows. `result` is what a page shows, `compare` the verdict on two feature
sets, `metrics` are estimates and intervals, `sums` fits a classifier to files piece by piece, and
`ray` reads rows on a cluster. `theory` has the gains of the classes.

Examples in docstrings assume ``import torch`` and ``from resultant.analysis import *``.
"""

from resultant.analysis.choose import choose
from resultant.analysis.compare import compare_sets
from resultant.analysis.evaluate import evaluate
from resultant.analysis.fit import fit
from resultant.analysis.metrics import Result
from resultant.analysis.read import read
from resultant.analysis.run import explain, run
from resultant.analysis.saved import load_classifier
from resultant.analysis.split import plan
from resultant.analysis.theory import GainDistribution, Theory
from resultant.analysis.write import write_files

__all__ = [
    "GainDistribution",
    "Result",
    "Theory",
    "choose",
    "compare_sets",
    "evaluate",
    "explain",
    "fit",
    "load_classifier",
    "plan",
    "read",
    "run",
    "write_files",
]
