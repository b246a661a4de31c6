"""The paper's asymptotics: `score_expansion` expands Bessel ratio and exact score, `softmax` builds
leading scores, carries the expansion to probabilities and losses and finds posterior thresholds,
`binary_model` holds limits and errors of two matched classes. All functions broadcast, keep dtype
and device, and carry gradients unless they say otherwise."""

from resultant.theory.binary_model import (
    BinaryModel as BinaryModel,
    projection_variance as projection_variance,
    rate_function as rate_function,
)
from resultant.theory.score_expansion import (
    directional_cumulants as directional_cumulants,
    fixed_expansion as fixed_expansion,
    fixed_terms as fixed_terms,
    free_energy_expansion as free_energy_expansion,
    joint_expansion as joint_expansion,
    joint_terms as joint_terms,
    ratio_approximation as ratio_approximation,
    ratio_bound as ratio_bound,
)
from resultant.theory.softmax import (
    joint_leading as joint_leading,
    posterior_thresholds as posterior_thresholds,
    propagate_loss as propagate_loss,
    propagate_probabilities as propagate_probabilities,
)
