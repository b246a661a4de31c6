"""The paper's asymptotics, which serve theory, figures and checks.

`score_expansion` and `ratio_expansion` expand the exact score and the Bessel ratio, `softmax`
carries the expansion to probabilities and losses, `leading` builds leading scores of classes,
`binary_model`, `rates` and `plane_tail` hold the limits and errors of two matched classes,
`thresholds` finds posterior thresholds on arcs, `cross_fit` fits temperatures to folds of a sample.

All functions broadcast, keep dtype and device, and carry gradients unless they say
otherwise. Conventions are those of `resultant.classes`.
"""

from resultant.theory.binary_model import BinaryModel
from resultant.theory.cross_fit import cross_fit_temperature, fold_statistics
from resultant.theory.leading import joint_leading
from resultant.theory.rates import projection_variance, rate_function
from resultant.theory.ratio_expansion import ratio_approximation, ratio_bound
from resultant.theory.score_expansion import (
    directional_cumulants,
    fixed_expansion,
    fixed_terms,
    free_energy_expansion,
    joint_expansion,
    joint_terms,
)
from resultant.theory.softmax import propagate_loss, propagate_probabilities
from resultant.theory.thresholds import posterior_thresholds

__all__ = [
    "BinaryModel",
    "cross_fit_temperature",
    "directional_cumulants",
    "fixed_expansion",
    "fixed_terms",
    "fold_statistics",
    "free_energy_expansion",
    "joint_expansion",
    "joint_leading",
    "joint_terms",
    "posterior_thresholds",
    "projection_variance",
    "propagate_loss",
    "propagate_probabilities",
    "rate_function",
    "ratio_approximation",
    "ratio_bound",
]
