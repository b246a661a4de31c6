"""The exact score of a query, its slope and gradients.

Functions of the cosine, concentration and temperature of a class; this room knows no classes.
`exact` computes scores, `bounds` bounds their parts and their limits in the temperature, `limits`
checks their arguments, `kernel` holds the parts of the Triton kernel that other kernels use.
Conventions are those of `resultant.special`.
"""

from resultant.score.bounds import (
    DecompositionBounds as DecompositionBounds,
    ScoreLimit as ScoreLimit,
    decomposition_bounds as decomposition_bounds,
    likelihood_limit as likelihood_limit,
    mean_limit as mean_limit,
)
from resultant.score.exact import (
    Decomposition as Decomposition,
    ambient_gradient as ambient_gradient,
    decompose as decompose,
    tangent_gradient as tangent_gradient,
    vmf_score as vmf_score,
    vmf_score_and_slope as vmf_score_and_slope,
    vmf_score_slope as vmf_score_slope,
)
