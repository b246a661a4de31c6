"""Exact von Mises-Fisher contrastive learning in high dimension, and its angular gain."""

from resultant.bessel import (
    bessel_ratio,
    bessel_ratio_integral,
    bessel_ratio_inverse,
    log_bessel_i,
)
from resultant.score import (
    Decomposition,
    ambient_gradient,
    decompose,
    tangent_gradient,
    vmf_score,
    vmf_score_and_slope,
    vmf_score_slope,
)

__version__ = "0.1.0"

__all__ = [
    "Decomposition",
    "ambient_gradient",
    "bessel_ratio",
    "bessel_ratio_integral",
    "bessel_ratio_inverse",
    "decompose",
    "log_bessel_i",
    "tangent_gradient",
    "vmf_score",
    "vmf_score_and_slope",
    "vmf_score_slope",
]
