r"""The score as one polynomial in rho per class, in Triton's language.

The method is that of `_polynomial`: the Chebyshev series of the slope, integrated from q(0). The
degree is fixed, since the values of kappa and tau are on the device; classes that it does not
suffice for are scored by the exact form.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportIndexIssue=false
# pyright: reportAttributeAccessIssue=false, reportGeneralTypeIssues=false
# pyright: reportOperatorIssue=false, reportAssignmentType=false
# Triton's language is Python only in its syntax.

from __future__ import annotations

import math
from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl

from resultant.score._polynomial import precision, transforms
from resultant.score.kernel import clamp, constants, difference, ratio_at, ratio_difference

# Degree of the slope for orders from LARGE on, and below. It suffices where
# (nu^2 + kappa^2 + t^2)/(2 kappa t) is at least about 23, and about four.
DEGREES = {torch.float32: (6, 11), torch.float64: (11, 20)}
LARGE = 200
NO_POLYNOMIAL = 0.0, (), (), ()


@triton.jit
def _sum(a, b):
    """a + b and its rounding error."""
    s = a + b
    z = s - a
    return s, (a - (s - z)) + (b - z)


@triton.jit
def _slope_at_zero(kappa, tau, A: tl.constexpr, HALF: tl.constexpr):
    """kappa t r at rho = 0, the rounding errors of all steps included: nearly the whole slope."""
    one = tl.full(tau.shape, 1.0, tau.dtype)
    order = A * one
    t = 1 / tau
    t_rest = tl.fma(-tau, t, one) * t
    y0, y0_rest = kappa * kappa, tl.fma(kappa, kappa, -kappa * kappa)
    square, square_rest = t * t, tl.fma(t, t, -t * t) + 2 * t * t_rest
    partial, rest = _sum(y0, square)
    total, more = _sum(order * order, partial)
    rest += more + y0_rest + square_rest + tl.fma(order, order, -order * order)
    s, w, g, r = ratio_at(total + rest, A, HALF)
    s_rest = (tl.fma(-s, s, total) + rest) * (0.5 * w)
    sum1, sum1_rest = _sum(order, s)
    g_rest = g * (tl.fma(-g, sum1, one) - g * (sum1_rest + s_rest))
    small = g_rest + (r - g)
    r = g + small
    r_rest = small - (r - g)
    scale = kappa * t
    scale_rest = tl.fma(kappa, t, -scale) + kappa * t_rest
    return tl.fma(scale, r, scale * r_rest + scale_rest * r)


@triton.jit
def fit_polynomial(
    kappa, tau, twice, least, square, y0, s0, w0, g0, scale,
    POINTS: tl.constexpr, TO_CHEBYSHEV: tl.constexpr, TO_POWERS: tl.constexpr,
    A: tl.constexpr, STEPS: tl.constexpr, LOG: tl.constexpr, HALF: tl.constexpr, P: tl.constexpr,
):  # fmt: skip
    """Coefficients of 1, rho, rho^2, ... of the score of each class, each [1, BLOCK]."""
    N: tl.constexpr = len(POINTS)
    zero = tl.zeros_like(kappa)
    at_zero, _ = difference(
        zero, twice, least, square, y0, s0, w0, g0, A, STEPS, LOG, HALF, P, False, False
    )
    # The slopes less the slope at zero: their errors are those of a small part of the slope.
    middle = ratio_at(y0 + square + A * A, A, HALF)
    slopes = ()
    for i in tl.static_range(N):
        y = least + twice * (1 + POINTS[i])
        r = ratio_difference(y + A * A, twice * POINTS[i], middle, A, HALF)
        slopes = slopes + (scale * r,)
    chebyshev = ()
    for k in tl.static_range(N):
        total = zero
        for i in tl.static_range(N):
            total += TO_CHEBYSHEV[k * N + i] * slopes[i]
        chebyshev = chebyshev + (total,)
    coefficients = (at_zero[None, :],)
    for j in tl.static_range(N):
        total = zero
        for k in tl.static_range(j, N, 2):
            total += TO_POWERS[j * N + k] * chebyshev[k]
        if j == 0:
            total += _slope_at_zero(kappa, tau, A, HALF)
        coefficients = coefficients + (total[None, :],)
    return coefficients


@triton.jit
def evaluate_polynomial(coefficients, rho, N: tl.constexpr, SLOPE: tl.constexpr):
    """Score and slope at rho by Horner's rule, from N + 1 coefficients."""
    rho = clamp(rho)
    q = coefficients[N]
    slope = q
    for k in tl.static_range(N - 1, 0, -1):
        q = q * rho + coefficients[k]
        if SLOPE:
            slope = slope * rho + q
    return q * rho + coefficients[0], slope


@cache
def polynomial(p: int, dtype: torch.dtype) -> tuple[Any, ...]:
    """Return the constants of polynomials for the dimension p: where they suffice, the nodes, and
    the matrices from slopes at the nodes to a Chebyshev series, and to powers of rho in the score.

    None for small orders, where polynomials rarely suffice.
    """
    if constants(p, dtype)["STEPS"]:
        return NO_POLYNOMIAL
    degree = DEGREES[dtype][p / 2 - 1 < LARGE]
    nodes, to_chebyshev, to_powers = transforms(degree)
    to_powers = to_powers / torch.arange(1, degree + 2, dtype=torch.float64).unsqueeze(1)
    matrices = (tuple(a.flatten().tolist()) for a in (nodes, to_chebyshev, to_powers))
    return math.cosh(precision(dtype) / degree), *matrices
