"""Cross-entropy of scores with an offset per class; on a GPU together with its gradient."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from resultant._core.device import kernel_module

KERNELS = "resultant.losses._triton"


def cross_entropy(scores: Tensor, offset: Tensor, labels: Tensor) -> Tensor:
    """Return the cross-entropies [...] of ``scores`` [..., C] + ``offset`` [C] at ``labels`` [...].

    Differentiable in the scores, to any order.
    """
    offset = offset.to(scores.dtype)
    eager = scores.is_cuda and scores.requires_grad and not torch.compiler.is_compiling()
    if eager and kernel_module(KERNELS):
        rows = scores.flatten(0, -2)
        entropies = _CrossEntropy.apply(rows, offset, labels.reshape(-1))[0]  # type: ignore[index]
    else:
        logits = (scores + offset).flatten(0, -2)
        entropies = functional.cross_entropy(logits, labels.reshape(-1), reduction="none")
    return entropies.view(labels.shape)


class _CrossEntropy(torch.autograd.Function):
    """Cross-entropies [rows] of scores [rows, C] and their gradient: the softmax, less one at the
    label."""

    @staticmethod
    def forward(scores: Tensor, offset: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        kernels = kernel_module(KERNELS)
        assert kernels is not None
        return kernels.cross_entropy(scores, offset, labels)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.materialize_grads = False
        ctx.save_for_backward(inputs[2], output[1])

    @staticmethod
    def backward(  # type: ignore[override]
        ctx: Any, grad_entropy: Tensor | None, grad_slope: Tensor | None
    ) -> tuple[Tensor | None, None, None]:
        labels, slope = ctx.saved_tensors
        grad = None if grad_entropy is None else grad_entropy.unsqueeze(-1) * slope
        if grad_slope is not None:
            one = torch.ones_like(slope[:, :1])
            share = slope.scatter_add(-1, labels.unsqueeze(-1), one)
            second = share * (grad_slope - (share * grad_slope).sum(-1, keepdim=True))
            grad = second if grad is None else grad + second
        return grad, None, None
