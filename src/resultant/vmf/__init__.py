"""The von Mises-Fisher distribution.

`distribution` is the ``torch.distributions`` class, `estimators` the normaliser, the mean resultant
length and the estimators of kappa, `angle` its samples, `tails` the probabilities of projections,
`transforms` the charts of the sphere for unconstrained parameters.

Conventions: arguments are tensors or numbers and broadcast; results keep dtype and device, bfloat16
and float16 are computed in float32. An argument outside its stated shape, dtype or range is a
ValueError that names the first bad value. The values of tensors are checked by default on the CPU
only, where the check costs no synchronisation; ``validate_args=True`` checks them on every device,
``validate_args=False`` on none.
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
