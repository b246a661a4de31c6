"""Exact von Mises-Fisher contrastive learning in high dimension, and its angular gain."""

from resultant.bessel import (
    bessel_ratio,
    bessel_ratio_integral,
    bessel_ratio_inverse,
    log_bessel_i,
)
from resultant.expansion import (
    directional_cumulants,
    fixed_expansion,
    free_energy_expansion,
    joint_expansion,
)
from resultant.propagation import propagate_loss, propagate_probabilities
from resultant.score import (
    Decomposition,
    ambient_gradient,
    decompose,
    tangent_gradient,
    vmf_score,
    vmf_score_and_slope,
    vmf_score_slope,
)
from resultant.vmf import (
    HypersphericalUniform,
    VonMisesFisher,
    concentration,
    log_normalizer,
    mean_resultant,
)

__version__ = "0.1.0"

__all__ = [
    "Decomposition",
    "HypersphericalUniform",
    "VonMisesFisher",
    "ambient_gradient",
    "bessel_ratio",
    "bessel_ratio_integral",
    "bessel_ratio_inverse",
    "concentration",
    "decompose",
    "directional_cumulants",
    "fixed_expansion",
    "free_energy_expansion",
    "joint_expansion",
    "log_bessel_i",
    "log_normalizer",
    "mean_resultant",
    "propagate_loss",
    "propagate_probabilities",
    "tangent_gradient",
    "vmf_score",
    "vmf_score_and_slope",
    "vmf_score_slope",
]
