"""scikit-learn classifiers and mixtures on the unit sphere, cross-validation, and calibration.

Fitting is one pass of sums (`resultant.classes.statistics`); cross-validation subtracts sums.
"""

from resultant.classifiers.calibration import expected_calibration_error
from resultant.classifiers.cross_validated import VMFClassifierCV
from resultant.classifiers.mixture import VMFMixture
from resultant.classifiers.vmf import CosinePrototypeClassifier, VMFClassifier

__all__ = [
    "CosinePrototypeClassifier",
    "VMFClassifier",
    "VMFClassifierCV",
    "VMFMixture",
    "expected_calibration_error",
]
