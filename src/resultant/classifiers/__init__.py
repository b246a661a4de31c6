"""scikit-learn classifiers on the unit sphere, their cross-validation, and calibration.

Fitting is one pass of sums (`resultant.classes.statistics`); cross-validation subtracts sums.
"""

from resultant.classifiers.calibration import expected_calibration_error
from resultant.classifiers.cross_validated import VMFClassifierCV
from resultant.classifiers.vmf import CosinePrototypeClassifier, VMFClassifier

__all__ = [
    "CosinePrototypeClassifier",
    "VMFClassifier",
    "VMFClassifierCV",
    "expected_calibration_error",
]
