"""Elementary operations on batches of small images, as PIL computes them on each.

Images are float tensors [N, 3, H, W] that hold whole grey levels 0, ..., 255, and so is what comes
back; parameters are [N], one an image. PIL works in whole numbers and cuts off after every step;
that arithmetic is followed here, as a level gained or lost in one operation becomes many in the
next (equalization, a turn of the hue). Nothing waits for the device, and no shape depends on data.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

# Channels of a 3 x 3 x 3 neighbourhood of a pixel, padded for the tensor cores.
PATCH = 32

# Grey as PIL has it, in 65536ths: whole multiples, so float32 sums of them are exact.
GREY = (19595 / 65536, 38470 / 65536, 7471 / 65536)

# A hue is a byte; a sixth of the circle is 42.5 of its steps, 85 half steps.
SIXTH = 85


def per_image(a: Tensor) -> Tensor:
    """[N] as [N, 1, 1, 1]."""
    return a[:, None, None, None]


def grey(x: Tensor) -> Tensor:
    """The luminance [N, 1, H, W] of ``x`` [N, 3, H, W]."""
    r, g, b = x.split(1, dim=1)
    return r.mul(GREY[0]).add_(g, alpha=GREY[1]).add_(b, alpha=GREY[2]).add_(0.5).floor_()


def mean_level(x: Tensor) -> Tensor:
    """The mean [N, 1, 1, 1] of images, to the nearest level."""
    return x.mean((1, 2, 3), keepdim=True).add_(0.5).floor_()


def blend(target: Tensor, x: Tensor, factor: Tensor) -> Tensor:
    """``target + factor (x - target)``, cut off to levels: x at 1, the target at 0."""
    # Product and sum apart, as Pillow has them on x86: a fused one, rounded once, is now and then
    # cut off a level lower.
    return (x - target).mul_(factor).add_(target).clamp_(0, 255).floor_()


def adjust_brightness(x: Tensor, factor: Tensor) -> Tensor:
    """Away from black by ``factor`` [N]."""
    return blend(torch.zeros_like(x[:, :1]), x, per_image(factor))


def adjust_contrast(x: Tensor, factor: Tensor) -> Tensor:
    """Away from the mean luminance by ``factor`` [N]."""
    return blend(mean_level(grey(x)), x, per_image(factor))


def adjust_saturation(x: Tensor, factor: Tensor) -> Tensor:
    """Away from the luminance of each pixel by ``factor`` [N]."""
    return blend(grey(x), x, per_image(factor))


def adjust_sharpness(x: Tensor, factor: Tensor) -> Tensor:
    """Away from the smoothed image by ``factor`` [N]; the outermost pixels stay."""
    inner = x[:, :, 1:-1, 1:-1]
    total = avg_pool2d(x, 3, stride=1, divisor_override=1)
    smooth = x.clone()
    # Five parts of the pixel, one of each neighbour; thirteenths never lie half-way.
    smooth[:, :, 1:-1, 1:-1] = ((total + 4 * inner) / 13).round_()
    return blend(smooth, x, per_image(factor))


def adjust_hue(x: Tensor, turn: Tensor) -> Tensor:
    """Hues turned by ``turn`` [N], in turns within [-1/2, 1/2].

    PIL keeps hue, saturation and value as bytes. A step of the hue is up to six levels, so it is
    reached by PIL's own roundings (float32, its quotient by 6 float64); the rest is whole numbers.
    """
    r, g, _ = x.unbind(1)
    value, least = x.amax(1), x.amin(1)
    chroma = value - least
    # The hue in sixths of the circle: 0, 2, 4 as red, green, blue is the largest, and off that by
    # how near the middle channel is to it.
    middle = x.sum(1) - value - least
    # By way of float64, as compiled kernels do not round float32 quotients correctly.
    far = ((value - middle).double() / chroma.double().clamp_min(1)).float()
    g_least, r_least = g == least, r == least
    up = torch.where(r == value, g_least, torch.where(g == value, ~r_least, r_least))
    start = torch.where(r == value, 0.0, torch.where(g == value, 2.0, 4.0))
    sixth = torch.where(up, start - 1 + far, start + 1 - far)
    part = (sixth.double() / 6 + 1).frac_().float()
    hue = part.mul_(255).int() + turn.mul(255).int()[:, None, None]
    value, chroma = value.int(), chroma.int()
    saturation = 255 * chroma // value.clamp_min(1)
    # Red is full where the hue is within a sixth of it, and falls off over the next sixth;
    # green and blue do the same a third and two thirds on.
    ahead = torch.arange(5, 0, -2, device=x.device, dtype=torch.int32)[:, None, None]
    along = ((hue & 255)[:, None] * 2 + ahead * SIXTH) % (6 * SIXTH)
    fall = torch.minimum(along, 4 * SIXTH - along).clamp_(0, SIXTH)
    one = 255 * SIXTH
    full = value[:, None] * (one - saturation[:, None] * fall)
    return ((2 * full + one) // (2 * one)).to(x.dtype)


def invert(x: Tensor) -> Tensor:
    """Light for dark."""
    return 255 - x


def posterize(x: Tensor, bits: Tensor) -> Tensor:
    """Only the leading ``bits`` [N] of each level."""
    step = torch.exp2(8 - per_image(bits))
    return (x / step).floor_() * step


def solarize(x: Tensor, threshold: Tensor) -> Tensor:
    """Inverted from ``threshold`` [N] on."""
    return torch.where(x < per_image(threshold), x, 255 - x)


def autocontrast(x: Tensor) -> Tensor:
    """Each channel stretched over all levels; a channel of one level stays."""
    low, high = x.amin((2, 3), keepdim=True).double(), x.amax((2, 3), keepdim=True).double()
    span = high - low
    # In float64 and in this order, as what is cut off is often one rounding below a level.
    scale = torch.full_like(span, 255) / span.clamp_min(1)
    stretched = (x * scale + (-low * scale)).clamp_(0, 255).floor_()
    return torch.where(span > 0, stretched.to(x.dtype), x)


def equalize(x: Tensor) -> Tensor:
    """Each channel with its levels spread evenly over the pixels."""
    level = x.flatten(2).long()
    count = level.new_zeros(*level.shape[:2], 256)
    count.scatter_add_(2, level, torch.ones_like(level))
    brightest = count.gather(2, level.amax(2, keepdim=True))
    step = (level.shape[2] - brightest) // 255
    below = count.cumsum(2) - count
    spread = ((step // 2 + below) // step.clamp_min(1)).clamp_(max=255)
    spread = torch.where(step > 0, spread, torch.arange(256, device=x.device))
    return spread.gather(2, level).view_as(x).to(x.dtype)


def crop(x: Tensor, top: Tensor, left: Tensor, flip: Tensor, size: int) -> Tensor:
    """Squares of ``size`` at ``top`` and ``left`` [N], mirrored where ``flip`` [N] is not zero."""
    t = torch.arange(size, device=x.device)
    rows = top.long()[:, None] + t
    columns = left.long()[:, None] + torch.where(flip[:, None] != 0, size - 1 - t, t)
    return _take(_take(x, rows[:, :, None], 2), columns[:, None, :], 3)


def resized_crop(x: Tensor, box: Tensor, flip: Tensor) -> Tensor:
    """Boxes of square images, bilinearly enlarged to the whole, mirrored where ``flip`` [N] is not
    zero. ``box`` is [N, 4]: top, left, height and width, of whole pixels inside the image.
    """
    size = x.shape[-1]
    start, length = box[:, :2, None], box[:, 2:, None]
    t = torch.arange(size, device=x.device) + 0.5
    across = torch.where(flip[:, None] != 0, size - t, t)
    # [N, 2, size]: where each row and each column comes from, in the box.
    at = torch.stack((t.expand_as(across), across), 1) * (length / size) - 0.5
    at = torch.minimum(at.clamp_min_(0), length - 1)
    low = at.floor()
    weight = at - low
    first = (low + start).long()
    second = (first + 1).clamp_max_(size - 1)
    # Across first, then down, and to whole levels after each; half a level more, so that cutting
    # off rounds.
    for dim, shape in ((3, (-1, 1, size)), (2, (-1, size, 1))):
        i, j, w = (a[:, dim - 2].reshape(shape) for a in (first, second, weight))
        x = x + 0.5
        x = torch.lerp(_take(x, i, dim), _take(x, j, dim), w[:, None]).floor_()
    return x


def shear(x: Tensor, amount: Tensor, fill: float, *, across: bool) -> Tensor:
    """Each pixel from ``amount`` [N] times its row further right (``across``), or times its
    column further down, by cubic interpolation; ``fill`` where there is no image."""
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
    # The cubic of slope (c - a) at b and (e - b) at c.
    cubic = b + d * (c - a + d * (2 * (a - b) + c - e + d * (b - a + e - c)))
    return torch.where(inside[:, None], cubic.clamp_(0, 255).floor_(), fill).to(x.dtype)


def affine(x: Tensor, matrix: Tensor, fill: float) -> Tensor:
    """Each pixel from the one at (``matrix`` [N, 2, 3]) (x, y, 1), to the nearest; ``fill`` where
    there is no image.

    The matrix maps pixel centres in float64; as in PIL its entries count in 65536ths.
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


def translation(across: Tensor, down: Tensor) -> Tensor:
    """The matrix [N, 2, 3] that takes each pixel from ``across`` to its right, ``down`` below."""
    one, zero = torch.ones_like(across), torch.zeros_like(across)
    entries = torch.stack((one, zero, across, zero, one, down), 1)
    return entries.view(-1, 2, 3).double()


def rotation(degrees: Tensor, size: int) -> Tensor:
    """The matrix [N, 2, 3] that turns squares about their middle, against the clock."""
    angle = -torch.deg2rad(degrees.double())
    cos, sin = torch.cos(angle), torch.sin(angle)
    half = size / 2
    x0, y0 = half - half * (cos + sin), half - half * (cos - sin)
    return torch.stack((cos, sin, x0, -sin, cos, y0), 1).view(-1, 2, 3)


def erase(x: Tensor, row: Tensor, column: Tensor, length: int) -> Tensor:
    """Black squares of side ``length`` about ``row`` and ``column`` [N], cut at the border."""
    half = length // 2

    def near(centre: Tensor, size: int) -> Tensor:
        t = torch.arange(size, device=x.device) - centre[:, None]
        return (t >= -half) & (t < half)

    rows, columns = near(row, x.shape[2]), near(column, x.shape[3])
    return x.masked_fill((rows[:, :, None] & columns[:, None, :])[:, None], 0)


def _take(x: Tensor, index: Tensor, dim: int) -> Tensor:
    """``x`` [N, 3, ...] at ``index`` [N, ...] along ``dim``, the same for all channels."""
    shape = list(x.shape)
    shape[dim] = index.shape[dim - 1]
    return x.gather(dim, index[:, None].expand(shape))
