"""Bessel functions: the ratio, its inverse, its integral, and log I.

`debye` holds the expansion, `slopes` the ratio and its derivatives at one argument, `differences`
their differences without cancellation, `bessel` the public functions with derivatives.
"""

from resultant.special.bessel import (
    bessel_ratio,
    bessel_ratio_integral,
    bessel_ratio_inverse,
    log_bessel_i,
    log_bessel_ie,
)

__all__ = [
    "bessel_ratio",
    "bessel_ratio_integral",
    "bessel_ratio_inverse",
    "log_bessel_i",
    "log_bessel_ie",
]
