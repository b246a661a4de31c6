"""Losses whose gradient has been computed together with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def with_gradient(
    z: Tensor, losses: Tensor, gradient: Tensor, again: Callable[[Tensor], Tensor] | None = None
) -> Tensor:
    """Return ``losses`` [...] of rows z [..., p] with the known ``gradient`` [..., p] of each row.

    ``again`` computes the losses as a differentiable function of z, for second derivatives.
    """
    # In a tuple: autograd inspects every tensor among the arguments.
    return _WithGradient.apply(z, (losses, gradient, again))  # type: ignore[return-value]


class _WithGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, known: tuple[Tensor, Tensor, Any]) -> Tensor:
        losses, gradient, ctx.again = known
        if ctx.needs_input_grad[0]:
            ctx.save_for_backward(gradient, *(() if ctx.again is None else (z,)))
        return losses

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        gradient, *z = ctx.saved_tensors
        if not torch.is_grad_enabled():
            return gradient * grad.unsqueeze(-1), None
        if ctx.again is None:
            raise RuntimeError(
                "expected first derivatives only: the gradient of this loss has no gradient "
                "(classes in shards, or scores too large to be stored)"
            )
        (first,) = torch.autograd.grad(ctx.again(z[0]), z[0], grad, create_graph=True)
        return first, None
