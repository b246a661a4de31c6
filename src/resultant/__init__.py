"""Exact von Mises-Fisher contrastive learning in high dimension, and its angular gain.

Public names load on first use, and torch with them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from resultant._version import __version__ as __version__

if TYPE_CHECKING:
    # ruff: noqa: F403
    from resultant.classes import *
    from resultant.classifiers import *
    from resultant.decisions import *
    from resultant.losses import *
    from resultant.score import *
    from resultant.special import *
    from resultant.vmf import *

# Public names by folder.
_NAMES = {
    "special": [
        "bessel_ratio",
        "bessel_ratio_integral",
        "bessel_ratio_inverse",
        "log_bessel_i",
        "log_bessel_ie",
    ],
    "vmf": [
        "HypersphericalUniform",
        "VonMisesFisher",
        "concentration",
        "log_normalizer",
        "mean_resultant",
    ],
    "score": [
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
    ],
    "classes": [
        "ClassState",
        "ClassStatistics",
        "Realization",
        "Rule",
        "angular_gain",
        "class_scores",
        "cross_fit_temperature",
        "expected_square_resultant",
        "fold_statistics",
        "held_out_state",
        "leave_one_out_scores",
        "realize",
        "self_inclusion",
        "target_gain",
        "target_temperature",
        "unbiased_square_resultant",
    ],
    "decisions": [
        "BinaryModel",
        "centre_margins",
        "certificate",
        "disagreement_bound",
        "displacement",
        "effective_competitors",
        "gradient_bound",
        "gradient_coordinates",
        "gradient_cosines",
        "intercept_gradient_difference",
        "joint_leading",
        "loss_bound",
        "loss_gradient",
        "margin_change",
        "mean_relative_error",
        "pairwise_margins",
        "posterior_thresholds",
        "projection_variance",
        "rate_function",
        "residual_bound",
        "select_pairs",
        "short_arc_roots",
        "stacked_relative_error",
    ],
    "losses": ["LogitAdjustedCrossEntropy", "ProCoBank", "ProCoLoss"],
    "classifiers": [
        "CosinePrototypeClassifier",
        "VMFClassifier",
        "VMFClassifierCV",
        "VMFMixture",
        "expected_calibration_error",
    ],
}
_FOLDERS = {name: folder for folder, names in _NAMES.items() for name in names}

__all__ = sorted(["__version__", *_FOLDERS])  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return import_module(f"resultant.{name}")
    if name not in _FOLDERS:
        raise AttributeError(f"module 'resultant' has no attribute {name!r}")
    value = getattr(import_module(f"resultant.{_FOLDERS[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
