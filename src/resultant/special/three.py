r"""Differences of :math:`\phi` in three dimensions, in closed form.

At order 1/2, :math:`\phi(x) = \log(\sinh x/x)` up to a constant. The path from one argument to the
other has two legs. On the near one, up to x = `CORNER`, the difference is a divided difference of
the power series in :math:`y = x^2`; on the other

.. math::
    \phi(x_1) - \phi(x_0) = dx + \log\frac{1-e^{-2x_1}}{1-e^{-2x_0}} - \log\frac{x_1}{x_0},

each logarithm by its distance from one. This takes a tenth of the operations of the recurrence.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache

import torch
from torch import Tensor

from resultant.special.debye import economise, horner, log_series, quotient

# Well inside the radius of convergence of the series, pi, and far enough that dx and the logarithm
# of x1/x0 do not cancel.
CORNER = 1.5


def series(eps: float) -> tuple[float, ...]:
    """Return log(sinh(x)/x) on [0, `CORNER`] as a polynomial in (x/CORNER)^2."""
    return _series(eps)


@cache
def _series(eps: float) -> tuple[float, ...]:
    b = [Fraction(1, math.factorial(2 * k + 1)) for k in range(40)]
    square = Fraction(CORNER) ** 2
    scaled = [c * square**k for k, c in enumerate(log_series(b))]
    return tuple(float(c) for c in economise(scaled, eps / 32))


# As in `debye`: a constant to torch.compile.
series._dynamo_marked_constant = True  # type: ignore[attr-defined]


class LowerInThree:
    """The lower end of differences of phi at order 1/2, as `differences.Lower`."""

    def __init__(self, y0: Tensor) -> None:
        self.coefficients = series(torch.finfo(y0.dtype).eps)
        self.y0 = y0
        self.near = y0.clamp_max(CORNER**2)
        self.quotient = quotient(self.coefficients, self.near / CORNER**2)
        self.beyond = y0.clamp_min(CORNER**2)
        self.x0 = self.beyond.sqrt()
        self.rest = -torch.expm1(-2 * self.x0)  # 1 - exp(-2 x0)

    def phi_difference(
        self, y1: Tensor, h: Tensor, *, with_ratio: bool = True
    ) -> tuple[Tensor, Tensor]:
        """Compute ``phi(y1) - phi(y0)`` for ``h = y1 - y0``, and ``r(y1)`` if requested."""
        near, beyond = y1.clamp_max(CORNER**2), y1.clamp_min(CORNER**2)
        # Between the legs only the division of h matters little, not its sum.
        h0 = torch.where(torch.maximum(self.y0, y1) <= CORNER**2, h, near - self.near)
        u1 = near * (1 / CORNER**2)
        phi = horner(self.quotient, u1) * (h0 * (1 / CORNER**2))
        h1, x1 = h - h0, beyond.sqrt()
        dx = h1 / (self.x0 + x1)
        decay = torch.exp(-2 * torch.minimum(self.x0, x1)) * torch.expm1(-2 * dx.abs())
        tail = torch.log1p(decay * -dx.sign() / self.rest)
        # 1 + h/y0 may round to zero.
        ratio = h1 / self.beyond
        log = torch.where(ratio < -0.5, torch.log(beyond / self.beyond), torch.log1p(ratio))
        phi = phi + (dx - (0.5 * log - tail))
        if not with_ratio:
            return phi, x1
        inner = horner([k * c for k, c in enumerate(self.coefficients)][1:], u1)
        w = x1.reciprocal()
        outer = w * ((1 - w) + 2 / torch.expm1(2 * x1))
        return phi, torch.where(y1 < CORNER**2, inner * (2 / CORNER**2), outer)
