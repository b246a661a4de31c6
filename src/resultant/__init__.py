"""Exact von Mises-Fisher contrastive learning in high dimension, and its angular gain."""

from resultant._version import __version__
from resultant.bessel import (
    bessel_ratio,
    bessel_ratio_integral,
    bessel_ratio_inverse,
    log_bessel_i,
)
from resultant.classes import ClassState, ClassStatistics
from resultant.expansion import (
    directional_cumulants,
    fixed_expansion,
    free_energy_expansion,
    joint_expansion,
)
from resultant.finite_sample import cross_fit_temperature, fold_statistics, leave_one_out_scores
from resultant.gain import angular_gain, class_scores, target_gain
from resultant.population import BinaryModel
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

__all__ = [
    "BinaryModel",
    "ClassState",
    "ClassStatistics",
    "Decomposition",
    "HypersphericalUniform",
    "VonMisesFisher",
    "__version__",
    "ambient_gradient",
    "angular_gain",
    "bessel_ratio",
    "bessel_ratio_integral",
    "bessel_ratio_inverse",
    "class_scores",
    "concentration",
    "cross_fit_temperature",
    "decompose",
    "directional_cumulants",
    "fixed_expansion",
    "fold_statistics",
    "free_energy_expansion",
    "joint_expansion",
    "leave_one_out_scores",
    "log_bessel_i",
    "log_normalizer",
    "mean_resultant",
    "propagate_loss",
    "propagate_probabilities",
    "tangent_gradient",
    "target_gain",
    "vmf_score",
    "vmf_score_and_slope",
    "vmf_score_slope",
]
