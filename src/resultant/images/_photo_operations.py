"""Operations on a view in its scratch, with the arithmetic of Pillow on x86 (on ARM, Pillow fuses
the products of a blend), which truncates after every step: one level becomes many in the next."""

# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportIndexIssue=false
# pyright: reportCallIssue=false, reportGeneralTypeIssues=false, reportOperatorIssue=false
# pyright: reportPossiblyUnboundVariable=false, reportInvalidTypeForm=false

from __future__ import annotations

import triton
import triton.language as tl

from resultant.images import photo_views as views
from resultant.images.photo_views import CODE

CONTRAST = tl.constexpr(CODE["contrast"])
SATURATION, HUE = tl.constexpr(CODE["saturation"]), tl.constexpr(CODE["hue"])
GREY, SHARPNESS = tl.constexpr(CODE["grey"]), tl.constexpr(CODE["sharpness"])
INVERT, ROTATE = tl.constexpr(CODE["invert"]), tl.constexpr(CODE["rotate"])
EQUALIZE = tl.constexpr(CODE["equalize"])
POSTERIZE, SOLARIZE = tl.constexpr(CODE["posterize"]), tl.constexpr(CODE["solarize"])
SOLARIZE_ADD = tl.constexpr(CODE["solarize_add"])
BILINEAR, NEAREST = tl.constexpr(views.BILINEAR), tl.constexpr(views.NEAREST)
# Luminance weights of Pillow: multiples of 1/65536, whose float32 sums are exact.
R, G, B = (tl.constexpr(weight / 65536) for weight in (19595, 38470, 7471))
# A hue is a byte; a sixth of the circle is 42.5 of its steps, or 85 half steps.
TURN = tl.constexpr(85)


@triton.jit
def _grey(r, g, b):
    return tl.floor(r * R + g * G + b * B + 0.5)


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
    """Turn the hues by ``turn``, in turns within [-1/2, 1/2]. A step of the hue, a byte in Pillow,
    is up to six levels, so the hue follows the roundings of Pillow."""
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
            r = tl.where(code == GREY, grey, _blend(target, r, factor))
            g = tl.where(code == GREY, grey, _blend(target, g, factor))
            b = tl.where(code == GREY, grey, _blend(target, b, factor))
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
def _warp(view, other, step, fill, filter, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    """Move pixels under an affine map; pixels from outside the view have the colour ``fill``. The
    map of the nearest pixel is in multiples of 2^-16 and includes the half pixel of the centre."""
    PIXELS: tl.constexpr = SIZE * SIZE
    a, b, c = tl.load(step + 3), tl.load(step + 4), tl.load(step + 5)
    d, e, f = tl.load(step + 6), tl.load(step + 7), tl.load(step + 8)
    for start in range(0, 3 * PIXELS, BLOCK):
        index = start + tl.arange(0, BLOCK)
        inside = index < 3 * PIXELS
        channel, pixel = index // PIXELS, index % PIXELS
        half = tl.where(filter == NEAREST, 0.0, 0.5)
        row, column = (pixel // SIZE).to(tl.float64) + half, (pixel % SIZE).to(tl.float64) + half
        across = a * column + b * row + c
        down = d * column + e * row + f
        if filter == NEAREST:
            across, down = tl.floor(across / 65536), tl.floor(down / 65536)
        within = (across >= 0) & (across < SIZE) & (down >= 0) & (down < SIZE)
        across, down = across - half, down - half
        left, top = tl.floor(across), tl.floor(down)
        dx, dy = across - left, down - top
        x, y = left.to(tl.int32), top.to(tl.int32)
        read, plane = inside & within, view + channel * PIXELS
        if filter == NEAREST:
            moved = _at(plane, y, x, read, SIZE)
        elif filter == BILINEAR:
            upper = _linear_row(plane, y, x, dx, read, SIZE)
            moved = upper + (_linear_row(plane, y + 1, x, dx, read, SIZE) - upper) * dy
        else:
            moved = _cubic(
                _cubic_row(plane, y - 1, x, dx, read, SIZE),
                _cubic_row(plane, y, x, dx, read, SIZE),
                _cubic_row(plane, y + 1, x, dx, read, SIZE),
                _cubic_row(plane, y + 2, x, dx, read, SIZE),
                dy,
            )
        moved = tl.floor(tl.minimum(tl.maximum(moved, 0.0), 255.0)).to(tl.float32)
        outside = tl.load(fill + channel, mask=inside, other=0.0)
        moved = tl.where(within, moved, outside)
        tl.store(other + index, moved.to(tl.float16), mask=inside)
