"""Elementary operations on batches of images, equal to those of PIL on each image.

Images are float tensors [N, 3, H, W] of integer levels 0, ..., 255, before and after; parameters
are [N], one per image. PIL works in integers and truncates after every step. The arithmetic here is
the same, as one level more or less in one operation becomes many in the next (equalization, hue).
Nothing waits for the device, and no shape depends on data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

# Channels of a 3 x 3 x 3 neighbourhood of a pixel, padded for the tensor cores.
PATCH = 32

# Attempts at a box within the image.
ATTEMPTS = 10

# Luminance weights of PIL: multiples of 1/65536, whose float32 sums are exact.
GREY = (19595 / 65536, 38470 / 65536, 7471 / 65536)

# A hue is a byte; a sixth of the circle is 42.5 of its steps, or 85 half steps.
SIXTH = 85


def per_image(a: Tensor) -> Tensor:
    """Reshape [N] to [N, 1, 1, 1]."""
    return a[:, None, None, None]


def grey(x: Tensor) -> Tensor:
    """Return the luminance [N, 1, H, W] of ``x`` [N, 3, H, W]."""
    r, g, b = x.split(1, dim=1)
    return r.mul(GREY[0]).add_(g, alpha=GREY[1]).add_(b, alpha=GREY[2]).add_(0.5).floor_()


def mean_level(x: Tensor) -> Tensor:
    """Return the mean [N, 1, 1, 1] of images, rounded to a level."""
    # In float64: the sum of a large image is not exact in float32.
    return x.mean((1, 2, 3), keepdim=True, dtype=torch.float64).add_(0.5).floor_().to(x.dtype)


def blend(target: Tensor, x: Tensor, factor: Tensor) -> Tensor:
    """Return ``target + factor (x - target)``, truncated to levels."""
    # Product and sum are rounded separately, as in Pillow on x86: a fused operation is rounded
    # once, and sometimes truncated to the level below.
    return (x - target).mul_(factor).add_(target).clamp_(0, 255).floor_()


def adjust_brightness(x: Tensor, factor: Tensor) -> Tensor:
    """Scale the difference from black by ``factor`` [N]."""
    return blend(torch.zeros_like(x[:, :1]), x, per_image(factor))


def adjust_contrast(x: Tensor, factor: Tensor) -> Tensor:
    """Scale the difference from the mean luminance by ``factor`` [N]."""
    return blend(mean_level(grey(x)), x, per_image(factor))


def adjust_saturation(x: Tensor, factor: Tensor) -> Tensor:
    """Scale the difference from the luminance of each pixel by ``factor`` [N]."""
    return blend(grey(x), x, per_image(factor))


def adjust_sharpness(x: Tensor, factor: Tensor) -> Tensor:
    """Scale the difference from the smoothed image by ``factor`` [N], except at the border."""
    inner = x[:, :, 1:-1, 1:-1]
    total = avg_pool2d(x, 3, stride=1, divisor_override=1)
    smooth = x.clone()
    # Weight 5 for the pixel and 1 for each neighbour; multiples of 1/13 are never half-way.
    smooth[:, :, 1:-1, 1:-1] = ((total + 4 * inner) / 13).round_()
    return blend(smooth, x, per_image(factor))


def adjust_hue(x: Tensor, turn: Tensor) -> Tensor:
    """Turn the hues by ``turn`` [N], in turns within [-1/2, 1/2].

    PIL stores hue, saturation and value as bytes. A step of the hue is up to six levels, so the hue
    follows the roundings of PIL (float32, and float64 for the quotient by 6); the rest is integers.
    """
    r, g, _ = x.unbind(1)
    value, least = x.amax(1), x.amin(1)
    chroma = value - least
    # The hue in sixths of the circle: 0, 2 or 4 for the largest channel (red, green, blue), moved
    # toward the middle channel.
    middle = x.sum(1) - value - least
    # In float64: compiled kernels do not round float32 quotients correctly.
    far = ((value - middle).double() / chroma.double().clamp_min(1)).float()
    g_least, r_least = g == least, r == least
    up = torch.where(r == value, g_least, torch.where(g == value, ~r_least, r_least))
    start = torch.where(r == value, 0.0, torch.where(g == value, 2.0, 4.0))
    sixth = torch.where(up, start - 1 + far, start + 1 - far)
    part = (sixth.double() / 6 + 1).frac_().float()
    hue = part.mul_(255).int() + turn.mul(255).int()[:, None, None]
    value, chroma = value.int(), chroma.int()
    saturation = 255 * chroma // value.clamp_min(1)
    # Red is full within a sixth of the circle and falls over the next sixth; green and blue are
    # the same, shifted by one and two thirds.
    ahead = torch.arange(5, 0, -2, device=x.device, dtype=torch.int32)[:, None, None]
    along = ((hue & 255)[:, None] * 2 + ahead * SIXTH) % (6 * SIXTH)
    fall = torch.minimum(along, 4 * SIXTH - along).clamp_(0, SIXTH)
    one = 255 * SIXTH
    full = value[:, None] * (one - saturation[:, None] * fall)
    return ((2 * full + one) // (2 * one)).to(x.dtype)


def invert(x: Tensor) -> Tensor:
    """Invert the levels."""
    return 255 - x


def posterize(x: Tensor, bits: Tensor) -> Tensor:
    """Keep the leading ``bits`` [N] of each level."""
    step = torch.exp2(8 - per_image(bits))
    return (x / step).floor_() * step


def solarize(x: Tensor, threshold: Tensor) -> Tensor:
    """Invert the levels from ``threshold`` [N] on."""
    return torch.where(x < per_image(threshold), x, 255 - x)


def solarize_add(x: Tensor, amount: Tensor) -> Tensor:
    """Add ``amount`` [N] to the levels below 128, up to 255."""
    return torch.where(x < 128, (x + per_image(amount)).clamp_(max=255), x)


def autocontrast(x: Tensor) -> Tensor:
    """Stretch each channel over all levels; a channel of one level is unchanged."""
    low, high = x.amin((2, 3), keepdim=True).double(), x.amax((2, 3), keepdim=True).double()
    span = high - low
    # In float64 and in this order, as results are often one rounding below a level.
    scale = torch.full_like(span, 255) / span.clamp_min(1)
    stretched = (x * scale + (-low * scale)).clamp_(0, 255).floor_()
    return torch.where(span > 0, stretched.to(x.dtype), x)


def equalize(x: Tensor) -> Tensor:
    """Spread the levels of each channel evenly over the pixels."""
    level = x.flatten(2).long()
    count = level.new_zeros(*level.shape[:2], 256)
    count.scatter_add_(2, level, torch.ones_like(level))
    brightest = count.gather(2, level.amax(2, keepdim=True))
    step = (level.shape[2] - brightest) // 255
    below = count.cumsum(2) - count
    spread = ((step // 2 + below) // step.clamp_min(1)).clamp_(max=255)
    spread = torch.where(step > 0, spread, torch.arange(256, device=x.device))
    return spread.gather(2, level).view_as(x).to(x.dtype)


def draw_boxes(
    sizes: Tensor,
    scale: tuple[float, float],
    ratio: tuple[float, float],
    uniform: Callable[[int], Tensor],
) -> Tensor:
    """Draw boxes [N, 4] of images of ``sizes`` [N, 2], as RandomResizedCrop of torchvision does.

    Args:
        sizes: Heights and widths of the images, in float64.
        scale: Range of the area, as a share of the image.
        ratio: Range of the aspect ratio.
        uniform: Function that draws uniform numbers [N, k] in float64.

    Returns:
        Top, left, height and width: the first attempt that fits, or the largest box in the middle.
    """
    area, aspect, corner = uniform(ATTEMPTS), uniform(ATTEMPTS), uniform(2)
    low, high = scale
    area = sizes.prod(1, keepdim=True) * (low + (high - low) * area)
    low, high = map(math.log, ratio)
    aspect = torch.exp(low + (high - low) * aspect)
    sides = torch.stack((torch.sqrt(area / aspect), torch.sqrt(area * aspect)), 2).round_()
    fits = ((sides > 0) & (sides <= sizes[:, None])).all(2)
    chosen = sides[torch.arange(len(sizes)), fits.int().argmax(1)]
    start = (corner * (sizes - chosen + 1)).floor()
    height, width = sizes.unbind(1)
    narrow, wide = width / height < ratio[0], width / height > ratio[1]
    largest = torch.stack(
        (
            torch.where(narrow, (width / ratio[0]).round(), height),
            torch.where(wide, (height * ratio[1]).round(), width),
        ),
        1,
    )
    middle = ((sizes - largest) / 2).floor()
    fitted = fits.any(1, keepdim=True)
    return torch.cat((torch.where(fitted, start, middle), torch.where(fitted, chosen, largest)), 1)


def draw_factors(spreads: Sequence[float], hue: float, share: Tensor) -> Tensor:
    """Return the factors of brightness, contrast and saturation, and the hue in turns, [N, 4].

    ``share`` [N, 4] are uniform numbers.
    """
    low = share.new_tensor([*(max(0.0, 1 - s) for s in spreads), -hue])
    high = share.new_tensor([*(1 + s for s in spreads), hue])
    return low + (high - low) * share


def crop(x: Tensor, top: Tensor, left: Tensor, flip: Tensor, size: int) -> Tensor:
    """Cut squares of ``size`` at ``top`` and ``left`` [N]; mirror those with ``flip`` [N] != 0."""
    t = torch.arange(size, device=x.device)
    rows = top.long()[:, None] + t
    columns = left.long()[:, None] + torch.where(flip[:, None] != 0, size - 1 - t, t)
    return _take(_take(x, rows[:, :, None], 2), columns[:, None, :], 3)


def resized_crop(x: Tensor, box: Tensor, flip: Tensor) -> Tensor:
    """Enlarge boxes of square images to the size of the image, bilinearly.

    ``box`` [N, 4] is top, left, height and width, in whole pixels inside the image. Images with
    ``flip`` [N] != 0 are mirrored.
    """
    size = x.shape[-1]
    start, length = box[:, :2, None], box[:, 2:, None]
    t = torch.arange(size, device=x.device) + 0.5
    across = torch.where(flip[:, None] != 0, size - t, t)
    # [N, 2, size]: source of each row and each column in the box.
    at = torch.stack((t.expand_as(across), across), 1) * (length / size) - 0.5
    at = torch.minimum(at.clamp_min_(0), length - 1)
    low = at.floor()
    weight = at - low
    first = (low + start).long()
    second = (first + 1).clamp_max_(size - 1)
    # First horizontally, then vertically, with integer levels after each; the half level added
    # turns truncation into rounding.
    for dim, shape in ((3, (-1, 1, size)), (2, (-1, size, 1))):
        i, j, w = (a[:, dim - 2].reshape(shape) for a in (first, second, weight))
        x = x + 0.5
        x = torch.lerp(_take(x, i, dim), _take(x, j, dim), w[:, None]).floor_()
    return x


def shear(x: Tensor, amount: Tensor, fill: float, *, across: bool) -> Tensor:
    """Shear by cubic interpolation.

    A pixel comes from ``amount`` [N] times its row further right (``across``), or times its column
    further down. Pixels from outside the image are ``fill``.
    """
    if not across:
        return shear(x.mT, amount, fill, across=True).mT
    H, W = x.shape[2:]
    rows = torch.arange(H, device=x.device, dtype=torch.float64) + 0.5
    columns = torch.arange(W, device=x.device, dtype=torch.float64) + 0.5
    at = columns + amount.double()[:, None, None] * rows[:, None]
    inside = (at >= 0) & (at < W)
    low = (at - 0.5).floor()
    d = (at - 0.5 - low)[:, None]
    first = low.long()
    a, b, c, e = (_take(x, (first + k).clamp(0, W - 1), 3) for k in (-1, 0, 1, 2))
    cubic = _cubic(a, b, c, e, d)
    return torch.where(inside[:, None], cubic.clamp_(0, 255).floor_(), fill).to(x.dtype)


def affine(x: Tensor, matrix: Tensor, fill: float) -> Tensor:
    """Move pixels to the nearest position under an affine map.

    The pixel at (x, y) comes from ``matrix`` [N, 2, 3] times (x, y, 1), in float64 at pixel
    centres; as in PIL the entries are rounded to multiples of 1/65536. Pixels from outside the
    image are ``fill``.
    """
    H, W = x.shape[2:]
    centre = matrix[:, :, 2] + (matrix[:, :, 0] + matrix[:, :, 1]) * 0.5
    fixed = torch.cat((matrix[:, :, :2], centre[:, :, None]), 2).mul_(65536).add_(0.5).floor_()
    dx, dy, origin = fixed.long()[:, :, :, None, None].unbind(2)
    rows = torch.arange(H, device=x.device)[:, None]
    columns = torch.arange(W, device=x.device)
    across, down = ((origin + dx * columns + dy * rows) >> 16).unbind(1)
    inside = (across >= 0) & (across < W) & (down >= 0) & (down < H)
    flat = down.clamp(0, H - 1) * W + across.clamp(0, W - 1)
    moved = _take(x.flatten(2), flat.flatten(1), 2).view_as(x)
    return torch.where(inside[:, None], moved, fill)


def warp(x: Tensor, matrix: Tensor, cubic: Tensor, fill: Tensor) -> Tensor:
    """Move pixels under an affine map, by bilinear or (where ``cubic`` [N] != 0) cubic weights.

    The pixel at (x, y) comes from ``matrix`` [N, 2, 3] float64 times (x, y, 1), at pixel centres.
    Pixels from outside the image have the colour ``fill`` [3].
    """
    H, W = x.shape[2:]
    rows = torch.arange(H, device=x.device, dtype=torch.float64)[:, None] + 0.5
    columns = torch.arange(W, device=x.device, dtype=torch.float64) + 0.5
    a, b, c = matrix[:, :, :, None, None].unbind(2)
    across, down = (a * columns + b * rows + c).unbind(1)
    inside = (across >= 0) & (across < W) & (down >= 0) & (down < H)
    left, top = (across - 0.5).floor(), (down - 0.5).floor()
    dx, dy = (across - 0.5 - left)[:, None], (down - 0.5 - top)[:, None]
    flat = x.flatten(2).double()

    def pixel(i: int, j: int) -> Tensor:
        source = (top.long() + i).clamp(0, H - 1) * W + (left.long() + j).clamp(0, W - 1)
        return _take(flat, source.flatten(1), 2).view_as(x)

    def row(i: int) -> tuple[Tensor, Tensor]:
        a, b, c, e = (pixel(i, j) for j in (-1, 0, 1, 2))
        return b + (c - b) * dx, _cubic(a, b, c, e, dx)

    first, second, third, fourth = (row(i) for i in (-1, 0, 1, 2))
    linear = second[0] + (third[0] - second[0]) * dy
    smooth = _cubic(first[1], second[1], third[1], fourth[1], dy)
    moved = torch.where(per_image(cubic) != 0, smooth, linear).clamp_(0, 255).floor_()
    return torch.where(inside[:, None], moved.to(x.dtype), fill.to(x)[:, None, None])


def gaussian_blur(x: Tensor, sigma: Tensor, radius: int) -> Tensor:
    """Blur by a Gaussian of standard deviation ``sigma`` [N], cut off beyond ``radius`` pixels."""
    at = torch.arange(-radius, radius + 1, device=x.device)
    weight = (-((at / sigma[:, None].float()) ** 2) / 2).softmax(1)
    for dim in (3, 2):
        length = x.shape[dim]
        t = torch.arange(length, device=x.device)
        # Reflected at the borders, whose pixels are not repeated.
        source = ((t + at[:, None]).abs() - (length - 1)).abs().neg() + (length - 1)
        x = sum(
            per_image(w) * x.index_select(dim, i)
            for w, i in zip(weight.unbind(1), source, strict=True)
        )  # type: ignore[assignment]
    return x.round_()


def translation(across: Tensor, down: Tensor) -> Tensor:
    """Return the matrix [N, 2, 3] that moves images left by ``across`` and up by ``down``."""
    one, zero = torch.ones_like(across), torch.zeros_like(across)
    entries = torch.stack((one, zero, across, zero, one, down), 1)
    return entries.view(-1, 2, 3).double()


def rotation(degrees: Tensor, size: int) -> Tensor:
    """Return the matrix [N, 2, 3] that rotates squares about their centre, anticlockwise."""
    angle = -torch.deg2rad(degrees.double())
    cos, sin = torch.cos(angle), torch.sin(angle)
    half = size / 2
    x0, y0 = half - half * (cos + sin), half - half * (cos - sin)
    return torch.stack((cos, sin, x0, -sin, cos, y0), 1).view(-1, 2, 3)


def erase(x: Tensor, row: Tensor, column: Tensor, length: int) -> Tensor:
    """Blacken squares of side ``length`` around ``row`` and ``column`` [N]."""
    half = length // 2

    def near(centre: Tensor, size: int) -> Tensor:
        t = torch.arange(size, device=x.device) - centre[:, None]
        return (t >= -half) & (t < half)

    rows, columns = near(row, x.shape[2]), near(column, x.shape[3])
    return x.masked_fill((rows[:, :, None] & columns[:, None, :])[:, None], 0)


def _cubic(a: Tensor, b: Tensor, c: Tensor, e: Tensor, d: Tensor) -> Tensor:
    """Interpolate between b and c at ``d``: the cubic with slope (c - a) at b and (e - b) at c."""
    return b + d * (c - a + d * (2 * (a - b) + c - e + d * (-a + b - c + e)))


def _take(x: Tensor, index: Tensor, dim: int) -> Tensor:
    """Gather ``x`` [N, 3, ...] at ``index`` [N, ...] along ``dim``, equally for all channels."""
    shape = list(x.shape)
    shape[dim] = index.shape[dim - 1]
    return x.gather(dim, index[:, None].expand(shape))
