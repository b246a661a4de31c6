"""`photo_views.levels` as one Triton kernel, one program per view, with normalized output.

A program resizes its crop, then takes the steps of the view one after the other. The view stays in
a scratch of the program, in half precision, where levels are exact: an operation that reads other
pixels writes to the second half of the scratch, and the halves change places.
"""

# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportIndexIssue=false
# pyright: reportCallIssue=false, reportGeneralTypeIssues=false, reportOperatorIssue=false
# pyright: reportPossiblyUnboundVariable=false, reportInvalidTypeForm=false

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from resultant._core.device import device_of
from resultant.images.photo_views import (
    CODE,
    STEPS,
    Colour,
    axis_taps,
    blur_radius,
    matrices,
)
from resultant.images.resample import BITS
from resultant.images.view_kernel import _blend, _grey, _turned

BRIGHTNESS, CONTRAST = tl.constexpr(CODE["brightness"]), tl.constexpr(CODE["contrast"])
SATURATION, HUE = tl.constexpr(CODE["saturation"]), tl.constexpr(CODE["hue"])
GREY, BLUR = tl.constexpr(CODE["grey"]), tl.constexpr(CODE["blur"])
SHARPNESS, INVERT = tl.constexpr(CODE["sharpness"]), tl.constexpr(CODE["invert"])
AUTOCONTRAST, EQUALIZE = tl.constexpr(CODE["autocontrast"]), tl.constexpr(CODE["equalize"])
POSTERIZE, SOLARIZE = tl.constexpr(CODE["posterize"]), tl.constexpr(CODE["solarize"])
SOLARIZE_ADD, ROTATE = tl.constexpr(CODE["solarize_add"]), tl.constexpr(CODE["rotate"])
SHIFT, HALF = tl.constexpr(BITS), tl.constexpr(1 << (BITS - 1))
# Numbers of a step: code, value, cubic, and the six entries of the affine map.
NUMBERS = 9
BLOCK, WARPS = 1024, 16


@triton.jit
def _load(view, pixel, inside, PIXELS: tl.constexpr):
    """Return the three channels of pixels of a view."""
    r = tl.load(view + pixel, mask=inside, other=0.0).to(tl.float32)
    g = tl.load(view + PIXELS + pixel, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(view + 2 * PIXELS + pixel, mask=inside, other=0.0).to(tl.float32)
    return r, g, b


@triton.jit
def _store(view, pixel, inside, r, g, b, PIXELS: tl.constexpr):
    tl.store(view + pixel, r.to(tl.float16), mask=inside)
    tl.store(view + PIXELS + pixel, g.to(tl.float16), mask=inside)
    tl.store(view + 2 * PIXELS + pixel, b.to(tl.float16), mask=inside)


@triton.jit
def _crop(
    image, width, rows, columns, weights, taps_down, taps_across, taps, view,
    SIZE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Resize a box; ``rows`` and ``columns`` are first sources, ``weights`` [2, SIZE, taps]."""
    PIXELS: tl.constexpr = SIZE * SIZE
    for start in range(0, PIXELS, BLOCK):
        pixel = start + tl.arange(0, BLOCK)
        inside = pixel < PIXELS
        y, x = pixel // SIZE, pixel % SIZE
        row = tl.load(rows + y, mask=inside, other=0)
        column = tl.load(columns + x, mask=inside, other=0)
        r = tl.full((BLOCK,), HALF, tl.int32)
        g, b = r, r
        for i in range(taps_down):
            down = tl.load(weights + y * taps + i, mask=inside, other=0)
            # A tap without weight may be outside the image.
            line = inside & (down != 0)
            p = tl.full((BLOCK,), HALF, tl.int32)
            q, s = p, p
            for j in range(taps_across):
                across = tl.load(weights + (SIZE + x) * taps + j, mask=line, other=0)
                used = line & (across != 0)
                source = image + ((row + i).to(tl.int64) * width + column + j) * 3
                p += tl.load(source, mask=used, other=0).to(tl.int32) * across
                q += tl.load(source + 1, mask=used, other=0).to(tl.int32) * across
                s += tl.load(source + 2, mask=used, other=0).to(tl.int32) * across
            r += (p >> SHIFT) * down
            g += (q >> SHIFT) * down
            b += (s >> SHIFT) * down
        _store(view, pixel, inside, r >> SHIFT, g >> SHIFT, b >> SHIFT, PIXELS)


@triton.jit
def _mean_grey(view, PIXELS: tl.constexpr, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.int32)
    for start in range(0, PIXELS, BLOCK):
        pixel = start + tl.arange(0, BLOCK)
        r, g, b = _load(view, pixel, pixel < PIXELS, PIXELS)
        total += _grey(r, g, b).to(tl.int32)
    mean = tl.sum(total, 0).to(tl.float64) / PIXELS
    return tl.floor(mean + 0.5).to(tl.float32)


@triton.jit
def _recolour(view, code, value, PIXELS: tl.constexpr, BLOCK: tl.constexpr):
    """Adjust brightness, contrast, saturation or hue, or make the view grey."""
    mean = 0.0
    if code == CONTRAST:
        mean = _mean_grey(view, PIXELS, BLOCK)
        tl.debug_barrier()
    factor = value.to(tl.float32)
    for start in range(0, PIXELS, BLOCK):
        pixel = start + tl.arange(0, BLOCK)
        inside = pixel < PIXELS
        r, g, b = _load(view, pixel, inside, PIXELS)
        if code == HUE:
            r, g, b = _turned(r, g, b, value)
        else:
            grey = _grey(r, g, b)
            target = tl.where(code == SATURATION, grey, mean)
            r, g, b = (
                _blend(target, r, factor),
                _blend(target, g, factor),
                _blend(target, b, factor),
            )
            r, g, b = (
                tl.where(code == GREY, grey, r),
                tl.where(code == GREY, grey, g),
                tl.where(code == GREY, grey, b),
            )
        _store(view, pixel, inside, r, g, b, PIXELS)


@triton.jit
def _table(plane, code, value, PIXELS: tl.constexpr, BLOCK: tl.constexpr):
    """Return the new levels [256] of the levels of one channel."""
    level = tl.arange(0, 256)
    new = level
    if code == INVERT:
        new = 255 - level
    elif code == POSTERIZE:
        step = tl.exp2(8.0 - value.to(tl.float32)).to(tl.int32)
        new = level // step * step
    elif code == SOLARIZE:
        new = tl.where(level < value, level, 255 - level)
    elif code == SOLARIZE_ADD:
        new = tl.where(level < 128, tl.minimum(level + value.to(tl.int32), 255), level)
    else:
        count = tl.zeros((256,), tl.int32)
        for start in range(0, PIXELS, BLOCK):
            pixel = start + tl.arange(0, BLOCK)
            inside = pixel < PIXELS
            count += tl.histogram(tl.load(plane + pixel, mask=inside, other=0.0).to(tl.int32), 256)
        # Pixels beyond the end were counted as black.
        beyond: tl.constexpr = (PIXELS + BLOCK - 1) // BLOCK * BLOCK - PIXELS
        count -= tl.where(level == 0, beyond, 0)
        high = tl.max(tl.where(count > 0, level, 0), 0)
        if code == EQUALIZE:
            step = (PIXELS - tl.sum(tl.where(level == high, count, 0), 0)) // 255
            below = tl.cumsum(count, 0) - count
            spread = tl.minimum((step // 2 + below) // tl.maximum(step, 1), 255)
            new = tl.where(step > 0, spread, level)
        else:
            low = tl.min(tl.where(count > 0, level, 255), 0)
            span = tl.maximum(high - low, 1).to(tl.float64)
            scale = 255.0 / span
            stretched = level.to(tl.float64) * scale + (-low.to(tl.float64) * scale)
            stretched = tl.floor(tl.minimum(tl.maximum(stretched, 0.0), 255.0)).to(tl.int32)
            new = tl.where(high > low, stretched, level)
    return new


@triton.jit
def _relevel(view, table, code, value, PIXELS: tl.constexpr, BLOCK: tl.constexpr):
    """Map the levels of each channel through a table, in scratch [256]."""
    for channel in range(3):
        plane = view + channel * PIXELS
        tl.store(table + tl.arange(0, 256), _table(plane, code, value, PIXELS, BLOCK))
        tl.debug_barrier()
        for start in range(0, PIXELS, BLOCK):
            pixel = start + tl.arange(0, BLOCK)
            inside = pixel < PIXELS
            level = tl.load(plane + pixel, mask=inside, other=0.0).to(tl.int32)
            tl.store(plane + pixel, tl.load(table + level).to(tl.float16), mask=inside)
        tl.debug_barrier()


@triton.jit
def _sharpen(view, other, value, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    """Blend with the smoothed view, except at the border."""
    PIXELS: tl.constexpr = SIZE * SIZE
    factor = value.to(tl.float32)
    for start in range(0, 3 * PIXELS, BLOCK):
        index = start + tl.arange(0, BLOCK)
        inside = index < 3 * PIXELS
        pixel = index % PIXELS
        y, x = pixel // SIZE, pixel % SIZE
        inner = inside & (y > 0) & (y < SIZE - 1) & (x > 0) & (x < SIZE - 1)
        centre = tl.load(view + index, mask=inside, other=0.0).to(tl.float32)
        total = 4 * centre
        for i in tl.static_range(3):
            for j in tl.static_range(3):
                near = view + index + (i - 1) * SIZE + (j - 1)
                total += tl.load(near, mask=inner, other=0.0).to(tl.float32)
        smooth = tl.where(inner, tl.floor(total / 13 + 0.5), centre)
        tl.store(other + index, _blend(smooth, centre, factor).to(tl.float16), mask=inside)


@triton.jit
def _cubic(a, b, c, e, d):
    return b + d * (c - a + d * (2 * (a - b) + c - e + d * (-a + b - c + e)))


@triton.jit
def _at(plane, y, x, inside, SIZE: tl.constexpr):
    y = tl.minimum(tl.maximum(y, 0), SIZE - 1)
    x = tl.minimum(tl.maximum(x, 0), SIZE - 1)
    return tl.load(plane + y * SIZE + x, mask=inside, other=0.0).to(tl.float64)


@triton.jit
def _cubic_row(plane, y, x, dx, inside, SIZE: tl.constexpr):
    return _cubic(
        _at(plane, y, x - 1, inside, SIZE),
        _at(plane, y, x, inside, SIZE),
        _at(plane, y, x + 1, inside, SIZE),
        _at(plane, y, x + 2, inside, SIZE),
        dx,
    )


@triton.jit
def _linear_row(plane, y, x, dx, inside, SIZE: tl.constexpr):
    left = _at(plane, y, x, inside, SIZE)
    return left + (_at(plane, y, x + 1, inside, SIZE) - left) * dx


@triton.jit
def _warp(view, other, step, fill, cubic, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    """Move pixels under an affine map; see `image_ops.warp`."""
    PIXELS: tl.constexpr = SIZE * SIZE
    a, b, c = tl.load(step + 3), tl.load(step + 4), tl.load(step + 5)
    d, e, f = tl.load(step + 6), tl.load(step + 7), tl.load(step + 8)
    for start in range(0, 3 * PIXELS, BLOCK):
        index = start + tl.arange(0, BLOCK)
        inside = index < 3 * PIXELS
        channel, pixel = index // PIXELS, index % PIXELS
        row, column = (pixel // SIZE).to(tl.float64) + 0.5, (pixel % SIZE).to(tl.float64) + 0.5
        across = a * column + b * row + c
        down = d * column + e * row + f
        within = (across >= 0) & (across < SIZE) & (down >= 0) & (down < SIZE)
        across, down = across - 0.5, down - 0.5
        left, top = tl.floor(across), tl.floor(down)
        dx, dy = across - left, down - top
        x, y = left.to(tl.int32), top.to(tl.int32)
        read, plane = inside & within, view + channel * PIXELS
        if cubic != 0:
            moved = _cubic(
                _cubic_row(plane, y - 1, x, dx, read, SIZE),
                _cubic_row(plane, y, x, dx, read, SIZE),
                _cubic_row(plane, y + 1, x, dx, read, SIZE),
                _cubic_row(plane, y + 2, x, dx, read, SIZE),
                dy,
            )
        else:
            upper = _linear_row(plane, y, x, dx, read, SIZE)
            moved = upper + (_linear_row(plane, y + 1, x, dx, read, SIZE) - upper) * dy
        moved = tl.floor(tl.minimum(tl.maximum(moved, 0.0), 255.0)).to(tl.float32)
        outside = tl.load(fill + channel, mask=inside, other=0.0)
        moved = tl.where(within, moved, outside)
        tl.store(other + index, moved.to(tl.float16), mask=inside)


@triton.jit
def _smear(
    view, other, sigma, DOWN: tl.constexpr, RADIUS: tl.constexpr, SIZE: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Blur along one axis; the second pass, downwards, rounds to levels."""
    PIXELS: tl.constexpr = SIZE * SIZE
    for start in range(0, 3 * PIXELS, BLOCK):
        index = start + tl.arange(0, BLOCK)
        inside = index < 3 * PIXELS
        pixel = index % PIXELS
        y, x = pixel // SIZE, pixel % SIZE
        along = y if DOWN else x
        total = tl.zeros((BLOCK,), tl.float32)
        weights = 0.0
        for k in range(-RADIUS, RADIUS + 1):
            share = k / sigma
            weight = tl.exp(-share * share / 2)
            # Reflected at the borders, whose pixels are not repeated.
            source = (SIZE - 1) - tl.abs(tl.abs(along + k) - (SIZE - 1))
            moved = index + (source - along) * (SIZE if DOWN else 1)
            total += weight * tl.load(view + moved, mask=inside, other=0.0).to(tl.float32)
            weights += weight
        total = total / weights
        if DOWN:
            total = tl.floor(total + 0.5)
        tl.store(other + index, total.to(tl.float16), mask=inside)


@triton.jit
def _render(
    pixels, offsets, sizes, rows, columns, weights, counts, taps, steps, fill, scratch, tables,
    scales, shifts, out, SIZE: tl.constexpr, STEPS: tl.constexpr, NUMBERS: tl.constexpr,
    RADIUS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Write view i, normalized, with the channels of a pixel side by side."""
    i = tl.program_id(0).to(tl.int64)
    PIXELS: tl.constexpr = SIZE * SIZE
    view = scratch + i * (6 * PIXELS)
    table = tables + i * 256
    _crop(
        pixels + tl.load(offsets + i), tl.load(sizes + 2 * i + 1), rows + i * SIZE,
        columns + i * SIZE, weights + i * (2 * SIZE) * taps, tl.load(counts + 2 * i),
        tl.load(counts + 2 * i + 1), taps, view, SIZE, BLOCK,
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
            elif code == BLUR:
                _smear(now, other, value.to(tl.float32), False, RADIUS, SIZE, BLOCK)
                tl.debug_barrier()
                _smear(other, now, value.to(tl.float32), True, RADIUS, SIZE, BLOCK)
            elif code == SHARPNESS:
                _sharpen(now, other, value, SIZE, BLOCK)
                here = 1 - here
            elif code >= ROTATE:
                _warp(now, other, step, fill, tl.load(step + 2), SIZE, BLOCK)
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
        scale = tl.load(scales + channel, mask=inside, other=0.0)
        shift = tl.load(shifts + channel, mask=inside, other=0.0)
        tl.store(out + index, level * scale + shift, mask=inside)


class Plan(NamedTuple):
    """Parameters of views as the kernel reads them, on the device.

    Attributes:
        rows: First source row of each row of a view, [n, size].
        columns: First source column of each column, [n, size].
        weights: Weights of the taps of rows and columns, [n, 2, size, taps].
        counts: Taps of rows and of columns, [n, 2].
        steps: Steps with their affine maps, [n, 8, 9].
    """

    rows: Tensor
    columns: Tensor
    weights: Tensor
    counts: Tensor
    steps: Tensor


def plan(parameters: Tensor, size: int, taps: int) -> Plan:
    """Compute a plan of views on the device of their parameters [n, 33].

    ``taps`` is `photo_views.most_taps` of the parameters, or more.
    """
    steps = parameters[:, 9:].unflatten(1, (STEPS, 3))
    maps = matrices(steps[:, :, 0], steps[:, :, 1], size)
    rows, columns = axis_taps(parameters, size, taps)
    ratio = parameters[:, 2:4] / parameters[:, 4:6]
    return Plan(
        rows.first,
        columns.first.contiguous(),
        torch.stack((rows.weight, columns.weight), 1),
        (2 * ratio.clamp_min(1.0)).ceil().int(),
        torch.cat((steps, maps.flatten(2)), 2),
    )


class Renderer:
    """Views of chosen images as input of a network.

    Args:
        number: Most views of a call.
        size: Height and width of the views.
        mean: Mean per channel, in [0, 1].
        std: Standard deviation per channel.
        fill: Colour of pixels from outside an image, in levels.
        device: Device of the pixels.
    """

    def __init__(
        self,
        number: int,
        size: int,
        mean: Colour,
        std: Colour,
        fill: Colour,
        device: torch.device,
    ) -> None:
        self.size = size
        self.scratch = torch.empty(number, 6 * size * size, dtype=torch.float16, device=device)
        self.tables = torch.empty(number, 256, dtype=torch.int32, device=device)
        self.scales = torch.tensor([1 / (255 * s) for s in std], device=device)
        self.shifts = torch.tensor([-m / s for m, s in zip(mean, std, strict=True)], device=device)
        self.fill = torch.tensor(fill, dtype=torch.float32, device=device)

    @property
    def bytes(self) -> int:
        """Bytes of the buffers."""
        return sum(a.numel() * a.element_size() for a in (self.scratch, self.tables))

    def __call__(
        self, pixels: Tensor, offsets: Tensor, sizes: Tensor, plan: Plan, out: Tensor
    ) -> None:
        """Write views.

        Args:
            pixels: Decoded images, flat uint8.
            offsets: First byte [n] of each image, int64.
            sizes: Heights and widths [n, 2] of the images, int32.
            plan: Plan of n views.
            out: Normalized views [n, 3, size, size], channels last, to be written. All tensors are
                on the device.
        """
        with device_of(pixels):
            _render[(len(offsets),)](
                pixels, offsets, sizes, plan.rows, plan.columns, plan.weights, plan.counts,
                plan.weights.shape[-1], plan.steps, self.fill, self.scratch, self.tables,
                self.scales, self.shifts, out, self.size, STEPS, NUMBERS, blur_radius(self.size),
                BLOCK, num_warps=WARPS,
                # A fused operation is rounded once, and sometimes truncated to a level below.
                enable_fp_fusion=False,
            )  # fmt: skip
