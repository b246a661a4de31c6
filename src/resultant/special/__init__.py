"""Bessel functions: the ratio, its inverse, log I, and their differences."""

from resultant.special.bessel import (
    bessel_ratio,
    bessel_ratio_integral,
    bessel_ratio_inverse,
    log_bessel_i,
)

__all__ = ["bessel_ratio", "bessel_ratio_integral", "bessel_ratio_inverse", "log_bessel_i"]
