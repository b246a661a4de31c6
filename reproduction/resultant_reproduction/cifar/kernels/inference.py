"""A 3 x 3 convolution of many runs with norm, residual and ReLU, for inference in float32 on a GPU,
in one pass; products in three parts by tensor cores, since cuDNN has no fast algorithm."""

# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportIndexIssue=false
# pyright: reportCallIssue=false, reportGeneralTypeIssues=false, reportOperatorIssue=false

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from resultant._core.device import device_of

# Pixels per program.
PIXELS = 128


@triton.jit
def _convolve(
    x, weight, scale, shift, residual, out, pixels, H, W, high, wide,
    RUNS: tl.constexpr, FROM: tl.constexpr, TO: tl.constexpr, STRIDE: tl.constexpr,
    RESIDUAL: tl.constexpr, PIXELS: tl.constexpr,
):  # fmt: skip
    """Compute PIXELS pixels of one run; output images are ``high`` times ``wide``."""
    run = tl.program_id(1)
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    image, row, column = pixel // (high * wide), pixel // wide % high, pixel % wide
    i, o = tl.arange(0, FROM), tl.arange(0, TO)
    total = tl.zeros([PIXELS, TO], tl.float32)
    for tap in range(9):
        y, z = row * STRIDE + (tap // 3 - 1), column * STRIDE + (tap % 3 - 1)
        inside = (pixel < pixels) & (y >= 0) & (y < H) & (z >= 0) & (z < W)
        place = ((image * H + y).to(tl.int64) * W + z) * (RUNS * FROM) + run * FROM
        near = tl.load(x + place[:, None] + i[None, :], mask=inside[:, None], other=0.0)
        kernel = tl.load(weight + ((run * 9 + tap) * FROM + i[:, None]) * TO + o[None, :])
        total = tl.dot(near, kernel, total, input_precision="tf32x3")
    channel = run * TO + o
    value = total * tl.load(scale + channel)[None, :] + tl.load(shift + channel)[None, :]
    where = pixel.to(tl.int64)[:, None] * (RUNS * TO) + channel[None, :]
    live = (pixel < pixels)[:, None]
    if RESIDUAL:
        value += tl.load(residual + where, mask=live, other=0.0)
    tl.store(out + where, tl.maximum(value, 0.0), mask=live)


def convolve(
    x: Tensor, weight: Tensor, scale: Tensor, shift: Tensor, residual: Tensor | None, stride: int
) -> Tensor:
    """Compute relu(conv(x) * scale + shift + residual), channels-last [N, runs * o, H', W']."""
    runs, o, i = weight.shape[:3]
    n, _, H, W = x.shape
    high, wide = (H - 1) // stride + 1, (W - 1) // stride + 1
    out = torch.empty(
        *(n, runs * o, high, wide),
        dtype=x.dtype,
        device=x.device,
        memory_format=torch.channels_last,
    )
    taps = weight.permute(0, 3, 4, 2, 1).contiguous()
    pixels = n * high * wide
    with device_of(x):
        _convolve[(triton.cdiv(pixels, PIXELS), runs)](
            x, taps, scale, shift, residual, out, pixels, H, W, high, wide,
            runs, i, o, stride, residual is not None, PIXELS,
        )  # fmt: skip
    return out
