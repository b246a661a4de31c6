"""Batch norm, residual and ReLU as one module, fused on a GPU."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from resultant._core.device import has_triton

MOMENTUM, EPS = 0.1, 1e-5


class NormRelu(nn.Module):
    """relu(batch_norm(x) + residual) over the channels of x [N, runs * channels, H, W], and the
    shortcut to a block of ``shortcut`` channels, whose gradient is not added on a GPU."""

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, runs: int, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(runs, channels))
        self.bias = nn.Parameter(torch.zeros(runs, channels))
        self.register_buffer("running_mean", torch.zeros(runs, channels))
        self.register_buffer("running_var", torch.ones(runs, channels))

    def forward(
        self, x: Tensor, residual: Tensor | None = None, shortcut: int | None = None
    ) -> tuple[Tensor, Tensor | None]:
        if self.training and x.is_cuda and has_triton():
            return _NormRelu.apply(
                channels_last(x),
                None if residual is None else channels_last(residual),
                shortcut,
                *(self.weight, self.bias, self.running_mean, self.running_var),
            )
        x = self.normalized(x)
        out = F.relu(x if residual is None else x + residual)
        return out, next_shortcut(out, self.weight.shape, shortcut)

    def line(self) -> tuple[Tensor, Tensor]:
        """Return the norm in evaluation mode as scale and shift, each [runs, channels]."""
        scale = self.weight / (self.running_var + EPS).sqrt()
        return scale, self.bias - self.running_mean * scale

    def normalized(self, x: Tensor) -> Tensor:
        """Apply only the batch norm to x [N, runs * channels, ...]."""
        norm = self.running_mean, self.running_var, self.weight, self.bias
        mean, var, weight, bias = (a.flatten() for a in norm)
        return F.batch_norm(x, mean, var, weight, bias, self.training, MOMENTUM, EPS)


class _NormRelu(torch.autograd.Function):
    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, x: Tensor, residual: Tensor | None, shortcut: int | None, *norm: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        from resultant_reproduction.cifar.kernels import norm as kernels

        out, saved = kernels.forward(x, residual, norm, MOMENTUM, EPS)  # type: ignore[arg-type]
        ctx.save_for_backward(x, out, saved)
        ctx.residual, ctx.shape = residual is not None, norm[0].shape
        # The same memory as two tensors where possible, for separate gradients.
        return out, next_shortcut(out.detach(), ctx.shape, shortcut)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        from resultant_reproduction.cifar.kernels import norm

        x, out, saved = ctx.saved_tensors
        one, two = (None if g is None else channels_last(g) for g in gradients)
        assert one is not None, "the output of a norm has a gradient"
        options = (one, two), ctx.residual, ctx.shape[1]
        dx, d_residual, *d_norm = norm.backward(x, out, saved, *options)
        return dx, d_residual, None, *(d.view(ctx.shape) for d in d_norm), None, None


def halved(x: Tensor, runs: int, wide: int) -> Tensor:
    """Return every other pixel of x [N, runs * channels, H, W], padded with channels of zeros."""
    pixels = x.permute(0, 2, 3, 1)[:, ::2, ::2].unflatten(-1, (runs, -1))
    side = (wide - pixels.shape[-1]) // 2
    return F.pad(pixels, (side, side)).flatten(-2).permute(0, 3, 1, 2)


def next_shortcut(out: Tensor, shape: Sequence[int], wide: int | None) -> Tensor | None:
    """Return the shortcut from runs and channels of ``shape`` into ``wide`` channels, if any."""
    runs, channels = shape
    return out if wide == channels else None if wide is None else halved(out, runs, wide)


def channels_last(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last)
