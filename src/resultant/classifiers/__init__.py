"""scikit-learn classifiers and mixtures on the unit sphere, cross-validation, and calibration.

Fitting is one pass of sums (`resultant.classes.statistics`); cross-validation subtracts sums.
Names load on first use: scikit-learn takes a second, and `resultant.analysis` needs only the
modules that do without scikit-learn (`choice`, `left_out`, `components`, `calibration`).

`vmf` and `cross_validated` are the classifiers, on `base`, with `rows`, `fold_scores` and `saving`;
`calibrators` are scikit-learn's calibrations; `mixture` is the mixture, fitted by `em`;
`references` are the classifiers that the advice compares with, fitted by scikit-learn, also in a
process without torch (`reference_process`); `softmax` starts the logistic regression.
"""

from typing import TYPE_CHECKING

from resultant._core.lazy import lazy

if TYPE_CHECKING:
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

__getattr__ = lazy(
    __name__,
    {
        "CosinePrototypeClassifier": "vmf",
        "VMFClassifier": "vmf",
        "VMFClassifierCV": "cross_validated",
        "VMFMixture": "mixture",
        "expected_calibration_error": "calibration",
    },
)
