"""The score as a differentiable function: values with hand-written derivatives."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from resultant._core.autograd import elementwise, opaque
from resultant._core.modes import is_constant
from resultant.score._backends import Tilt, evaluate
from resultant.special import differences
from resultant.special.debye import expansion, two_product
from resultant.special.differences import RatioSlopes, inner_ratio_difference
from resultant.special.ratio import inner, ratio, slope_step, slopes


class Tilted(Tilt):
    r"""Quantities that derivatives share, each differentiable by torch: ``scale``
    :math:`=\kappa t`, ``sine`` :math:`=1-\rho^2`, and the projections of the tilted vector
    :math:`\kappa\mu+tz` on mu, ``along`` :math:`=\kappa+t\rho`, and on z, ``towards``
    :math:`=t+\kappa\rho`."""

    def __init__(self, rho: Tensor, kappa: Tensor, tau: Tensor, p: int) -> None:
        super().__init__(rho, kappa, tau)
        self.nu, self.kappa, self.scale = p / 2 - 1, kappa, kappa * self.t
        self.sine = (1 - self.rho) * (1 + self.rho)
        # Both cancel near rho = -1.
        product, lost = two_product(self.t, self.rho)
        self.along = (kappa + product) + (lost + self.t_rest * self.rho)
        product, lost = two_product(kappa, self.rho)
        self.towards = (self.t + product) + (lost + self.t_rest)

    @cached_property
    def slopes(self) -> RatioSlopes:
        r"""The Bessel ratio and its derivatives at :math:`\tilde\kappa`."""
        return slopes(self.nu, self.y1)


def _partial(
    name: str, second: Callable[[Tilted], Tensor], in_tau: bool = False
) -> Callable[..., Tensor]:
    """Make a function of (rho, kappa, tau, p), or of the derivative in t the one in tau."""

    def partial(rho: Tensor, kappa: Tensor, tau: Tensor, p: int) -> Tensor:
        value = second(Tilted(rho, kappa, tau, p))
        return value / -(tau * tau) if in_tau else value

    return opaque(f"score_{name}")(partial)


# Second derivatives of q. With r and d = D r < 0 at the tilted end, each is a sum of
# R' = r + y1 d > 0 and a multiple of d: written with r, they would cancel. Each mixed derivative is
# one function in either order, so that Hessians are symmetric to the last bit. `SECONDS` are those
# of the slope, in rho, kappa and tau.
SECONDS = (
    _partial("rho_rho", lambda a: a.scale * (a.scale * a.slopes.d1)),
    _partial("rho_kappa", lambda a: a.t * (a.slopes.first - a.t * (a.towards * a.slopes.d1))),
    _partial(
        "rho_tau",
        lambda a: a.kappa * (a.slopes.first - a.kappa * (a.along * a.slopes.d1)),
        in_tau=True,
    ),
)
_kappa_kappa = _partial(
    "kappa_kappa",
    lambda a: slope_step(a.nu, a.y0, a.y1, a.h) - a.t * (a.t * (a.sine * a.slopes.d1)),
)
_kappa_tau = _partial(
    "kappa_tau", lambda a: a.rho * a.slopes.first + a.scale * (a.sine * a.slopes.d1), in_tau=True
)


@opaque("score_tau_tau")
def _tau_tau(rho: Tensor, kappa: Tensor, tau: Tensor, p: int) -> Tensor:
    a = Tilted(rho, kappa, tau, p)
    in_t = a.slopes.first - a.kappa * (a.kappa * (a.sine * a.slopes.d1))
    return a.t * a.t * a.t * (a.t * in_t + 2 * a.towards * a.slopes.r)


@elementwise("score_kappa", SECONDS[1], _kappa_kappa, _kappa_tau, None)
def _concentration_slope(rho: Tensor, kappa: Tensor, tau: Tensor, p: int) -> Tensor:
    """Compute dq/dkappa by one of two sums, with the difference of the ratios or of r: that with
    the smaller terms; where squares underflow, the second, in which nothing cancels there."""
    a = Tilted(rho, kappa, tau, p)
    e, x1, tiny = expansion(a.nu, rho.dtype), a.y1.sqrt(), torch.finfo(rho.dtype).tiny
    side = a.t * (a.t * a.sine) / (x1 + a.along.abs()).clamp_min(tiny)
    r1 = differences.inner_ratio(e, a.y1)
    turn = r1 * torch.where(a.along >= 0, side, x1 - a.along)
    low = torch.minimum(a.y0, a.y1)
    change = differences.unshifted_if_large(
        lambda e: differences.ratio_difference(e, kappa, x1, a.h), e, low
    )
    lead, rest = a.t * a.rho * r1, kappa * inner_ratio_difference(e, a.y0, a.y1, a.h)
    small = (lead.abs() + rest.abs() < change.abs() + turn) | (a.y0 + a.y1 < 1e-30)
    return torch.where(small, lead + rest, change - turn)


@elementwise("score_tau", SECONDS[2], _kappa_tau, _tau_tau, None)
def _temperature_slope(rho: Tensor, kappa: Tensor, tau: Tensor, p: int) -> Tensor:
    a = Tilted(rho, kappa, tau, p)
    return -(a.t * a.t) * a.towards * inner(a.nu, a.y1)


@elementwise("score_slope", *SECONDS, None)
def slope(rho: Tensor, kappa: Tensor, tau: Tensor, p: int) -> Tensor:
    return evaluate(rho, kappa, tau, p, slope=True)[1]


@elementwise("score", slope, _concentration_slope, _temperature_slope, None)
def score(rho: Tensor, kappa: Tensor, tau: Tensor, p: int) -> Tensor:
    return evaluate(rho, kappa, tau, p, slope=False)[0]


def score_and_slope(*arguments: Any) -> tuple[Tensor, ...]:
    """Compute the score and its slope of (rho, kappa, tau, p), differentiable in all tensors."""
    if is_constant(*arguments):
        return evaluate(*arguments, slope=True)
    return score(*arguments), slope(*arguments)


@elementwise(
    "score_excess",
    SECONDS[0],
    lambda rho, kappa, tau, p: SECONDS[1](rho, kappa, tau, p) - ratio(p / 2 - 1, kappa, 1) / tau,
    lambda rho, kappa, tau, p: SECONDS[2](rho, kappa, tau, p) + ratio(p / 2 - 1, kappa) / tau**2,
    None,
)
def _excess(rho: Tensor, kappa: Tensor, tau: Tensor, p: int) -> Tensor:
    """Compute slope - gain from the difference of the inner ratios."""
    a = Tilted(rho, kappa, tau, p)
    return a.scale * inner_ratio_difference(expansion(a.nu, rho.dtype), a.y0, a.y1, a.h)


@elementwise(
    "score_remainder",
    _excess,
    lambda rho, kappa, tau, p: (
        _concentration_slope(rho, kappa, tau, p)
        - _concentration_slope(torch.zeros_like(rho), kappa, tau, p)
        - rho / tau * ratio(p / 2 - 1, kappa, 1)
    ),
    lambda rho, kappa, tau, p: (
        _temperature_slope(rho, kappa, tau, p)
        - _temperature_slope(torch.zeros_like(rho), kappa, tau, p)
        + rho / tau**2 * ratio(p / 2 - 1, kappa)
    ),
    None,
)
def remainder(rho: Tensor, kappa: Tensor, tau: Tensor, p: int) -> Tensor:
    """Compute the remainder of `exact.decompose` without cancellation."""
    tilt, e = Tilt(rho, kappa, tau), expansion(p / 2 - 1, rho.dtype)
    middle = tilt.y0 + tilt.t_squared  # the tilted square at rho = 0
    along = tilt.two_kappa_t * tilt.rho
    shift = inner_ratio_difference(e, tilt.y0, middle, tilt.t_squared)
    return 0.5 * along * shift + differences.phi_second_difference(e, middle, tilt.y1, along)
