r"""The logarithm of the Debye expansion of :math:`I_\nu`, as polynomials.

With :math:`s=\sqrt{\nu^2+x^2}` and :math:`u=\nu/s`,

.. math::
    \log I_\nu(x) - \nu\log x = s - \nu\log(\nu+s) - \tfrac12\log(2\pi s) + L,
    \qquad L = \sum_{k\ge1} D_k(u)\,\nu^{-k}.

This is (1) of docs/explanation/bessel.md, whose numbers stand in comments of this folder.

For a fixed order :math:`L` is one polynomial in :math:`u` on [0, 1], from exact rationals, without
the terms of its Chebyshev series below the precision. An order too small for the expansion is
shifted up (``shift``); the caller comes down again by the recurrence of the Bessel ratio.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, reduce
from typing import Any

import numpy as np
import torch
from numpy.polynomial import Chebyshev, Polynomial
from numpy.polynomial.chebyshev import chebval
from torch import Tensor

from resultant._core.modes import constant
from resultant._core.validation import Number

MAX_TERMS = 14
# 2**ceil(digits/2) + 1 cuts a significand in two halves whose products are exact (Dekker 1971).
SPLITTER = {torch.float64: 134217729.0, torch.float32: 4097.0}


@cache
def _debye(k: int) -> Polynomial:
    """Return V_k of ``U_k(u) = u**k V_k(u**2)`` of DLMF 10.41.9, by (2)."""
    if k == 0:
        return Polynomial([Fraction(1)])
    terms = [(c, k - 1 + 2 * i) for i, c in enumerate(_debye(k - 1).coef)]
    low = [c * (Fraction(m, 2) + Fraction(1, 8 * (m + 1))) for c, m in terms]
    high = [c * (Fraction(m, 2) + Fraction(5, 8 * (m + 3))) for c, m in terms]
    return Polynomial([*low, 0]) - Polynomial([0, *high])


@cache
def _log_debye(k: int) -> Polynomial:
    """Return W_k of ``D_k(u) = u**k W_k(u**2)``, by (3)."""
    rest = sum((j * _log_debye(j) * _debye(k - j) for j in range(1, k)), 0 * _debye(k))
    return _debye(k) - rest / k


def _terms(count: int) -> list[tuple[int, int, Fraction]]:
    """Return (k, m, c) for the terms c u**m of D_k, k = 1 .. count."""
    orders = range(1, count + 1)
    return [(k, k + 2 * i, c) for k in orders for i, c in enumerate(_log_debye(k).coef)]


@cache
def _next_term_size(terms: int) -> float:
    """Return the largest ``|u D_k'(u)|`` on [0, 1] of the first omitted term, k = terms + 1."""
    u = np.linspace(0, 1, 201)
    rest = [m * float(c) * u**m for k, m, c in _terms(terms + 1) if k > terms]
    return float(np.abs(sum(rest)).max())


def smallest_order(dtype: torch.dtype) -> float:
    """Return the smallest order at which `MAX_TERMS` terms reach the precision of `terms_for`."""
    # Written out: torch.compile may turn a table lookup into a symbol.
    return 24.0 if dtype == torch.float64 else 12.0


def terms_for(order: float, eps: float) -> int:
    """Return the number of terms for a relative error below ``eps / 4`` in the Bessel ratio."""
    for terms in range(1, MAX_TERMS):
        if 2 * _next_term_size(terms) / order ** (terms + 2) < eps / 4:
            return terms
    return MAX_TERMS


@dataclass(frozen=True, eq=False)
class LogDebye:
    """The expansion at the order ``nu + shift``, as a polynomial in ``scale/s``, which is u except
    in `unshifted`; coefficients are numbers or tensors as nu is."""

    nu: Number
    shift: int
    scale: Number
    coefficients: tuple[Number, ...]

    @property
    def order(self) -> Number:
        return self.nu + self.shift

    def weighted(self, power: int) -> list[Number]:
        r"""The coefficients of :math:`(u\,d/du)^{power} L`."""
        return [m**power * c for m, c in enumerate(self.coefficients)]

    def steps(self) -> list[Number]:
        """The factors ``2 j`` of ``r_{j-1} = 1/(2 j + x^2 r_j)`` from the shifted order down."""
        return [2 * (self.nu + j) for j in range(self.shift, 0, -1)]


def expansion(nu: float, dtype: torch.dtype, *, absolute: bool = False) -> LogDebye:
    """Return the expansion for every x, right to the Bessel ratio; if ``absolute``, also to L."""
    shift = math.ceil(max(smallest_order(dtype) - nu, 0))
    return _expansion(nu, shift, nu + shift, dtype, absolute)


def unshifted(e: LogDebye, dtype: torch.dtype) -> LogDebye:
    """Return the expansion at ``e.nu`` itself, for s from `unshifted_from` on."""
    return _expansion(e.nu, 0, smallest_order(dtype), dtype)


def raised(e: LogDebye, dtype: torch.dtype) -> LogDebye:
    """Return the expansion one order above, or one with steps itself, for (28)."""
    return e if e.shift else _expansion(e.nu, 1, e.scale + 1, dtype)


def unshifted_from(dtype: torch.dtype) -> float:
    """Return the s from which on the expansion at any order nu needs no shift."""
    return 1.5 * smallest_order(dtype)


def by_order(
    nu: Number, dtype: torch.dtype, compute: Callable[[LogDebye], Any], *, absolute: bool = False
) -> tuple[Tensor, ...]:
    """Compute from the expansion at ``nu``; for a tensor of orders, small ones are shifted, and
    large ones are not: a large order plus a shift would be rounded."""
    if not isinstance(nu, Tensor):
        return compute(expansion(nu, dtype, absolute=absolute))
    smallest = smallest_order(dtype)
    small, large, shift = nu.clamp_max(smallest), nu.clamp_min(smallest), math.ceil(smallest)
    shifted = compute(_expansion(small, shift, small + shift, dtype))
    direct = compute(_expansion(large, 0, large, dtype))
    return tuple(torch.where(nu < smallest, a, b) for a, b in zip(shifted, direct, strict=True))


def _expansion(
    nu: Number, shift: int, scale: Number, dtype: torch.dtype, absolute: bool = False
) -> LogDebye:
    eps = torch.finfo(dtype).eps
    order = nu + shift
    if not isinstance(order, Tensor) and not isinstance(scale, Tensor):
        eps = eps / scale if absolute else eps
        return LogDebye(nu, shift, scale, coefficients_at(order, scale, eps))
    ratio = order / scale
    columns = enumerate(columns_at(smallest_order(dtype), eps), 1)
    coefficients = (
        sum(c * ratio ** (m - k) / scale**k for k, c in enumerate(column, 1) if c)
        for m, column in columns
    )
    return LogDebye(nu, shift, scale, (0.0, *coefficients))


@constant
def coefficients_at(order: float, scale: float, eps: float) -> tuple[float, ...]:
    """Return the economised coefficients of L as a polynomial in scale/s, for one order."""
    count, a, b = terms_for(scale, eps), Fraction(order), Fraction(scale)
    polynomial = [Fraction(0)] * (3 * count + 1)
    for k, m, c in _terms(count):
        polynomial[m] += c * a ** (m - k) / b**m
    # In `unshifted` derivatives are used on their own; otherwise r is of the size of 1/scale.
    tolerance = scale * eps / 8 if scale == order else eps / 1024
    return _economise(polynomial, tolerance)


@constant
def columns_at(order: float, eps: float) -> tuple[tuple[float, ...], ...]:
    """Return for u, u^2, ... the coefficients in D_1, D_2, ..., enough for this order and above."""
    count = terms_for(order, eps)
    table = np.zeros((3 * count, count))
    for k, m, c in _terms(count):
        table[m - 1, k - 1] = float(c)
    return tuple(tuple(row) for row in table.tolist())


def _economise(polynomial: Sequence[Fraction], tolerance: float) -> tuple[float, ...]:
    """Drop the Chebyshev terms on [0, 1] that move ``u P'(u)`` by less than ``tolerance``."""
    u, zero = Chebyshev([Fraction(1, 2), Fraction(1, 2)]), Chebyshev([Fraction(0)])
    chebyshev = reduce(lambda total, c: u * total + c, reversed(polynomial), zero).coef
    degree, dropped = len(chebyshev) - 1, 0.0
    while degree > 1:
        dropped += 2 * degree**2 * abs(float(chebyshev[degree]))  # |T_n'| <= 2 n^2
        if dropped > tolerance:
            break
        degree -= 1
    result: Any = chebval(Polynomial([Fraction(-1), Fraction(2)]), chebyshev[: degree + 1])
    return tuple(float(c) for c in result.coef)


def horner(coefficients: Sequence[Number], u: Tensor) -> Tensor:
    """Evaluate the polynomial at ``u``."""
    total = as_tensor(coefficients[-1], u)
    for c in reversed(coefficients[:-1]):
        total = torch.addcmul(as_tensor(c, u), total, u)
    return total


def divided_difference(coefficients: Sequence[Number], u0: Tensor, u1: Tensor) -> Tensor:
    """Compute ``(P(u1) - P(u0)) / (u1 - u0)`` without a subtraction; P' at u1 = u0."""
    partials = [as_tensor(coefficients[-1], u0)]
    for c in reversed(coefficients[1:-1]):
        partials.append(torch.addcmul(as_tensor(c, u0), partials[-1], u0))
    return horner(partials[::-1], u1)


def as_tensor(c: Number, like: Tensor) -> Tensor:
    """Return a coefficient as a tensor of the dtype and device of ``like``."""
    return c if isinstance(c, Tensor) else torch.full((), c, dtype=like.dtype, device=like.device)


def upper(a: Tensor) -> Tensor:
    """Return the upper half of the digits, whose products are exact."""
    scaled = a * SPLITTER[a.dtype]
    return scaled - (scaled - a)


def less_square(y: Tensor, x: Tensor) -> Tensor:
    """Compute ``y - x^2`` for y near x^2, without the rounding of the square."""
    h = upper(x)
    return (y - h * h) - (x - h) * (x + h)


def two_product(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``(p, e)``: the rounded product ``p``, and ``p + e`` the exact product."""
    p, a1, b1 = a * b, upper(a), upper(b)
    a2, b2 = a - a1, b - b1
    return p, ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2
