"""Random views of photographs of any size, and their plans for the kernel of photographs, each
operation within one level of Pillow. Parameters are drawn on the CPU, the same for every device."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import PIL
import torch
from torch import Generator, Tensor

# The operations of a step, by code; 0 for no operation.
OPERATIONS = (
    *("none", "brightness", "contrast", "saturation", "hue", "grey", "sharpness"),
    *("autocontrast", "equalize", "invert", "posterize", "solarize", "solarize_add"),
    *("rotate", "shear_x", "shear_y", "translate_x", "translate_y"),
)
CODE = {name: code for code, name in enumerate(OPERATIONS)}
# RandAugment chooses among them with equal probability.
RANDOM = (
    *("autocontrast", "equalize", "invert", "rotate", "posterize", "solarize", "solarize_add"),
    *("saturation", "contrast", "brightness", "sharpness"),
    *("shear_x", "shear_y", "translate_x", "translate_y"),
)
WARPS = ("rotate", "shear_x", "shear_y", "translate_x", "translate_y")
JITTER = ("brightness", "contrast", "saturation", "hue")
# The most bits or levels of operations of RandAugment.
LEVELS = {"posterize": 4, "solarize": 256, "solarize_add": 110}
# Jitter, grey and two layers of RandAugment.
STEPS = 7
BOX = ("top", "left", "height", "width")
STEP = tuple(f"{part}{k}" for k in range(STEPS) for part in ("code", "value", "filter"))
COLUMNS = (*BOX, "flip", *STEP)
# Filters of a warp, the last number of a step.
BILINEAR, CUBIC, NEAREST = 0.0, 1.0, 2.0

# Attempts at a box within the image.
ATTEMPTS = 10

# Pillow resizes one axis after the other by weights in multiples of 2^-22, and rounds to levels
# after both: whole numbers, so that every device is exact.
BITS = 22
# Pillow resizes columns first where heights shrink much more.
COLUMNS_FIRST = int(PIL.__version__.partition(".")[0]) >= 13

Range = tuple[float, float]
Colour = tuple[float, float, float]


def uniforms(n: int, generator: Generator) -> Callable[[int], Tensor]:
    """Return a function that draws uniform numbers [n, k] in float64, on the CPU."""
    return lambda k: torch.rand(n, k, generator=generator, dtype=torch.float64)


def draw_boxes(
    sizes: Tensor, scale: Range, ratio: Range, uniform: Callable[[int], Tensor]
) -> Tensor:
    """Draw top, left, height and width [N, 4] of crops in images of ``sizes`` [N, 2] float64."""
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
    highest = torch.where(narrow, (width / ratio[0]).round(), height)
    widest = torch.where(wide, (height * ratio[1]).round(), width)
    largest = torch.stack((highest, widest), 1)
    middle = ((sizes - largest) / 2).floor()
    fitted = fits.any(1, keepdim=True)
    return torch.cat((torch.where(fitted, start, middle), torch.where(fitted, chosen, largest)), 1)


@dataclass(frozen=True, kw_only=True)
class PhotoView:
    """A distribution of views: resized crop, flip, jitter, grey and RandAugment, in order.

    Those of torchvision with the same names, and ``rand-m10-nN-mstd0.5`` of timm with N =
    ``layers``; ``jitter`` are brightness, contrast, saturation and hue.
    """

    size: int = 224
    scale: Range = (0.08, 1.0)
    ratio: Range = (3 / 4, 4 / 3)
    jitter: tuple[float, float, float, float] = (0.4, 0.4, 0.4, 0.1)
    p_jitter: float = 0.8
    p_grey: float = 0.2
    layers: int = 0

    def draw(self, sizes: Tensor, generator: Generator) -> Tensor:
        """Draw parameters [N, 26] of images of ``sizes`` [N, 2], float64, in columns `COLUMNS`."""
        n, sizes = len(sizes), sizes.double()
        uniform = uniforms(n, generator)
        box, flip = draw_boxes(sizes, self.scale, self.ratio, uniform), uniform(1) < 0.5
        steps = self._jitter(uniform(1), uniform(4), uniform(4))
        steps.append(self._grey(uniform(1)))
        # Not used: without these two numbers, a seed would draw other views than before.
        uniform(2)
        for layer in range(2):
            gauss = torch.randn(n, generator=generator, dtype=torch.float64)
            steps.append(self._random(layer < self.layers, gauss, uniform(4)))
        return parameters(box, flip, steps)

    def _jitter(self, chance: Tensor, share: Tensor, order: Tensor) -> list[Tensor]:
        """Return four steps [n, 3]: the adjustments in the order of ``order`` [n, 4]."""
        *spreads, hue = self.jitter
        low = share.new_tensor([*(max(0.0, 1 - s) for s in spreads), -hue])
        high = share.new_tensor([*(1 + s for s in spreads), hue])
        used = [CODE[name] * bool(s) for name, s in zip(JITTER, self.jitter, strict=True)]
        code = torch.tensor(used) * (chance < self.p_jitter)
        order = order.argsort(1)
        values = (low + (high - low) * share).gather(1, order)
        steps = code.gather(1, order).double(), values, torch.zeros_like(values)
        return list(torch.stack(steps, 2).unbind(1))

    def _grey(self, chance: Tensor) -> Tensor:
        return torch.tensor([CODE["grey"], 0.0, 0.0]).double() * (chance < self.p_grey)

    def _random(self, used: bool, gauss: Tensor, uniform: Tensor) -> Tensor:
        """Return a step [n, 3] of RandAugment."""
        chance, choice, sign, kind = uniform.unbind(1)
        index = (choice * len(RANDOM)).long()
        m = (10 + 0.5 * gauss).clamp(0, 10) / 10
        signed = torch.where(sign < 0.5, 1.0, -1.0) * m
        of = {
            "rotate": signed * 30,
            **dict.fromkeys(("shear_x", "shear_y"), signed * 0.3),
            **dict.fromkeys(("translate_x", "translate_y"), signed * 0.45 * self.size),
            **{name: (m * k).trunc() for name, k in LEVELS.items()},
            **dict.fromkeys(("saturation", "contrast", "brightness", "sharpness"), m * 1.8 + 0.1),
        }
        values = torch.stack([of.get(name, torch.zeros_like(m)) for name in RANDOM], 1)
        code = torch.tensor([CODE[name] for name in RANDOM])[index] * (chance < 0.5) * used
        value = values.gather(1, index[:, None])[:, 0]
        return torch.stack((code.double(), value, (kind < 0.5).double()), 1)


def parameters(box: Tensor, flip: Tensor, steps: Sequence[Tensor]) -> Tensor:
    """Return rows of `COLUMNS` of boxes [n, 4], flips [n, 1] and steps [n, 3]."""
    rows = torch.cat((box, flip, *steps), 1)
    return torch.nn.functional.pad(rows, (0, len(COLUMNS) - rows.shape[1]))


def contrastive_view(size: int = 224) -> PhotoView:
    """Return the contrastive view: resized crop, flip, jitter (probability .8), grey (.2)."""
    return PhotoView(size=size)


def classification_view(size: int = 224) -> PhotoView:
    """Return the view of the classifier, with jitter without hue and ``rand-m10-n2-mstd0.5``."""
    return PhotoView(size=size, jitter=(0.4, 0.4, 0.4, 0.0), p_jitter=1.0, p_grey=0.0, layers=2)


def matrices(code: Tensor, value: Tensor, size: int) -> Tensor:
    """Return affine maps [..., 2, 3] of the operations `WARPS`, and the identity of others."""
    code, value = code.long(), value.double()

    def of(name: str) -> Tensor:
        return torch.where(code == CODE[name], value, 0.0)

    turn = -torch.deg2rad(of("rotate").remainder(360))
    cos, sin = (a.round(decimals=15) for a in (turn.cos(), turn.sin()))
    half = size / 2
    x0, y0 = cos * -half + sin * -half + half, -sin * -half + cos * -half + half
    entries = (
        *(cos, of("shear_x") + sin, of("translate_x") + x0),
        *(of("shear_y") - sin, cos, of("translate_y") + y0),
    )
    return torch.stack(entries, -1).unflatten(-1, (2, 3))


def normalize(images: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Compute ``(images / 255 - mean) / std`` per channel of levels [N, C, H, W]."""
    # Plain numbers: constants on the device would need a copy.
    lines = zip(images.unbind(1), *channel_lines(mean, std), strict=True)
    return torch.stack([x * a + b for x, a, b in lines], 1)


def channel_lines(mean: Sequence[float], std: Sequence[float]) -> tuple[list[float], list[float]]:
    """Return scales and shifts of the channels such that level * scale + shift is normalized."""
    shifts = [-m / s for m, s in zip(mean, std, strict=True)]
    return [1 / (255 * s) for s in std], shifts


class Plan(NamedTuple):
    """Parameters of views as the kernel reads them, on the device; the axis resized last first."""

    first: Tensor  # first source pixel of each pixel along both axes of a view, [n, 2, size]
    weights: Tensor  # of the taps along both axes, int32 [n, 2, size, taps] in units of 2^-22
    counts: Tensor  # taps along both axes, and 1 if columns are resized before rows, [n, 3]
    steps: Tensor  # steps with their affine maps, [n, 7, 9]


def plan(
    parameters: Tensor, size: int, taps: int, sides: Tensor | None = None, *, reach: int = 1
) -> Plan:
    """Compute a plan of views [n, 26]; pixels beyond ``sides`` [n, 2], if given, are black. The
    filter of resizing ``reach``-es one pixel, bilinear, or two, bicubic."""
    steps = parameters[:, 5:].unflatten(1, (STEPS, 3))
    maps = matrices(steps[:, :, 0], steps[:, :, 1], size)
    # In multiples of 2^-16 at the centres of pixels, as in Pillow.
    centre = maps[..., 2] + (maps[..., 0] + maps[..., 1]) * 0.5
    fixed = torch.cat((maps[..., :2], centre[..., None]), -1).mul_(65536).add_(0.5).floor_()
    maps = torch.where((steps[:, :, 2] == NEAREST)[:, :, None, None], fixed, maps)
    top, left, height, width, flip = parameters[:, :5].unbind(1)
    first_rows, row_weights = axis_taps(top, height, size, taps, reach)
    first, weights = axis_taps(left, width, size, taps, reach)
    if sides is not None:
        row_weights = _within(first_rows, row_weights, sides[:, :1])
        weights = _within(first, weights, sides[:, 1:])
    mirrored = flip[:, None] != 0
    first = torch.where(mirrored, first.flip(1), first)
    weights = torch.where(mirrored[:, :, None], weights.flip(1), weights)
    counts = (2 * reach * (parameters[:, 2:4] / size).clamp_min(1.0)).ceil().int()
    shrunk = height - size
    swapped = (shrunk > 0) & (shrunk > 2 * (width - size)) & COLUMNS_FIRST

    def ordered(a: Tensor) -> Tensor:
        """Return rows and columns [n, 2, ...] in the order of the plan."""
        return torch.where(swapped.view(-1, *[1] * (a.dim() - 1)), a.flip(1), a)

    return Plan(
        ordered(torch.stack((first_rows, first), 1)),
        ordered(torch.stack((row_weights, weights), 1)),
        torch.cat((ordered(counts), swapped.int()[:, None]), 1),
        torch.cat((steps, maps.flatten(2)), 2),
    )


def most_taps(parameters: Tensor, size: int, reach: int = 1) -> int:
    """Return the most taps of any pixel of views with parameters [n, 26], on the CPU."""
    return math.ceil(2 * reach * max(1.0, float(parameters[:, 2:4].max()) / size))


def filtered(x: Tensor, reach: int) -> Tensor:
    """Return Pillow's weights at distances x from the centre of a filter."""
    x = x.abs()
    if reach == 1:
        return (1 - x).clamp_min(0.0)
    near, far = (1.5 * x - 2.5) * x * x + 1, -0.5 * (((x - 5) * x + 8) * x - 4)
    return torch.where(x < 1, near, torch.where(x < 2, far, 0.0))


def axis_taps(
    start: Tensor, length: Tensor, size: int, number: int, reach: int = 1
) -> tuple[Tensor, Tensor]:
    """Return the first source pixels [N, size] and the weights [N, size, number] of the taps of
    boxes along one axis, which are resized to ``size`` pixels."""
    length = length.double()[:, None]
    scale = length / size
    stretch = scale.clamp_min(1.0)
    support = reach * stretch
    centre = (torch.arange(size, device=length.device) + 0.5) * scale
    low = (centre - support + 0.5).trunc().clamp_min(0.0)
    high = torch.minimum((centre + support + 0.5).trunc(), length)
    inverse = 1 / stretch
    parts, total = [], torch.zeros_like(centre)
    for k in range(number):
        part = filtered((k + low - centre + 0.5) * inverse, reach)
        parts.append(torch.where(low + k < high, part, 0.0))
        # One by one, because the order of a sum decides its last bit.
        total = total + parts[-1]
    shares = torch.stack([part / total * 2**BITS for part in parts], -1)
    weight = (shares + torch.where(shares < 0, -0.5, 0.5)).trunc()
    return (low + start.double()[:, None]).int(), weight.int()


def _within(first: Tensor, weights: Tensor, side: Tensor) -> Tensor:
    """Return the weights without those of pixels outside an image of ``side`` [n, 1] pixels."""
    source = first[:, :, None] + torch.arange(weights.shape[-1], device=first.device)
    return torch.where((source >= 0) & (source < side[:, :, None]), weights, 0)
