"""The von Mises-Fisher distribution.

`distribution` is the ``torch.distributions`` class with the charts of its support, `estimators` the
normaliser, the mean resultant length and the estimators of kappa, `angle` its samples, `tails` tail
probabilities. Conventions are those of `resultant.special`.
"""

from resultant.vmf.distribution import (
    HypersphericalUniform as HypersphericalUniform,
    VonMisesFisher as VonMisesFisher,
)
from resultant.vmf.estimators import (
    concentration as concentration,
    log_normalizer as log_normalizer,
    mean_resultant as mean_resultant,
)
