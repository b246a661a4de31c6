"""The von Mises-Fisher distribution, its normaliser, estimators of kappa, tails of projections."""

from resultant.vmf.distribution import (
    HypersphericalUniform,
    VonMisesFisher,
    concentration,
    log_normalizer,
    mean_resultant,
)

__all__ = [
    "HypersphericalUniform",
    "VonMisesFisher",
    "concentration",
    "log_normalizer",
    "mean_resultant",
]
