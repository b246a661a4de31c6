"""The difference form of the score in Triton's language, for the kernels of several folders.

The same stands in torch in `resultant.special.differences.phi_difference` and in C in
`special/_kernel.h`: change all three. Importing this module needs Triton.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportIndexIssue=false
# pyright: reportAttributeAccessIssue=false, reportGeneralTypeIssues=false
# pyright: reportOperatorIssue=false, reportOptionalMemberAccess=false
# pyright: reportRedeclaration=false, reportPossiblyUnboundVariable=false
# Triton's language is Python only in its syntax.

from __future__ import annotations

import os
from functools import cache
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.polynomial import Chebyshev, Polynomial
from triton.language.extra import libdevice

from resultant.special.debye import expansion

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


@triton.jit
def _horner(COEFFICIENTS: tl.constexpr, u):
    total = tl.full(u.shape, COEFFICIENTS[len(COEFFICIENTS) - 1], u.dtype)
    for i in tl.static_range(len(COEFFICIENTS) - 2, -1, -1):
        total = total * u + COEFFICIENTS[i]
    return total


@triton.jit
def _divided_difference(COEFFICIENTS: tl.constexpr, u0, u1):
    partial = tl.full(u0.shape, COEFFICIENTS[len(COEFFICIENTS) - 1], u0.dtype)
    total = partial
    for i in tl.static_range(len(COEFFICIENTS) - 2, 0, -1):
        partial = partial * u0 + COEFFICIENTS[i]
        total = total * u1 + partial
    return total


# log(1 + f) = f + f^2 P(f) on [-1/4, 1/2], to float32.
_P = Chebyshev.interpolate(lambda f: (np.log1p(f) - f) / (f * f), 8, domain=[-0.25, 0.5])
LOG1P = tuple(float(c) for c in _P.convert(kind=Polynomial))


@triton.jit
def _log1p_single(x, P: tl.constexpr):
    """log(1 + x) for float32: the exponent k of 1 + x, and a polynomial in (1 + x)/2^k - 1."""
    k = (((1 + x).to(tl.int32, bitcast=True) - 0x3F400000) >> 23) << 23
    f = (x.to(tl.int32, bitcast=True) - k).to(tl.float32, bitcast=True)
    f += 0.25 * (0x40800000 - k).to(tl.float32, bitcast=True) - 1
    return f + f * f * _horner(P, f) + k.to(tl.float32) * 8.262958294867817e-08  # log(2) / 2^23


if INTERPRETED:  # libdevice and inline assembly are device code

    @triton.jit
    def _log1p_double(x):
        u = 1 + x
        return tl.where(u == 1, x, tl.log(u) * (x / tl.where(u == 1, 1.0, u - 1)))

    @triton.jit
    def _reciprocal(x):
        return 1 / x

    @triton.jit
    def _roots(x):
        s = tl.sqrt(x)
        return s, 1 / s
else:

    @triton.jit
    def _log1p_double(x):
        return libdevice.log1p(x)

    # For float32 one approximate instruction and one step of Newton.

    @triton.jit
    def _reciprocal(x):
        if x.dtype == tl.float32:
            r = tl.inline_asm_elementwise(
                "rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], tl.float32, is_pure=True, pack=1
            )
            return r + r * (1 - x * r)
        else:
            return 1 / x

    @triton.jit
    def _roots(x):
        if x.dtype == tl.float32:
            w = tl.inline_asm_elementwise(
                "rsqrt.approx.ftz.f32 $0, $1;", "=f,f", [x], tl.float32, is_pure=True, pack=1
            )
            s = x * w
            return s + 0.5 * w * (x - s * s), w
        else:
            s = tl.sqrt(x)
            return s, 1 / s


@triton.jit
def _log1p(x, P: tl.constexpr, SMALL: tl.constexpr):
    if x.dtype != tl.float32:
        return _log1p_double(x)
    elif SMALL:
        return x + x * x * _horner(P, x)
    else:
        return _log1p_single(x, P)


@triton.jit
def _log1p_minus(x, P: tl.constexpr, SMALL: tl.constexpr):
    """log(1 + x) - x."""
    if (x.dtype == tl.float32) and SMALL:
        return x * x * _horner(P, x)
    else:
        return _log1p(x, P, SMALL) - x


@triton.jit
def clamp(rho):
    """rho in [-1, 1]; NaN stays NaN. Not `tl.clamp`, which has no code for these bounds in
    float64."""
    low = tl.maximum(rho, -1.0, propagate_nan=tl.PropagateNan.ALL)
    return tl.minimum(low, 1.0, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def difference(
    rho, two_kappa_t, gap_squared, t_squared, y0, s0, w0, g0,
    A: tl.constexpr, STEPS: tl.constexpr, LOG: tl.constexpr, HALF: tl.constexpr, P: tl.constexpr,
    RATIO: tl.constexpr, SMALL: tl.constexpr,
):  # fmt: skip
    """q, and r at the tilted end if RATIO; SMALL promises -1/4 <= ds/s0 <= 1/2."""
    rho = clamp(rho)
    y1 = gap_squared + two_kappa_t * (1 + rho)
    h = t_squared + two_kappa_t * rho
    s1, w1 = _roots(y1 + A * A)
    u0 = A * w0
    u1 = A * w1
    sum0 = s0 + s1
    sum1 = s1 + A
    both = _reciprocal(sum0 * sum1)
    ds = h * (sum1 * both)
    ds += (sum1 * both) * tl.fma(-ds, sum0, h)  # the rounding of the quotient, in full
    # The other terms first, so that the largest is rounded into the result once.
    small = 0.5 * _log1p(ds * w0, P, SMALL) + ds * u1 * w0 * _divided_difference(LOG, u0, u1)
    # ds - A log(1 + x) with x = ds g0, in two parts: a factor A would scale an underflow of x.
    q = ds * (s0 * g0) - (A * _log1p_minus(ds * g0, P, SMALL) + small)
    r1 = q
    if RATIO or len(STEPS) > 0:
        g1 = sum0 * both
        r1 = g1 - _horner(HALF, u1) * w1 * w1
    if len(STEPS) > 0:
        half = _horner(HALF, u0)
        r0 = g0 - half * w0 * w0
        de = -u0 * ds * w1 * _divided_difference(HALF, u0, u1)
        dr = w1 * w1 * (half * h * w0 * w0 - de) - ds * g0 * g1
        excess = tl.zeros_like(q)
        product = tl.full(q.shape, 1.0, q.dtype)
        for j in tl.static_range(len(STEPS)):
            f0 = STEPS[j] + y0 * r0
            # The errors of dr times the larger y would grow with every step.
            df = h * tl.where(h < 0, r0, r1) + tl.where(h < 0, y1, y0) * dr
            r0 = 1 / f0
            r1 = 1 / (STEPS[j] + y1 * r1)
            growth = -df * r1
            dr = growth * r0
            excess = excess + growth + excess * growth
            product = product * (f0 * r1)
            if (j % 4 == 3) or (j == len(STEPS) - 1):
                near = (excess > -0.5) & (excess < 3.0)
                close = _log1p(tl.where(near, excess, 0.0), P, False)
                q -= tl.where(near, close, tl.log(product))
                excess = tl.zeros_like(q)
                product = tl.full(q.shape, 1.0, q.dtype)
    return q, r1


@triton.jit
def tilt(kappa, tau, A: tl.constexpr):
    """Terms of the classes in `difference`, the factor of the slope, and whether the tilt changes
    s so little that SMALL holds."""
    # t + t_rest is 1/tau to twice the precision.
    t = 1 / tau
    t_rest = tl.fma(-tau, t, tl.full(tau.shape, 1.0, tau.dtype)) * t
    two_kappa_t = 2 * tl.fma(kappa, t, kappa * t_rest)
    gap = (kappa - t) - t_rest
    t_squared = tl.fma(t, t, 2 * t * t_rest)
    gap_squared, y0, scale = gap * gap, kappa * kappa, 0.5 * two_kappa_t
    s0, w0 = _roots(y0 + A * A)
    g0 = 1 / (s0 + A)
    lower, upper = 0.5625 * (y0 + A * A), 2.25 * (y0 + A * A)
    steady = (y0 + t_squared + two_kappa_t + A * A <= upper) & (gap_squared + A * A >= lower)
    return two_kappa_t, gap_squared, t_squared, y0, s0, w0, g0, scale, steady


@cache
def constants(p: int, dtype: torch.dtype) -> dict[str, Any]:
    e = expansion(p / 2 - 1, dtype)
    polynomials = {"LOG": e.coefficients, "HALF": (0.5, *e.weighted(1)[1:]), "P": LOG1P}
    return {"A": e.order, "STEPS": tuple(e.steps()), **polynomials}
