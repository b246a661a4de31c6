"""The score as a differentiable function: values with hand-written derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from resultant._core.autograd import elementwise, is_constant
from resultant.score._backends import Tilt, evaluate
from resultant.special.debye import expansion, two_product
from resultant.special.differences import (
    inner_ratio,
    inner_ratio_difference,
    phi_second_difference,
    ratio_difference,
    unshifted_if_large,
)
from resultant.special.ratio import inner, ratio, ratio_slope, ratio_slope_step


def _score_value(rho: Tensor, kappa: Tensor, tau: Tensor, p: int) -> Tensor:
    return evaluate(rho, kappa, tau, p, slope=False)[0]


class _Tilted:
    r"""Quantities of the tilted end that derivatives share; each differentiable."""

    def __init__(self, rho: Tensor, kappa: Tensor, tau: Tensor, p: int) -> None:
        rho = rho.clamp(-1, 1)
        tilt = Tilt(kappa, tau)
        self.nu, self.rho, self.kappa, self.t = p / 2 - 1, rho, kappa, tilt.t
        self.y0, self.y1, self.h = tilt.y0, tilt.y1(rho), tilt.h(rho)
        self.scale = kappa * tilt.t
        self.sine = (1 - rho) * (1 + rho)  # squared
        # kappa + t rho and t + kappa rho, which cancel near rho = -1.
        product, lost = two_product(tilt.t, rho)
        self.along = (kappa + product) + (lost + tilt.t_rest * rho)
        product, lost = two_product(kappa, rho)
        self.towards = (tilt.t + product) + (lost + tilt.t_rest)

    def r(self, n: int = 0) -> Tensor:
        r"""Compute :math:`R(\tilde\kappa)/\tilde\kappa`, or its n-th derivative D."""
        return inner(self.nu, self.y1, n)

    def ratio_slope(self) -> Tensor:
        r"""Compute :math:`R'(\tilde\kappa)`."""
        return ratio_slope(self.nu, self.y1)

    def ratio_slope_step(self) -> Tensor:
        r"""Compute :math:`R'(\tilde\kappa) - R'(\kappa)`."""
        return ratio_slope_step(self.nu, self.y0, self.y1, self.h.detach())


def _partial(second: Callable[[_Tilted], Tensor], in_tau: bool = False) -> Callable[..., Tensor]:
    """Make a function of (rho, kappa, tau, p), or of the derivative in t the one in tau."""

    def partial(rho: Tensor, kappa: Tensor, tau: Tensor, p: int) -> Tensor:
        value = second(_Tilted(rho, kappa, tau, p))
        return value / -(tau * tau) if in_tau else value

    return partial


# Second derivatives of q. With r and d = D r < 0 at the tilted end, each is a sum of
# R' = r + y1 d > 0 and a multiple of d: written with r, they would cancel. Each mixed derivative is
# one function in either order, so that Hessians are symmetric to the last bit. `SECONDS` are those
# of the slope, in rho, kappa and tau.
SECONDS = (
    _partial(lambda a: a.scale * (a.scale * a.r(1))),
    _partial(lambda a: a.t * (a.ratio_slope() - a.t * (a.towards * a.r(1)))),
    _partial(lambda a: a.kappa * (a.ratio_slope() - a.kappa * (a.along * a.r(1))), in_tau=True),
)
_kappa_kappa = _partial(lambda a: a.ratio_slope_step() - a.t * (a.t * (a.sine * a.r(1))))
_kappa_tau = _partial(lambda a: a.rho * a.ratio_slope() + a.scale * (a.sine * a.r(1)), in_tau=True)


def _tau_tau(rho: Tensor, kappa: Tensor, tau: Tensor, p: int) -> Tensor:
    a = _Tilted(rho, kappa, tau, p)
    in_t = a.ratio_slope() - a.kappa * (a.kappa * (a.sine * a.r(1)))
    return a.t * a.t * a.t * (a.t * in_t + 2 * a.towards * a.r())


def _concentration_value(rho: Tensor, kappa: Tensor, tau: Tensor, p: int) -> Tensor:
    """Compute dq/dkappa by one of two sums, with the difference of the ratios or of r: that with
    the smaller terms; where squares underflow, the second, in which nothing cancels there."""
    a = _Tilted(rho, kappa, tau, p)
    e, x1, tiny = expansion(a.nu, rho.dtype), a.y1.sqrt(), torch.finfo(rho.dtype).tiny
    side = a.t * (a.t * a.sine) / (x1 + a.along.abs()).clamp_min(tiny)
    r1 = inner_ratio(e, a.y1)
    turn = r1 * torch.where(a.along >= 0, side, x1 - a.along)
    low = torch.minimum(a.y0, a.y1)
    change = unshifted_if_large(lambda e: ratio_difference(e, kappa, x1, a.h), e, low)
    lead, rest = a.t * a.rho * r1, kappa * inner_ratio_difference(e, a.y0, a.y1, a.h)
    small = (lead.abs() + rest.abs() < change.abs() + turn) | (a.y0 + a.y1 < 1e-30)
    return torch.where(small, lead + rest, change - turn)


_concentration_slope = elementwise(_concentration_value, SECONDS[1], _kappa_kappa, _kappa_tau, None)


def _temperature_value(rho: Tensor, kappa: Tensor, tau: Tensor, p: int) -> Tensor:
    a = _Tilted(rho, kappa, tau, p)
    return -(a.t * a.t) * a.towards * a.r()


_temperature_slope = elementwise(_temperature_value, SECONDS[2], _kappa_tau, _tau_tau, None)


def _slope_value(rho: Tensor, kappa: Tensor, tau: Tensor, p: int) -> Tensor:
    return evaluate(rho, kappa, tau, p, slope=True)[1]


slope = elementwise(_slope_value, *SECONDS, None)

score = elementwise(_score_value, slope, _concentration_slope, _temperature_slope, None)


def score_and_slope(*arguments: Any) -> tuple[Tensor, Tensor]:
    """Compute the score and its slope of (rho, kappa, tau, p), differentiable in all tensors."""
    if is_constant(*arguments):
        q, along = evaluate(*arguments, slope=True)
        return q, along
    return score(*arguments), slope(*arguments)


def _excess_value(rho: Tensor, kappa: Tensor, tau: Tensor, p: int) -> Tensor:
    """Compute slope - gain from the difference of the inner ratios."""
    a = _Tilted(rho, kappa, tau, p)
    return a.scale * inner_ratio_difference(expansion(a.nu, rho.dtype), a.y0, a.y1, a.h)


_excess = elementwise(
    _excess_value,
    SECONDS[0],
    lambda rho, kappa, tau, p: SECONDS[1](rho, kappa, tau, p) - ratio(p / 2 - 1, kappa, 1) / tau,
    lambda rho, kappa, tau, p: (
        SECONDS[2](rho, kappa, tau, p) + ratio(p / 2 - 1, kappa, 0) / (tau * tau)
    ),
    None,
)


def _remainder_value(rho: Tensor, kappa: Tensor, tau: Tensor, p: int) -> Tensor:
    rho = rho.clamp(-1, 1)
    tilt = Tilt(kappa, tau)
    e = expansion(p / 2 - 1, rho.dtype)
    middle = tilt.y0 + tilt.t_squared  # the tilted square at rho = 0
    bend = phi_second_difference(e, middle, tilt.y1(rho), tilt.two_kappa_t * rho)
    shift = inner_ratio_difference(e, tilt.y0, middle, tilt.t_squared)
    return 0.5 * tilt.two_kappa_t * rho * shift + bend


remainder = elementwise(
    _remainder_value,
    _excess,
    lambda rho, kappa, tau, p: (
        _concentration_slope(rho, kappa, tau, p)
        - _concentration_slope(torch.zeros_like(rho), kappa, tau, p)
        - rho / tau * ratio(p / 2 - 1, kappa, 1)
    ),
    lambda rho, kappa, tau, p: (
        _temperature_slope(rho, kappa, tau, p)
        - _temperature_slope(torch.zeros_like(rho), kappa, tau, p)
        + rho / (tau * tau) * ratio(p / 2 - 1, kappa, 0)
    ),
    None,
)
