"""The exact score of a query, its slope and gradients.

Shapes, dtypes and validation follow the conventions of `resultant.special`.
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

__all__ = [
    "Decomposition",
    "ambient_gradient",
    "decompose",
    "tangent_gradient",
    "vmf_score",
    "vmf_score_and_slope",
    "vmf_score_slope",
]
