"""Bessel functions: the ratio, its inverse, its integral, and log I.

`compiled` is the kernel for CPUs. `debye` holds the expansion, `slopes` the ratio and its
derivatives at one argument, `differences` their differences without cancellation, `ratio` and
`log_i` the functions with derivatives, `bessel` the public ones.
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
