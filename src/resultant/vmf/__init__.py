"""The von Mises-Fisher distribution.

Shapes, dtypes and validation follow the conventions of `resultant.special`.
"""

from resultant.vmf.distribution import HypersphericalUniform, VonMisesFisher
from resultant.vmf.estimators import concentration, log_normalizer, mean_resultant

__all__ = [
    "HypersphericalUniform",
    "VonMisesFisher",
    "concentration",
    "log_normalizer",
    "mean_resultant",
]
