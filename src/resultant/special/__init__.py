"""Bessel functions: the ratio, its inverse, its integral, and log I.

`compiled` is the kernel for CPUs, `debye` the expansion, `differences` the ratio, its derivatives
and differences without cancellation, `ratio` the functions with derivatives, `bessel` the public.

Conventions: arguments are tensors or numbers and broadcast; results keep dtype and device, bfloat16
and float16 are computed in float32. An argument outside its stated shape, dtype or range is a
ValueError that names the first bad value. Values of tensors are checked by default on the CPU only,
where that costs no synchronisation, with ``validate_args=True`` everywhere, with ``False`` nowhere.
"""

from resultant.special.bessel import (
    bessel_ratio as bessel_ratio,
    bessel_ratio_integral as bessel_ratio_integral,
    bessel_ratio_inverse as bessel_ratio_inverse,
    log_bessel_i as log_bessel_i,
    log_bessel_ie as log_bessel_ie,
)
