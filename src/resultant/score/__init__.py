"""The exact score of a query, its slope, gradients and expansions."""

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
    ratio_approximation,
    ratio_bound,
)
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
