"""The von Mises-Fisher distribution.

`distribution` is the ``torch.distributions`` class with the charts of its support, `estimators` the
normaliser, the mean resultant length and the estimators of kappa, `angle` its samples, `tails` the
probabilities of projections. Conventions are those of `resultant.special`.
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
