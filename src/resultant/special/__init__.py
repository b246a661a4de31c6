"""Bessel functions: the ratio, its inverse, its integral, and log I.

`compiled` is the kernel for CPUs. `debye` holds the expansion, `differences` the ratio, its
derivatives and differences without cancellation, `ratio` the functions with derivatives, `bessel`
the public ones.

Conventions: arguments are tensors or numbers and broadcast; results keep dtype and device, bfloat16
and float16 are computed in float32. An argument outside its stated shape, dtype or range is a
ValueError that names the first bad value. The values of tensors are checked by default on the CPU
only, where the check costs no synchronisation; ``validate_args=True`` checks them on every device,
``validate_args=False`` on none.
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
