"""The basic residual block of many runs as one autograd function, for training on a GPU."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from resultant._core.device import has_triton
from resultant.networks.norm import EPS, MOMENTUM, _shortcut, channels_last

# Width of the square images by the number of channels of a run.
WIDTHS = {16: 32, 32: 16}


def fits(x: Tensor, weight: Tensor) -> bool:
    """Return True if the block accepts x [N, runs * c, W, W] and weight [runs, o, c, 3, 3]."""
    runs, o, c = weight.shape[:3]
    width = WIDTHS.get(c)
    return (
        x.is_cuda
        and x.dtype is torch.bfloat16
        and c == o
        and tuple(x.shape[1:]) == (runs * c, width, width)
        and x.is_contiguous(memory_format=torch.channels_last)
        and weight.dtype is torch.float32
        and weight.is_contiguous()
        and torch.cuda.get_device_capability(x.device) >= (9, 0)
        and hasattr(torch.cuda, "_compile_kernel")
        and has_triton()
    )


class FusedBlock(torch.autograd.Function):
    """relu(norm2(conv2(relu(norm1(conv1(x))))) + shortcut), in training, for tensors that `fits`.

    x and shortcut [N, runs * c, W, W] are channels-last bf16 and may share memory: their gradients
    are returned separately. As in `norm.NormRelu`, ``following`` is the number of channels of the
    next block, whose shortcut is then returned too. Convolutions are [runs, c, c, 3, 3], norms
    [runs, c], all in float32. The normalized activation between the convolutions is never stored.
    The first call compiles the kernels, and must come before a graph is captured.
    """

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any,
        x: Tensor,
        shortcut: Tensor,
        w1: Tensor,
        gamma1: Tensor,
        beta1: Tensor,
        running_mean1: Tensor,
        running_var1: Tensor,
        w2: Tensor,
        gamma2: Tensor,
        beta2: Tensor,
        running_mean2: Tensor,
        running_var2: Tensor,
        following: int | None,
    ) -> tuple[Tensor, Tensor | None]:
        from resultant.networks.kernels import conv
        from resultant.networks.kernels.conv import Norm

        saved = conv.forward(
            x, channels_last(shortcut),
            w1, Norm(gamma1, beta1, running_mean1, running_var1),
            w2, Norm(gamma2, beta2, running_mean2, running_var2),
            MOMENTUM, EPS,
        )  # fmt: skip
        ctx.save_for_backward(x, w1, w2, *saved)
        if following is None:
            return saved.out, None
        # The same memory as two tensors where possible, for separate gradients.
        return saved.out, _shortcut(saved.out.detach(), gamma2, following)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        from resultant.networks.kernels import conv
        from resultant.networks.kernels.conv import Saved

        x, w1, w2, *saved = ctx.saved_tensors
        one, two = (None if g is None else channels_last(g) for g in gradients)
        assert one is not None, "the output of a block has a gradient"
        dx, g, dw1, d_gamma1, d_beta1, dw2, d_gamma2, d_beta2 = conv.backward(
            x, w1, w2, Saved(*saved), one, two
        )
        shape = w1.shape[:2]
        return (
            dx, g,
            dw1, d_gamma1.view(shape), d_beta1.view(shape), None, None,
            dw2, d_gamma2.view(shape), d_beta2.view(shape), None, None,
            None,
        )  # fmt: skip
