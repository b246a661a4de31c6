r"""The exact probabilistic score of ProCo, its slope, feature gradients and decomposition.

For a class :math:`X \sim \mathrm{vMF}(\mu,\kappa)` on the unit sphere in dimension p, a query z
with :math:`\rho=\mu^\top z` and :math:`t=1/\tau`,

.. math::
    q(\rho;\kappa,\tau,p) = \log\mathbb E\exp(t z^\top X)
        = \phi_\nu(\tilde\kappa) - \phi_\nu(\kappa), \qquad
    \tilde\kappa^2 = \kappa^2 + 2\kappa t\rho + t^2, \quad \nu = p/2-1

(eq:main-exact). The difference is taken as one (`_differences`), so q is right relative to its
own size in float64 and float32 alike. All functions broadcast, keep dtype and device, and are
differentiable in rho, kappa and tau.

The cosine rho usually comes from a matrix product, and an error there passes on as
:math:`\partial q = (\kappa t/\tilde\kappa) R_\nu(\tilde\kappa)\,\partial\rho`: with TF32 or
bfloat16 products that error, up to 1e-3 t, is all there is. Keep the product in full float32
where exactness matters.
"""

from __future__ import annotations

import operator
from functools import reduce
from typing import Any, NamedTuple

import torch
from torch import Tensor

from resultant._core import validation
from resultant._core.autograd import batched, elementwise, signed
from resultant._core.compensated import two_product, two_reciprocal
from resultant.score._arguments import ScoreSpec, score_arguments, validate_score
from resultant.score._backends import Tilt, evaluate
from resultant.special.bessel import inner, ratio
from resultant.special.debye import Number, expansion
from resultant.special.differences import (
    inner_ratio,
    inner_ratio_difference,
    phi_second_difference,
    ratio_difference,
)


class Decomposition(NamedTuple):
    """``q(rho) = intercept + gain * rho + remainder`` (eq:main-decomposition)."""

    intercept: Tensor
    gain: Tensor
    remainder: Tensor


def vmf_score(
    rho: Number, kappa: Number, tau: Number, p: int, *, validate_args: bool | None = None
) -> Tensor:
    r"""The exact score :math:`q=\log\mathbb E\exp(z^\top X/\tau)` of eq:main-exact.

    ``rho`` in [-1, 1] (rounding beyond is clamped), ``kappa`` >= 0, ``tau`` > 0, ``p`` >= 2; in
    float32 ``kappa`` up to 1e18, ``tau`` from 1e-8 to 1e30 and ``p`` up to 1e11, in float64 up to
    1e150, from 1e-16 to 1e150 and up to 1e30. The difference of two scores has an error of up to
    :math:`3\epsilon/\tau`: compare them at tau >= 7.6e-6 in float32, 1.4e-14 in float64, as
    `class_scores` does. First derivatives hold over the same range. Second ones do in float32 up
    to ``kappa`` 1e12: that in rho keeps its digits, those in kappa and tau are sums of terms that
    cancel where kappa or 1/tau is far above p, and are right relative to the largest of these.
    """
    (rho, kappa, tau), options, dtype = score_arguments(rho, kappa, tau, p, validate_args)
    if any(a.requires_grad for a in (rho, kappa, tau)):
        return _ScoreAndSlope.apply(rho, kappa, tau, options)[0].to(dtype)  # type: ignore[index]
    return _score(rho, kappa, tau, options).to(dtype)


def vmf_score_slope(
    rho: Number, kappa: Number, tau: Number, p: int, *, validate_args: bool | None = None
) -> Tensor:
    r"""The derivative :math:`\partial_\rho q=\kappa t\,R_\nu(\tilde\kappa)/\tilde\kappa`
    of eq:exact-rho-derivative."""
    (rho, kappa, tau), options, dtype = score_arguments(rho, kappa, tau, p, validate_args)
    return _slope(rho, kappa, tau, options).to(dtype)


def vmf_score_and_slope(
    rho: Number, kappa: Number, tau: Number, p: int, *, validate_args: bool | None = None
) -> tuple[Tensor, Tensor]:
    """`vmf_score` and `vmf_score_slope` for little more than the price of one."""
    (rho, kappa, tau), options, dtype = score_arguments(rho, kappa, tau, p, validate_args)
    q, slope = _ScoreAndSlope.apply(rho, kappa, tau, options)  # type: ignore[misc]
    return q.to(dtype), slope.to(dtype)


def decompose(
    rho: Number, kappa: Number, tau: Number, p: int, *, validate_args: bool | None = None
) -> Decomposition:
    r"""Intercept :math:`h=q(0)`, angular gain :math:`g=A/\tau` and remainder r of the score.

    eq:main-decomposition of thm:centered-gain, :math:`q(\rho)=h+g\rho+r(\rho)` with r(0) = 0. The
    remainder is of order 1/nu; it is computed by itself, not as what is left of q.
    """
    (rho, kappa, tau), options, dtype = score_arguments(rho, kappa, tau, p, validate_args)
    intercept = _score(torch.zeros_like(kappa), kappa, tau, options)
    gain = ratio(p / 2 - 1, kappa, 0, False) / tau
    remainder = _remainder(rho, kappa, tau, options)
    return Decomposition(intercept.to(dtype), gain.to(dtype), remainder.to(dtype))


def ambient_gradient(
    z: Tensor, mu: Tensor, kappa: Number, tau: Number, *, validate_args: bool | None = None
) -> Tensor:
    r"""The feature gradient :math:`\nabla_z q = t R_\nu(\tilde\kappa)(\kappa\mu+tz)/\tilde\kappa`.

    eq:exact-vector-gradient, for unit vectors z, mu [..., p] that broadcast, and kappa, tau [...].
    """
    (z, mu, rho, kappa, tau), p, dtype = _directions(z, mu, kappa, tau)
    slope = vmf_score_slope(rho, kappa, tau, p, validate_args=validate_args)
    # t r1 kappa is the slope; t^2 r1 needs r1 by itself where kappa = 0.
    t = 1 / tau
    rest = t * t * inner(p / 2 - 1, Tilt(kappa, tau).y1(rho), 0)
    return (slope.unsqueeze(-1) * mu + rest.unsqueeze(-1) * z).to(dtype)


def tangent_gradient(
    z: Tensor, mu: Tensor, kappa: Number, tau: Number, *, validate_args: bool | None = None
) -> Tensor:
    r"""The gradient on the sphere, :math:`\Pi_z\nabla_z q = \partial_\rho q\,(\mu-\rho z)`
    (eq:exact-class-gradient, projected)."""
    (z, mu, rho, kappa, tau), p, dtype = _directions(z, mu, kappa, tau)
    slope = vmf_score_slope(rho, kappa, tau, p, validate_args=validate_args)
    return (slope.unsqueeze(-1) * (mu - rho.unsqueeze(-1) * z)).to(dtype)


def _directions(
    z: Tensor, mu: Tensor, kappa: Number, tau: Number
) -> tuple[list[Tensor], int, torch.dtype]:
    """z, mu, their cosine, kappa and tau in the computing dtype; the dimension; the dtype."""
    if z.dim() == 0 or mu.dim() == 0 or z.shape[-1] != mu.shape[-1]:
        raise ValueError(
            f"expected z and mu to share their last dimension, got {tuple(z.shape)} and "
            f"{tuple(mu.shape)}"
        )
    (z, mu, kappa, tau), dtype = validation.tensors(
        z=z, mu=mu, kappa=_trailing(kappa), tau=_trailing(tau)
    )
    kappa, tau = (a.squeeze(-1) if a.dim() else a for a in (kappa, tau))
    return [z, mu, (z * mu).sum(-1), kappa, tau], z.shape[-1], dtype


def _trailing(a: Number) -> Number:
    return a.unsqueeze(-1) if isinstance(a, Tensor) and a.dim() else a


def _evaluate(
    rho: Tensor, kappa: Tensor, tau: Tensor, options: ScoreSpec, *, slope: bool
) -> tuple[Tensor, Tensor]:
    validate_score(rho, kappa, tau, options)
    return evaluate(rho, kappa, tau, options.p, slope=slope)


def _score_value(rho: Tensor, kappa: Tensor, tau: Tensor, options: ScoreSpec) -> Tensor:
    return _evaluate(rho, kappa, tau, options, slope=False)[0]


def _r1(rho: Tensor, kappa: Tensor, tau: Tensor, options: ScoreSpec, n: int) -> Tensor:
    return inner(options.p / 2 - 1, Tilt(kappa, tau).y1(rho), n)


def _concentration_value(rho: Tensor, kappa: Tensor, tau: Tensor, options: ScoreSpec) -> Tensor:
    r"""dq/dkappa :math:`= R(\tilde\kappa)\,\partial\tilde\kappa/\partial\kappa - R(\kappa)`.

    Taken as the difference of the two ratios and what the factor misses of one, so that it stays
    right where both ratios are near one.
    """
    rho = rho.clamp(-1, 1)
    tilt = Tilt(kappa, tau)
    y1 = tilt.y1(rho)
    x1 = y1.sqrt()
    along = kappa + tilt.t * rho
    across = tilt.square * ((1 - rho) * (1 + rho))
    tiny = torch.finfo(rho.dtype).tiny
    gap = torch.where(along >= 0, across / (x1 + along.abs()).clamp_min(tiny), x1 - along)
    e = expansion(options.p / 2 - 1, rho.dtype)
    return ratio_difference(e, kappa, x1, tilt.h(rho)) - inner_ratio(e, y1) * gap


def _hessian(
    rho: Tensor, kappa: Tensor, tau: Tensor, options: ScoreSpec
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Second derivatives of q: (rho rho), (rho kappa), (rho t), (kappa kappa), (kappa t)."""
    t = 1 / tau
    r, d = (_r1(rho, kappa, tau, options, n) for n in (0, 1))
    along, towards, across = kappa + t * rho, t + kappa * rho, kappa * t * d
    return (
        kappa * t * across,
        t * r + along * across,
        kappa * r + towards * across,
        r + along * along * d - ratio(options.p / 2 - 1, kappa, 1, False),
        rho * r + along * towards * d,
    )


_concentration_slope = elementwise(
    _concentration_value,
    lambda rho, kappa, tau, o: _hessian(rho, kappa, tau, o)[1],
    lambda rho, kappa, tau, o: _hessian(rho, kappa, tau, o)[3],
    lambda rho, kappa, tau, o: _hessian(rho, kappa, tau, o)[4] / -(tau * tau),
    None,
)


def _temperature_slope(rho: Tensor, kappa: Tensor, tau: Tensor, options: ScoreSpec) -> Tensor:
    r"""dq/dtau :math:`= -t^2 (t + \kappa\rho) R(\tilde\kappa)/\tilde\kappa`."""
    t, t_rest = two_reciprocal(tau)
    product, lost = two_product(kappa, rho)
    towards = (t + product) + (lost + t_rest)
    return -(t * t) * towards * _r1(rho, kappa, tau, options, 0)


def _slope_value(rho: Tensor, kappa: Tensor, tau: Tensor, options: ScoreSpec) -> Tensor:
    validate_score(rho, kappa, tau, options)
    tilt = Tilt(kappa, tau)
    e = expansion(options.p / 2 - 1, rho.dtype)
    return 0.5 * tilt.twice * inner_ratio(e, tilt.y1(rho.clamp(-1, 1)))


_slope = elementwise(
    _slope_value,
    lambda rho, kappa, tau, o: _hessian(rho, kappa, tau, o)[0],
    lambda rho, kappa, tau, o: _hessian(rho, kappa, tau, o)[1],
    lambda rho, kappa, tau, o: _hessian(rho, kappa, tau, o)[2] / -(tau * tau),
    None,
)

_score = elementwise(_score_value, _slope, _concentration_slope, _temperature_slope, None)


class _ScoreAndSlope(torch.autograd.Function):
    """``(q, slope)`` in one pass, so that the backward pass in rho is one product."""

    @staticmethod
    @signed
    def forward(
        rho: Tensor, kappa: Tensor, tau: Tensor, options: ScoreSpec
    ) -> tuple[Tensor, Tensor]:
        return _evaluate(rho, kappa, tau, options, slope=True)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        rho, kappa, tau, ctx.options = inputs
        ctx.materialize_grads = False
        ctx.save_for_backward(rho, kappa, tau, output[1])

    @staticmethod
    def backward(  # type: ignore[override]
        ctx: Any, grad_q: Tensor | None, grad_slope: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        rho, kappa, tau, slope = ctx.saved_tensors
        args = (rho, kappa, tau, ctx.options)
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
        return _ScoreAndSlope.apply(*batched(in_dims, args)), (0, 0)  # type: ignore[return-value]


def _excess_value(rho: Tensor, kappa: Tensor, tau: Tensor, options: ScoreSpec) -> Tensor:
    """slope - gain, from the difference of the inner ratios."""
    rho = rho.clamp(-1, 1)
    tilt = Tilt(kappa, tau)
    e = expansion(options.p / 2 - 1, rho.dtype)
    return kappa * tilt.t * inner_ratio_difference(e, tilt.y0, tilt.y1(rho), tilt.h(rho))


_excess = elementwise(
    _excess_value,
    lambda rho, kappa, tau, o: _hessian(rho, kappa, tau, o)[0],
    lambda rho, kappa, tau, o: (
        _hessian(rho, kappa, tau, o)[1] - ratio(o.p / 2 - 1, kappa, 1, False) / tau
    ),
    lambda rho, kappa, tau, o: (
        (ratio(o.p / 2 - 1, kappa, 0, False) - _hessian(rho, kappa, tau, o)[2]) / (tau * tau)
    ),
    None,
)


def _remainder_value(rho: Tensor, kappa: Tensor, tau: Tensor, options: ScoreSpec) -> Tensor:
    validate_score(rho, kappa, tau, options)
    rho = rho.clamp(-1, 1)
    tilt = Tilt(kappa, tau)
    e = expansion(options.p / 2 - 1, rho.dtype)
    middle = tilt.y0 + tilt.square  # the tilted square at rho = 0
    bend = phi_second_difference(e, middle, tilt.y1(rho), tilt.twice * rho)
    shift = inner_ratio_difference(e, tilt.y0, middle, tilt.square)
    return 0.5 * tilt.twice * rho * shift + bend


_remainder = elementwise(
    _remainder_value,
    _excess,
    lambda rho, kappa, tau, o: (
        _concentration_slope(rho, kappa, tau, o)
        - _concentration_slope(torch.zeros_like(rho), kappa, tau, o)
        - rho / tau * ratio(o.p / 2 - 1, kappa, 1, False)
    ),
    lambda rho, kappa, tau, o: (
        _temperature_slope(rho, kappa, tau, o)
        - _temperature_slope(torch.zeros_like(rho), kappa, tau, o)
        + rho / (tau * tau) * ratio(o.p / 2 - 1, kappa, 0, False)
    ),
    None,
)
