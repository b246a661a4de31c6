"""scikit-learn classifiers and mixtures on the unit sphere, one search, and one calibration.

`vmf` and `cross_validated` are the classifiers, on `base` (fits and queries), `inputs` (rows of
users) and `files`. `search` chooses settings on the rows of `validation`; `calibration` makes
probabilities of scores; `em` fits several distributions, as `mixture`. Names load on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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

_MODULES = dict(
    zip(__all__, ("vmf", "vmf", "cross_validated", "mixture", "calibration"), strict=True)
)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    return value
