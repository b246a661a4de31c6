"""Classifiers with the interface of scikit-learn, and calibration."""

from resultant.classifiers.calibration import expected_calibration_error
from resultant.classifiers.cross_validated import VMFClassifierCV
from resultant.classifiers.vmf import CosinePrototypeClassifier, VMFClassifier

__all__ = [
    "CosinePrototypeClassifier",
    "VMFClassifier",
    "VMFClassifierCV",
    "expected_calibration_error",
]
