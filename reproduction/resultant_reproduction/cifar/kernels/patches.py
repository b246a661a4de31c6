"""Normalized 3 x 3 neighbourhoods of small images, as one Triton kernel."""

# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportIndexIssue=false
# pyright: reportCallIssue=false, reportGeneralTypeIssues=false, reportOperatorIssue=false

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from resultant._core.device import device_of
from resultant.images.photo_views import channel_lines
from resultant_reproduction.cifar.views import MEAN, PATCH, STD

PIXELS = 128


@triton.jit
def _of_channel(channel, r, g, b):
    return tl.where(channel == 0, r, tl.where(channel == 1, g, b))


@triton.jit
def _patches(
    levels, out, scale_r, scale_g, scale_b, shift_r, shift_g, shift_b, number, groups,
    SIZE: tl.constexpr, PATCH: tl.constexpr, PIXELS: tl.constexpr,
):  # fmt: skip
    """Write the neighbourhoods of PIXELS pixels of image j of group i."""
    # The patches of 6144 images of 12 groups are more than 2^31 numbers; those of one image not.
    i, j = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    levels += (i * number + j) * 3 * SIZE * SIZE
    out += (j * SIZE * SIZE * groups + i) * PATCH
    pixel = tl.program_id(2) * PIXELS + tl.arange(0, PIXELS)
    entry = tl.arange(0, PATCH)
    channel = tl.minimum(entry // 9, 2)
    y = (pixel // SIZE)[:, None] + (entry % 9 // 3 - 1)[None, :]
    x = (pixel % SIZE)[:, None] + (entry % 3 - 1)[None, :]
    inside = (y >= 0) & (y < SIZE) & (x >= 0) & (x < SIZE) & (entry < 27)[None, :]
    source = (channel[None, :] * SIZE + y) * SIZE + x
    level = tl.load(levels + source, mask=inside, other=0).to(tl.float32)
    scale = _of_channel(channel, scale_r, scale_g, scale_b)[None, :]
    shift = _of_channel(channel, shift_r, shift_g, shift_b)[None, :]
    value = tl.where(inside, level * scale + shift, 0.0)
    tl.store(out + pixel[:, None] * (groups * PATCH) + entry[None, :], value)


def normalized_patches(levels: Tensor, dtype: torch.dtype) -> Tensor:
    """Compute the patches [N, G * 32, S, S] of images uint8 [G, N, 3, S, S]."""
    groups, number, _, size, _ = levels.shape
    out = levels.new_empty(number, size, size, groups * PATCH, dtype=dtype)
    scales, shifts = channel_lines(MEAN, STD)
    pixels = min(PIXELS, size * size)
    with device_of(levels):
        _patches[(groups, number, size * size // pixels)](
            levels.contiguous(), out, *scales, *shifts, number, groups, size, PATCH, pixels
        )
    return out.permute(0, 3, 1, 2)
