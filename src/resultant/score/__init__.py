"""The exact score of a query, its slope and gradients; expansions of the score.

Functions of the cosine, concentration and temperature of a class; this room knows no classes.
`exact` computes scores, `expansion` and `ratio_expansion` approximate them, `softmax` carries the
approximation to probabilities, `limits` holds the ranges of the arguments, `kernel` the parts of
the Triton kernel that other kernels use.
"""

from resultant.score.exact import (
    Decomposition,
    ambient_gradient,
    decompose,
    tangent_gradient,
    vmf_score,
    vmf_score_and_slope,
    vmf_score_slope,
)
from resultant.score.expansion import (
    directional_cumulants,
    fixed_expansion,
    fixed_terms,
    free_energy_expansion,
    joint_expansion,
    joint_terms,
)
from resultant.score.ratio_expansion import ratio_approximation, ratio_bound
from resultant.score.softmax import propagate_loss, propagate_probabilities

__all__ = [
    "Decomposition",
    "ambient_gradient",
    "decompose",
    "directional_cumulants",
    "fixed_expansion",
    "fixed_terms",
    "free_energy_expansion",
    "joint_expansion",
    "joint_terms",
    "propagate_loss",
    "propagate_probabilities",
    "ratio_approximation",
    "ratio_bound",
    "tangent_gradient",
    "vmf_score",
    "vmf_score_and_slope",
    "vmf_score_slope",
]
