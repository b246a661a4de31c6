"""Exact von Mises-Fisher contrastive learning in high dimension, and its angular gain."""

from typing import TYPE_CHECKING, Any

from resultant._version import __version__
from resultant.bank import ProCoBank
from resultant.bessel import (
    bessel_ratio,
    bessel_ratio_integral,
    bessel_ratio_inverse,
    log_bessel_i,
)
from resultant.boundaries import displacement, posterior_thresholds, select_pairs, short_arc_roots
from resultant.calibration import expected_calibration_error
from resultant.certificates import (
    certificate,
    disagreement_bound,
    gradient_bound,
    loss_bound,
    margin_change,
    residual_bound,
)
from resultant.classes import ClassState, ClassStatistics
from resultant.expansion import (
    directional_cumulants,
    fixed_expansion,
    free_energy_expansion,
    joint_expansion,
)
from resultant.finite_sample import cross_fit_temperature, fold_statistics, leave_one_out_scores
from resultant.gain import Realization, angular_gain, class_scores, realize, target_gain
from resultant.geometry import (
    centre_margins,
    effective_competitors,
    gradient_coordinates,
    gradient_cosines,
    intercept_gradient_difference,
    joint_leading,
    loss_gradient,
    pairwise_margins,
    stacked_relative_error,
)
from resultant.losses import LogitAdjustedCrossEntropy, ProCoLoss
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

if TYPE_CHECKING:
    from resultant.classifier import CosinePrototypeClassifier, VMFClassifier
    from resultant.selection import VMFClassifierCV

# Estimators load scikit-learn, and so only when they are asked for.
_ESTIMATORS = {
    "CosinePrototypeClassifier": "resultant.classifier",
    "VMFClassifier": "resultant.classifier",
    "VMFClassifierCV": "resultant.selection",
}


def __getattr__(name: str) -> Any:
    if name not in _ESTIMATORS:
        raise AttributeError(f"module 'resultant' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_ESTIMATORS[name]), name)


__all__ = [
    "BinaryModel",
    "ClassState",
    "ClassStatistics",
    "CosinePrototypeClassifier",
    "Decomposition",
    "HypersphericalUniform",
    "LogitAdjustedCrossEntropy",
    "ProCoBank",
    "ProCoLoss",
    "Realization",
    "VMFClassifier",
    "VMFClassifierCV",
    "VonMisesFisher",
    "__version__",
    "ambient_gradient",
    "angular_gain",
    "bessel_ratio",
    "bessel_ratio_integral",
    "bessel_ratio_inverse",
    "centre_margins",
    "certificate",
    "class_scores",
    "concentration",
    "cross_fit_temperature",
    "decompose",
    "directional_cumulants",
    "disagreement_bound",
    "displacement",
    "effective_competitors",
    "expected_calibration_error",
    "fixed_expansion",
    "fold_statistics",
    "free_energy_expansion",
    "gradient_bound",
    "gradient_coordinates",
    "gradient_cosines",
    "intercept_gradient_difference",
    "joint_expansion",
    "joint_leading",
    "leave_one_out_scores",
    "log_bessel_i",
    "log_normalizer",
    "loss_bound",
    "loss_gradient",
    "margin_change",
    "mean_resultant",
    "pairwise_margins",
    "posterior_thresholds",
    "propagate_loss",
    "propagate_probabilities",
    "realize",
    "residual_bound",
    "select_pairs",
    "short_arc_roots",
    "stacked_relative_error",
    "tangent_gradient",
    "target_gain",
    "vmf_score",
    "vmf_score_and_slope",
    "vmf_score_slope",
]
