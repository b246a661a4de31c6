"""Views of photographs as one Triton kernel, one program per view, with normalized output.

Levels are exact in half precision. An operation that reads other pixels writes to the second half
of a scratch, and the halves change places.
"""

# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportIndexIssue=false
# pyright: reportCallIssue=false, reportGeneralTypeIssues=false, reportOperatorIssue=false
# pyright: reportPossiblyUnboundVariable=false, reportInvalidTypeForm=false

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from resultant._core.device import device_of
from resultant.images._photo_operations import (
    GREY,
    ROTATE,
    SHARPNESS,
    _recolour,
    _relevel,
    _sharpen,
    _store,
    _warp,
)
from resultant.images.photo_views import BITS, STEPS, Plan

SHIFT, HALF = tl.constexpr(BITS), tl.constexpr(1 << (BITS - 1))
# Numbers of a step: code, value, filter, and the six entries of the affine map.
NUMBERS = 9
BLOCK, WARPS = 1024, 16


@triton.jit
def _level(total):
    """Return the level of a sum of weighted levels; those of bicubic weights may be beyond."""
    return tl.minimum(tl.maximum(total >> SHIFT, 0), 255)


@triton.jit
def _crop(
    image, width, first, weights, taps, outer, inner, swapped, view,
    SIZE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Resize a box; ``first`` [2, SIZE] and ``weights`` [2, SIZE, taps] as in `Plan`."""
    PIXELS: tl.constexpr = SIZE * SIZE
    outer_step = tl.where(swapped != 0, 1, width)
    inner_step = tl.where(swapped != 0, width, 1)
    for start in range(0, PIXELS, BLOCK):
        pixel = start + tl.arange(0, BLOCK)
        inside = pixel < PIXELS
        y, x = pixel // SIZE, pixel % SIZE
        a, b = tl.where(swapped != 0, x, y), SIZE + tl.where(swapped != 0, y, x)
        outer_first = tl.load(first + a, mask=inside, other=0).to(tl.int64)
        inner_first = tl.load(first + b, mask=inside, other=0).to(tl.int64)
        red = tl.full((BLOCK,), HALF, tl.int32)
        green, blue = red, red
        for i in range(outer):
            last = tl.load(weights + a * taps + i, mask=inside, other=0)
            # A tap without weight may be outside the image.
            line = inside & (last != 0)
            p = tl.full((BLOCK,), HALF, tl.int32)
            q, s = p, p
            for j in range(inner):
                weight = tl.load(weights + b * taps + j, mask=line, other=0)
                used = line & (weight != 0)
                at = (outer_first + i) * outer_step + (inner_first + j) * inner_step
                p += tl.load(image + at * 3, mask=used, other=0).to(tl.int32) * weight
                q += tl.load(image + at * 3 + 1, mask=used, other=0).to(tl.int32) * weight
                s += tl.load(image + at * 3 + 2, mask=used, other=0).to(tl.int32) * weight
            red += _level(p) * last
            green += _level(q) * last
            blue += _level(s) * last
        _store(view, pixel, inside, _level(red), _level(green), _level(blue), PIXELS)


@triton.jit
def _render(
    pixels, offsets, sizes, first, weights, counts, taps, steps, lines, scratch, tables, out,
    SIZE: tl.constexpr, STEPS: tl.constexpr, NUMBERS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Write view i, normalized, with the channels of a pixel side by side."""
    i = tl.program_id(0).to(tl.int64)
    PIXELS: tl.constexpr = SIZE * SIZE
    view = scratch + i * (6 * PIXELS)
    table = tables + i * 256
    _crop(
        pixels + tl.load(offsets + i), tl.load(sizes + 2 * i + 1), first + i * (2 * SIZE),
        weights + i * (2 * SIZE) * taps, taps, tl.load(counts + 3 * i), tl.load(counts + 3 * i + 1),
        tl.load(counts + 3 * i + 2), view, SIZE, BLOCK,
    )  # fmt: skip
    tl.debug_barrier()
    here = 0
    for k in range(STEPS):
        step = steps + (i * STEPS + k) * NUMBERS
        code, value = tl.load(step).to(tl.int32), tl.load(step + 1)
        now, other = view + here * (3 * PIXELS), view + (1 - here) * (3 * PIXELS)
        if code != 0:
            if code <= GREY:
                _recolour(now, code, value, PIXELS, BLOCK)
            elif code == SHARPNESS:
                _sharpen(now, other, value, SIZE, BLOCK)
                here = 1 - here
            elif code >= ROTATE:
                _warp(now, other, step, lines + 6, tl.load(step + 2), SIZE, BLOCK)
                here = 1 - here
            else:
                _relevel(now, table, code, value, PIXELS, BLOCK)
            tl.debug_barrier()
    view += here * (3 * PIXELS)
    out += i * (3 * PIXELS)
    for start in range(0, 3 * PIXELS, BLOCK):
        index = start + tl.arange(0, BLOCK)
        inside = index < 3 * PIXELS
        pixel, channel = index // 3, index % 3
        level = tl.load(view + channel * PIXELS + pixel, mask=inside, other=0.0).to(tl.float32)
        scale = tl.load(lines + channel, mask=inside, other=0.0)
        shift = tl.load(lines + 3 + channel, mask=inside, other=0.0)
        tl.store(out + index, level * scale + shift, mask=inside)


def render(images: tuple[Tensor, ...], plan: Plan, buffers: tuple[Tensor, ...], size: int) -> None:
    """Write views; arguments as in `rendering.Rendering`, all on the device."""
    (pixels, offsets, sizes), (lines, scratch, tables, out) = images, buffers
    with device_of(pixels):
        _render[(len(offsets),)](
            pixels, offsets, sizes, plan.first, plan.weights, plan.counts, plan.weights.shape[-1],
            plan.steps, lines, scratch, tables, out, size, STEPS, NUMBERS, BLOCK, num_warps=WARPS,
            # A fused operation is rounded once, and sometimes truncated to a level below.
            enable_fp_fusion=False,
        )  # fmt: skip
