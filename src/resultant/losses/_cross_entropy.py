"""Cross-entropies of scores with an offset to each class; on a GPU with their gradient, at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


def cross_entropy(scores: Tensor, offset: Tensor, labels: Tensor) -> Tensor:
    """The cross-entropies [..., *runs] of ``scores`` [..., *runs, C] + ``offset`` [*runs, C] at
    ``labels`` [..., *runs]. Differentiable in the scores, to any order."""
    offset = offset.to(scores.dtype)
    if scores.is_cuda and scores.requires_grad and not torch.compiler.is_compiling() and _fused():
        rows, offsets = scores.flatten(0, -2), offset.reshape(-1, offset.shape[-1])
        each = _CrossEntropy.apply(rows, offsets, labels.reshape(-1))[0]  # type: ignore[index]
    else:
        logits = (scores + offset).flatten(0, -2)
        each = functional.cross_entropy(logits, labels.reshape(-1), reduction="none")
    return each.view(labels.shape)


@cache
def _fused() -> Callable[..., tuple[Tensor, Tensor]] | None:
    """The fused kernel, where Triton is at hand."""
    try:
        from resultant.losses import _entropy_triton as _entropy_kernel
    except ImportError:
        return None
    return _entropy_kernel.cross_entropy


class _CrossEntropy(torch.autograd.Function):
    """Cross-entropies [rows] of scores [rows, C], and their gradient: the shares of the classes,
    less one at the label."""

    @staticmethod
    def forward(scores: Tensor, offset: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        fused = _fused()
        assert fused is not None
        return fused(scores, offset, labels)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.materialize_grads = False
        ctx.save_for_backward(inputs[2], output[1])

    @staticmethod
    def backward(  # type: ignore[override]
        ctx: Any, grad_each: Tensor | None, grad_slope: Tensor | None
    ) -> tuple[Tensor | None, None, None]:
        labels, slope = ctx.saved_tensors
        grad = None if grad_each is None else grad_each.unsqueeze(-1) * slope
        if grad_slope is not None:
            one = torch.ones_like(slope[:, :1])
            share = slope.scatter_add(-1, labels.unsqueeze(-1), one)
            second = share * (grad_slope - (share * grad_slope).sum(-1, keepdim=True))
            grad = second if grad is None else grad + second
        return grad, None, None
