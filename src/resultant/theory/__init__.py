"""The paper's asymptotics: `score_expansion` expands Bessel ratio and exact score, `softmax` builds
leading scores, carries the expansion to probabilities and losses and finds posterior thresholds,
`binary_model` and `plane_tail` hold limits and errors of two matched classes. All functions
broadcast, keep dtype and device, and carry gradients unless they say otherwise."""

from resultant.theory.binary_model import BinaryModel, projection_variance, rate_function
from resultant.theory.score_expansion import (
    directional_cumulants,
    fixed_expansion,
    fixed_terms,
    free_energy_expansion,
    joint_expansion,
    joint_terms,
    ratio_approximation,
    ratio_bound,
)
from resultant.theory.softmax import (
    joint_leading,
    posterior_thresholds,
    propagate_loss,
    propagate_probabilities,
)

__all__ = [
    "BinaryModel",
    "directional_cumulants",
    "fixed_expansion",
    "fixed_terms",
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
