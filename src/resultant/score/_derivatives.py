"""The score as a differentiable function: values with hand-written derivatives."""

from __future__ import annotations

import operator
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from resultant._core.autograd import batched, elementwise, signed
from resultant._core.compensated import two_product, two_reciprocal
from resultant.score._backends import Tilt, evaluate
from resultant.special.bessel import inner, ratio
from resultant.special.debye import expansion
from resultant.special.differences import (
    inner_ratio,
    inner_ratio_difference,
    phi_second_difference,
    ratio_difference,
)


def _score_value(rho: Tensor, kappa: Tensor, tau: Tensor, p: int) -> Tensor:
    return evaluate(rho, kappa, tau, p, slope=False)[0]


def _r1(rho: Tensor, kappa: Tensor, tau: Tensor, p: int, n: int) -> Tensor:
    return inner(p / 2 - 1, Tilt(kappa, tau).y1(rho), n)


def _concentration_value(rho: Tensor, kappa: Tensor, tau: Tensor, p: int) -> Tensor:
    r"""dq/dkappa :math:`= R(\tilde\kappa)\,\partial\tilde\kappa/\partial\kappa - R(\kappa)`.

    Computed from the difference of the two ratios and from 1 minus the factor, so that no digits
    are lost where both ratios are near one.
    """
    rho = rho.clamp(-1, 1)
    tilt = Tilt(kappa, tau)
    y1 = tilt.y1(rho)
    x1 = y1.sqrt()
    along = kappa + tilt.t * rho
    across = tilt.square * ((1 - rho) * (1 + rho))
    tiny = torch.finfo(rho.dtype).tiny
    gap = torch.where(along >= 0, across / (x1 + along.abs()).clamp_min(tiny), x1 - along)
    e = expansion(p / 2 - 1, rho.dtype)
    return ratio_difference(e, kappa, x1, tilt.h(rho)) - inner_ratio(e, y1) * gap


def _hessian(
    rho: Tensor, kappa: Tensor, tau: Tensor, p: int
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return the second derivatives (rho rho), (rho kappa), (rho t), (kappa kappa), (kappa t)."""
    t = 1 / tau
    r, d = (_r1(rho, kappa, tau, p, n) for n in (0, 1))
    along, towards, across = kappa + t * rho, t + kappa * rho, kappa * t * d
    return (
        kappa * t * across,
        t * r + along * across,
        kappa * r + towards * across,
        r + along * along * d - ratio(p / 2 - 1, kappa, 1),
        rho * r + along * towards * d,
    )


_concentration_slope = elementwise(
    _concentration_value,
    lambda rho, kappa, tau, p: _hessian(rho, kappa, tau, p)[1],
    lambda rho, kappa, tau, p: _hessian(rho, kappa, tau, p)[3],
    lambda rho, kappa, tau, p: _hessian(rho, kappa, tau, p)[4] / -(tau * tau),
    None,
)


def _temperature_slope(rho: Tensor, kappa: Tensor, tau: Tensor, p: int) -> Tensor:
    r"""dq/dtau :math:`= -t^2 (t + \kappa\rho) R(\tilde\kappa)/\tilde\kappa`."""
    t, t_rest = two_reciprocal(tau)
    product, lost = two_product(kappa, rho)
    towards = (t + product) + (lost + t_rest)
    return -(t * t) * towards * _r1(rho, kappa, tau, p, 0)


def _slope_value(rho: Tensor, kappa: Tensor, tau: Tensor, p: int) -> Tensor:
    tilt = Tilt(kappa, tau)
    e = expansion(p / 2 - 1, rho.dtype)
    return 0.5 * tilt.twice * inner_ratio(e, tilt.y1(rho.clamp(-1, 1)))


slope = elementwise(
    _slope_value,
    lambda rho, kappa, tau, p: _hessian(rho, kappa, tau, p)[0],
    lambda rho, kappa, tau, p: _hessian(rho, kappa, tau, p)[1],
    lambda rho, kappa, tau, p: _hessian(rho, kappa, tau, p)[2] / -(tau * tau),
    None,
)

score = elementwise(_score_value, slope, _concentration_slope, _temperature_slope, None)


class ScoreAndSlope(torch.autograd.Function):
    """Score and slope in one pass, so that the backward pass in rho is one product."""

    @staticmethod
    @signed
    def forward(rho: Tensor, kappa: Tensor, tau: Tensor, p: int) -> tuple[Tensor, Tensor]:
        return evaluate(rho, kappa, tau, p, slope=True)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        rho, kappa, tau, ctx.p = inputs
        ctx.materialize_grads = False
        ctx.save_for_backward(rho, kappa, tau, output[1])

    @staticmethod
    def backward(  # type: ignore[override]
        ctx: Any, grad_q: Tensor | None, grad_slope: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        rho, kappa, tau, slope = ctx.saved_tensors
        args = (rho, kappa, tau, ctx.p)
        firsts = (lambda *_: slope, _concentration_slope, _temperature_slope)
        seconds = ()
        if grad_slope is not None:
            curvature, in_kappa, in_t, _, _ = _hessian(*args)
            seconds = (curvature, in_kappa, -in_t / (tau * tau))
        grads: list[Tensor | None] = [None] * 4
        for i in range(3):
            if ctx.needs_input_grad[i] and (grad_q is not None or grad_slope is not None):
                terms = [] if grad_q is None else [grad_q * firsts[i](*args)]
                if grad_slope is not None:
                    terms.append(grad_slope * seconds[i])
                grads[i] = reduce(operator.add, terms).sum_to_size(args[i].shape)
        return tuple(grads)

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], *args: Any
    ) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
        return ScoreAndSlope.apply(*batched(in_dims, args)), (0, 0)  # type: ignore[return-value]


def _excess_value(rho: Tensor, kappa: Tensor, tau: Tensor, p: int) -> Tensor:
    """Compute slope - gain from the difference of the inner ratios."""
    rho = rho.clamp(-1, 1)
    tilt = Tilt(kappa, tau)
    e = expansion(p / 2 - 1, rho.dtype)
    return kappa * tilt.t * inner_ratio_difference(e, tilt.y0, tilt.y1(rho), tilt.h(rho))


_excess = elementwise(
    _excess_value,
    lambda rho, kappa, tau, p: _hessian(rho, kappa, tau, p)[0],
    lambda rho, kappa, tau, p: _hessian(rho, kappa, tau, p)[1] - ratio(p / 2 - 1, kappa, 1) / tau,
    lambda rho, kappa, tau, p: (
        (ratio(p / 2 - 1, kappa, 0) - _hessian(rho, kappa, tau, p)[2]) / (tau * tau)
    ),
    None,
)


def _remainder_value(rho: Tensor, kappa: Tensor, tau: Tensor, p: int) -> Tensor:
    rho = rho.clamp(-1, 1)
    tilt = Tilt(kappa, tau)
    e = expansion(p / 2 - 1, rho.dtype)
    middle = tilt.y0 + tilt.square  # the tilted square at rho = 0
    bend = phi_second_difference(e, middle, tilt.y1(rho), tilt.twice * rho)
    shift = inner_ratio_difference(e, tilt.y0, middle, tilt.square)
    return 0.5 * tilt.twice * rho * shift + bend


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
