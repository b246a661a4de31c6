"""Exact von Mises-Fisher contrastive learning in high dimension, and its angular gain.

A name is loaded, and torch with it, when it is first asked for.
"""

from typing import TYPE_CHECKING, Any

from resultant._version import __version__ as __version__

# Where the public names are.
_NAMES = {
    "bank": ["ProCoBank"],
    "bessel": ["bessel_ratio", "bessel_ratio_integral", "bessel_ratio_inverse", "log_bessel_i"],
    "boundaries": ["displacement", "posterior_thresholds", "short_arc_roots"],
    "calibration": ["expected_calibration_error"],
    "certificates": [
        "certificate",
        "disagreement_bound",
        "gradient_bound",
        "loss_bound",
        "margin_change",
        "residual_bound",
    ],
    "classes": ["ClassState", "ClassStatistics"],
    "classifier": ["CosinePrototypeClassifier", "VMFClassifier"],
    "expansion": [
        "directional_cumulants",
        "fixed_expansion",
        "fixed_terms",
        "free_energy_expansion",
        "joint_expansion",
        "joint_terms",
        "ratio_approximation",
        "ratio_bound",
    ],
    "finite_sample": [
        "cross_fit_temperature",
        "expected_square_resultant",
        "fold_statistics",
        "leave_one_out_scores",
        "self_inclusion",
        "unbiased_square_resultant",
    ],
    "gain": [
        "Realization",
        "angular_gain",
        "class_scores",
        "realize",
        "target_gain",
        "target_temperature",
    ],
    "geometry": [
        "centre_margins",
        "effective_competitors",
        "gradient_coordinates",
        "gradient_cosines",
        "intercept_gradient_difference",
        "joint_leading",
        "loss_gradient",
        "pairwise_margins",
        "mean_relative_error",
        "stacked_relative_error",
    ],
    "losses": ["LogitAdjustedCrossEntropy", "ProCoLoss"],
    "pair_selection": ["select_pairs"],
    "population": ["BinaryModel", "projection_variance", "rate_function"],
    "propagation": ["propagate_loss", "propagate_probabilities"],
    "score": [
        "Decomposition",
        "ambient_gradient",
        "decompose",
        "tangent_gradient",
        "vmf_score",
        "vmf_score_and_slope",
        "vmf_score_slope",
    ],
    "selection": ["VMFClassifierCV"],
    "vmf": [
        "HypersphericalUniform",
        "VonMisesFisher",
        "concentration",
        "log_normalizer",
        "mean_resultant",
    ],
}
_MODULES = {name: f"resultant.{module}" for module, names in _NAMES.items() for name in names}

__all__ = sorted(["__version__", *_MODULES])  # pyright: ignore[reportUnsupportedDunderAll]

if TYPE_CHECKING:
    # The same for type checkers and editors.
    from resultant.bank import ProCoBank as ProCoBank
    from resultant.bessel import bessel_ratio as bessel_ratio
    from resultant.bessel import bessel_ratio_integral as bessel_ratio_integral
    from resultant.bessel import bessel_ratio_inverse as bessel_ratio_inverse
    from resultant.bessel import log_bessel_i as log_bessel_i
    from resultant.boundaries import displacement as displacement
    from resultant.boundaries import posterior_thresholds as posterior_thresholds
    from resultant.boundaries import short_arc_roots as short_arc_roots
    from resultant.calibration import expected_calibration_error as expected_calibration_error
    from resultant.certificates import certificate as certificate
    from resultant.certificates import disagreement_bound as disagreement_bound
    from resultant.certificates import gradient_bound as gradient_bound
    from resultant.certificates import loss_bound as loss_bound
    from resultant.certificates import margin_change as margin_change
    from resultant.certificates import residual_bound as residual_bound
    from resultant.classes import ClassState as ClassState
    from resultant.classes import ClassStatistics as ClassStatistics
    from resultant.classifier import CosinePrototypeClassifier as CosinePrototypeClassifier
    from resultant.classifier import VMFClassifier as VMFClassifier
    from resultant.expansion import directional_cumulants as directional_cumulants
    from resultant.expansion import fixed_expansion as fixed_expansion
    from resultant.expansion import fixed_terms as fixed_terms
    from resultant.expansion import free_energy_expansion as free_energy_expansion
    from resultant.expansion import joint_expansion as joint_expansion
    from resultant.expansion import joint_terms as joint_terms
    from resultant.expansion import ratio_approximation as ratio_approximation
    from resultant.expansion import ratio_bound as ratio_bound
    from resultant.finite_sample import cross_fit_temperature as cross_fit_temperature
    from resultant.finite_sample import expected_square_resultant as expected_square_resultant
    from resultant.finite_sample import fold_statistics as fold_statistics
    from resultant.finite_sample import leave_one_out_scores as leave_one_out_scores
    from resultant.finite_sample import self_inclusion as self_inclusion
    from resultant.finite_sample import unbiased_square_resultant as unbiased_square_resultant
    from resultant.gain import Realization as Realization
    from resultant.gain import angular_gain as angular_gain
    from resultant.gain import class_scores as class_scores
    from resultant.gain import realize as realize
    from resultant.gain import target_gain as target_gain
    from resultant.gain import target_temperature as target_temperature
    from resultant.geometry import centre_margins as centre_margins
    from resultant.geometry import effective_competitors as effective_competitors
    from resultant.geometry import gradient_coordinates as gradient_coordinates
    from resultant.geometry import gradient_cosines as gradient_cosines
    from resultant.geometry import intercept_gradient_difference as intercept_gradient_difference
    from resultant.geometry import joint_leading as joint_leading
    from resultant.geometry import loss_gradient as loss_gradient
    from resultant.geometry import mean_relative_error as mean_relative_error
    from resultant.geometry import pairwise_margins as pairwise_margins
    from resultant.geometry import stacked_relative_error as stacked_relative_error
    from resultant.losses import LogitAdjustedCrossEntropy as LogitAdjustedCrossEntropy
    from resultant.losses import ProCoLoss as ProCoLoss
    from resultant.pair_selection import select_pairs as select_pairs
    from resultant.population import BinaryModel as BinaryModel
    from resultant.population import projection_variance as projection_variance
    from resultant.population import rate_function as rate_function
    from resultant.propagation import propagate_loss as propagate_loss
    from resultant.propagation import propagate_probabilities as propagate_probabilities
    from resultant.score import Decomposition as Decomposition
    from resultant.score import ambient_gradient as ambient_gradient
    from resultant.score import decompose as decompose
    from resultant.score import tangent_gradient as tangent_gradient
    from resultant.score import vmf_score as vmf_score
    from resultant.score import vmf_score_and_slope as vmf_score_and_slope
    from resultant.score import vmf_score_slope as vmf_score_slope
    from resultant.selection import VMFClassifierCV as VMFClassifierCV
    from resultant.vmf import HypersphericalUniform as HypersphericalUniform
    from resultant.vmf import VonMisesFisher as VonMisesFisher
    from resultant.vmf import concentration as concentration
    from resultant.vmf import log_normalizer as log_normalizer
    from resultant.vmf import mean_resultant as mean_resultant
else:

    def __getattr__(name: str) -> Any:
        from importlib import import_module

        if name in _NAMES:
            # A module, which `import resultant` alone also gives.
            return import_module(f"resultant.{name}")
        if name not in _MODULES:
            raise AttributeError(f"module 'resultant' has no attribute {name!r}")
        value = getattr(import_module(_MODULES[name]), name)
        # From now on an attribute like any other.
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
