"""`ContrastiveView` and patches for the network as two Triton kernels, one program per image.

An image stays in registers from crop to grey, with the arithmetic of Pillow on x86 step by step.
"""

# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportIndexIssue=false
# pyright: reportCallIssue=false, reportGeneralTypeIssues=false, reportOperatorIssue=false
# pyright: reportPossiblyUnboundVariable=false, reportInvalidTypeForm=false

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from resultant._core.device import device_of
from resultant.images.augment import ContrastiveView
from resultant.images.drawing import MEAN, PATCH, STD, channel_lines

# Luminance weights of Pillow: multiples of 1/65536, whose float32 sums are exact.
GREY = (19595 / 65536, 38470 / 65536, 7471 / 65536)
# A hue is a byte; a sixth of the circle is 42.5 of its steps, or 85 half steps.
SIXTH = 85

R, G, B = (tl.constexpr(weight) for weight in GREY)
TURN = tl.constexpr(SIXTH)
PIXELS = 128


@triton.jit
def _grey(r, g, b):
    return tl.floor(r * R + g * G + b * B + 0.5)


@triton.jit
def _between(low, high, weight):
    """Interpolate; the half level added turns truncation into rounding."""
    return tl.floor(low + 0.5 + weight * (high - low))


@triton.jit
def _channel(image, top, bottom, left, right, down, across, SIZE: tl.constexpr):
    """Return a channel of the enlarged crop: first horizontally, then vertically."""
    a = tl.load(image + top * SIZE + left).to(tl.float32)
    b = tl.load(image + top * SIZE + right).to(tl.float32)
    c = tl.load(image + bottom * SIZE + left).to(tl.float32)
    d = tl.load(image + bottom * SIZE + right).to(tl.float32)
    return _between(_between(a, b, across), _between(c, d, across), down)


@triton.jit
def _source(t, start, length, SIZE: tl.constexpr):
    """Return the two pixels around position t of the enlarged box, and the weight of the second."""
    at = tl.maximum(t * (length / SIZE) - 0.5, 0.0)
    at = tl.minimum(at, length - 1.0)
    low = tl.floor(at)
    first = (low + start).to(tl.int32)
    return first, tl.minimum(first + 1, SIZE - 1), at - low


@triton.jit
def _blend(target, x, factor):
    return tl.floor(tl.minimum(tl.maximum((x - target) * factor + target, 0.0), 255.0))


@triton.jit
def _shade(along, value, saturation):
    fall = tl.minimum(tl.maximum(tl.minimum(along, 4 * TURN - along), 0), TURN)
    full = value * (255 * TURN - saturation * fall)
    return ((2 * full + 255 * TURN) // (2 * 255 * TURN)).to(tl.float32)


@triton.jit
def _turned(r, g, b, turn):
    """Turn the hues by ``turn``, in turns within [-1/2, 1/2].

    Pillow stores hue, saturation and value as bytes. A step of the hue is up to six levels, so the
    hue follows the roundings of Pillow (float32, and float64 for the quotient by 6).
    """
    value = tl.maximum(tl.maximum(r, g), b)
    least = tl.minimum(tl.minimum(r, g), b)
    chroma = value - least
    middle = r + g + b - value - least
    far = ((value - middle).to(tl.float64) / tl.maximum(chroma, 1.0).to(tl.float64)).to(tl.float32)
    g_least, r_least = g == least, r == least
    red, green = r == value, g == value
    up = (red & g_least) | (~red & green & ~r_least) | (~red & ~green & r_least)
    start = tl.where(red, 0.0, tl.where(green, 2.0, 4.0))
    sixth = tl.where(up, start - 1 + far, start + 1 - far)
    part = sixth.to(tl.float64) / 6 + 1
    part = (part - tl.floor(part)).to(tl.float32)
    hue = ((part * 255).to(tl.int32) + (turn * 255).to(tl.int32)) & 255
    value, chroma = value.to(tl.int32), chroma.to(tl.int32)
    saturation = 255 * chroma // tl.maximum(value, 1)
    return (
        _shade((hue * 2 + 5 * TURN) % (6 * TURN), value, saturation),
        _shade((hue * 2 + 3 * TURN) % (6 * TURN), value, saturation),
        _shade((hue * 2 + 1 * TURN) % (6 * TURN), value, saturation),
    )


@triton.jit
def _view(
    images, rows, parameters, out, number, out_stride, COLUMNS: tl.constexpr,
    SIZE: tl.constexpr, HUE: tl.constexpr,
):  # fmt: skip
    """Write view j of ``number`` views of group i, of the image with index ``rows[i, j]``."""
    i, j = tl.program_id(0).to(tl.int64), tl.program_id(1)
    draw = parameters + (i * number + j) * COLUMNS
    pixel = tl.arange(0, SIZE * SIZE)
    y, x = pixel // SIZE, pixel % SIZE
    flip = tl.load(draw + 4)
    x = tl.where(flip != 0, SIZE - 1 - x, x)
    top, bottom, down = _source(y + 0.5, tl.load(draw), tl.load(draw + 2), SIZE)
    left, right, across = _source(x + 0.5, tl.load(draw + 1), tl.load(draw + 3), SIZE)
    image = images + tl.load(rows + i * number + j) * 3 * SIZE * SIZE
    plane: tl.constexpr = SIZE * SIZE
    r = _channel(image, top, bottom, left, right, down, across, SIZE)
    g = _channel(image + plane, top, bottom, left, right, down, across, SIZE)
    b = _channel(image + 2 * plane, top, bottom, left, right, down, across, SIZE)

    if tl.load(draw + 5) != 0:
        order_b, order_c = tl.load(draw + 11), tl.load(draw + 12)
        order_s, order_h = tl.load(draw + 13), tl.load(draw + 14)
        round_b = order_b + 2 * (order_b > order_h).to(tl.float32)
        round_c = order_c + 2 * (order_c > order_h).to(tl.float32)
        round_s = order_s + 2 * (order_s > order_h).to(tl.float32)
        for k in tl.static_range(6):
            if HUE and k == 3:
                r, g, b = _turned(r, g, b, tl.load(draw + 10))
            factor = (
                tl.where(round_b == k, tl.load(draw + 7), 1.0)
                * tl.where(round_c == k, tl.load(draw + 8), 1.0)
                * tl.where(round_s == k, tl.load(draw + 9), 1.0)
            )
            grey = _grey(r, g, b)
            mean = tl.floor(tl.sum(grey, 0) / (SIZE * SIZE) + 0.5)
            target = tl.where(round_c == k, mean, 0.0) + tl.where(round_s == k, grey, 0.0)
            r, g, b = (
                _blend(target, r, factor),
                _blend(target, g, factor),
                _blend(target, b, factor),
            )
    if tl.load(draw + 6) != 0:
        r = _grey(r, g, b)
        g, b = r, r
    target_pixel = out + i * out_stride + j * 3 * plane + pixel
    tl.store(target_pixel, r.to(tl.int32).to(tl.uint8))
    tl.store(target_pixel + plane, g.to(tl.int32).to(tl.uint8))
    tl.store(target_pixel + 2 * plane, b.to(tl.int32).to(tl.uint8))


@triton.jit
def _patches(
    levels, out, scales, shifts, number, groups, SIZE: tl.constexpr, PATCH: tl.constexpr,
    PIXELS: tl.constexpr,
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
    scale, shift = tl.load(scales + channel), tl.load(shifts + channel)
    value = tl.where(inside, level * scale[None, :] + shift[None, :], 0.0)
    tl.store(out + pixel[:, None] * (groups * PATCH) + entry[None, :], value)


class PatchedViews:
    """Views of chosen images out of ``images`` uint8 [n, 3, S, S], as patches for the network."""

    def __init__(self, view: ContrastiveView, images: Tensor, dtype: torch.dtype) -> None:
        self.view, self.images, self.dtype = view, images, dtype
        # On the device beforehand: numbers would be copied at every call.
        scales, shifts = channel_lines(MEAN, STD)
        self.scales = torch.tensor(scales, device=images.device)
        self.shifts = torch.tensor(shifts, device=images.device)

    def __call__(self, rows: Tensor, parameters: Tensor, ready: Tensor | None) -> Tensor:
        """Return patches [n + m, G * 32, S, S] of the images at indices ``rows`` [G, n].

        Their views have parameters [G, n, 15]; finished views ``ready`` [G, m, 3, S, S] follow.
        """
        images, (groups, number) = self.images, rows.shape
        size, total = images.shape[-1], number + (0 if ready is None else ready.shape[1])
        levels = images.new_empty(groups, total, 3, size, size)
        out = images.new_empty(total, size, size, groups * PATCH, dtype=self.dtype)
        if ready is not None:
            levels[:, number:] = ready
        with device_of(images):
            if number:
                _view[(groups, number)](
                    images, rows.contiguous(), parameters.contiguous(), levels, number,
                    levels.stride(0), len(self.view.columns), size, bool(self.view.hue),
                    # A fused operation is rounded once, and sometimes truncated to a level below.
                    enable_fp_fusion=False,
                )  # fmt: skip
            pixels = min(PIXELS, size * size)
            _patches[(groups, total, size * size // pixels)](
                levels, out, self.scales, self.shifts, total, groups, size, PATCH, pixels
            )
        return out.permute(0, 3, 1, 2)
