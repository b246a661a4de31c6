"""Random views of batches of small images, on the device of the images.

A view draws its parameters on the CPU, so that every device has the same augmentations, and then
computes the images:

    parameters = view.draw(len(images), generator)
    augmented = normalize(view(images, parameters))

Images are uint8 [N, 3, size, size]; views are float32 with integer levels 0, ..., 255. On x86 they
equal the torchvision transforms of PIL images with the same parameters; Pillow compiled with fused
products and sums, as on ARM, may differ by one level.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Generator, Tensor
from torch.nn.functional import pad

from resultant._core import validation
from resultant.images import image_ops as ops

MEAN = (0.4914, 0.4822, 0.4465)
STD = (0.2023, 0.1994, 0.2010)

Range = tuple[float, float]


def require_ascending(name: str, bounds: Range, most: float) -> None:
    """Raise unless the two bounds ascend in (0, most] and are finite."""
    low, high = bounds
    if not 0 < low <= high <= most or high == math.inf:
        within = "(0, 1]" if most == 1 else "(0, inf)"
        raise ValueError(f"expected {name} to ascend in {within}, got {(low, high)}")


def require_bounded(name: str, value: float, most: float) -> None:
    """Raise unless a number is in [0, most] and finite."""
    if not 0 <= value <= most or value == math.inf:
        raise ValueError(f"expected {name} in [0, {most:g}] and finite, got {value}")


class View(Protocol):
    """Random augmentation: draw parameters, then compute images from them."""

    columns: ClassVar[tuple[str, ...]]

    def draw(self, n: int, generator: Generator) -> Tensor:
        """Draw parameters [n, k] of n images, float32 on the CPU, in named columns."""
        ...

    def __call__(self, images: Tensor, parameters: Tensor) -> Tensor:
        """Augment images uint8 [N, 3, size, size] by parameters [N, k]; return float32 levels."""
        ...


def normalize(
    images: Tensor, mean: tuple[float, ...] = MEAN, std: tuple[float, ...] = STD
) -> Tensor:
    """Compute ``(images / 255 - mean) / std`` per channel of levels [N, C, H, W]."""
    if images.dim() != 4 or not images.shape[1] == len(mean) == len(std):
        raise ValueError(
            f"expected images [N, C, H, W] with a mean and a std per channel, got shape "
            f"{tuple(images.shape)}, {len(mean)} means and {len(std)} stds"
        )
    # Plain numbers: constants on the device would need a copy.
    scales, shifts = channel_lines(mean, std)
    return torch.stack(
        [x * a + b for x, a, b in zip(images.unbind(1), scales, shifts, strict=True)], 1
    )


def channel_lines(mean: Sequence[float], std: Sequence[float]) -> tuple[list[float], list[float]]:
    """Return scales and shifts of the channels such that level * scale + shift is normalized."""
    shifts = [-m / s for m, s in zip(mean, std, strict=True)]
    return [1 / (255 * s) for s in std], shifts


@dataclass(frozen=True, kw_only=True)
class ContrastiveView:
    """View of contrastive learning: resized crop, flip, colour jitter in random order, grey.

    Equal to RandomResizedCrop(size, scale, ratio), RandomHorizontalFlip, RandomApply of ColorJitter
    with ``p_jitter`` and RandomGrayscale(``p_grey``) of torchvision, for images that already have
    ``size``. The columns of the parameters are the box in pixels; flags to flip, jitter and turn
    grey; the three factors, and the hue in turns; and the position of these four in the order.

    The call can be captured in a CUDA graph and compiled as one graph.

    Example:
        >>> import torch
        >>> from resultant.images.augment import ContrastiveView
        >>> view, images = ContrastiveView(), torch.zeros(2, 3, 32, 32, dtype=torch.uint8)
        >>> view(images, view.draw(2, torch.Generator().manual_seed(0))).shape
        torch.Size([2, 3, 32, 32])
    """

    size: int = 32
    scale: Range = (0.08, 1.0)
    ratio: Range = (3 / 4, 4 / 3)
    brightness: float = 0.4
    contrast: float = 0.4
    saturation: float = 0.4
    hue: float = 0.1
    p_jitter: float = 0.8
    p_grey: float = 0.2

    columns: ClassVar[tuple[str, ...]] = (
        *("top", "left", "height", "width", "flip", "jitter", "grey"),
        *("brightness", "contrast", "saturation", "hue"),
        *("brightness_order", "contrast_order", "saturation_order", "hue_order"),
    )

    def __post_init__(self) -> None:
        validation.integer("size", self.size, 1)
        require_ascending("scale", self.scale, 1.0)
        require_ascending("ratio", self.ratio, math.inf)
        for name in ("brightness", "contrast", "saturation"):
            require_bounded(name, getattr(self, name), math.inf)
        require_bounded("hue", self.hue, 0.5)
        require_bounded("p_jitter", self.p_jitter, 1.0)
        require_bounded("p_grey", self.p_grey, 1.0)

    def draw(self, n: int, generator: Generator) -> Tensor:
        """Draw parameters [n, 15], float32 on the CPU, in named columns."""
        uniform = _uniform(n, generator)
        sizes = torch.full((n, 2), float(self.size), dtype=torch.float64)
        box = ops.draw_boxes(sizes, self.scale, self.ratio, uniform)
        flags = uniform(3) < torch.tensor([0.5, self.p_jitter, self.p_grey], dtype=torch.float64)
        spreads = (self.brightness, self.contrast, self.saturation)
        factors = ops.draw_factors(spreads, self.hue, uniform(4))
        order = uniform(4).argsort(1)
        return torch.cat((box, flags, factors, order), 1).float()

    def __call__(self, images: Tensor, parameters: Tensor) -> Tensor:
        """Augment uint8 images [N, 3, size, size]; return float32 levels of this shape.

        ``parameters`` [N, 15] are on the device of the images.
        """
        _require(images, parameters, self.size, len(self.columns))
        if parameters.device != images.device:
            raise ValueError(
                f"expected parameters on {images.device}, as the images, got {parameters.device}"
            )
        box, (flip, jitter, grey) = parameters[:, :4], parameters[:, 4:7].unbind(1)
        x = ops.resized_crop(images, box, flip)
        jittered = self._jitter(x, parameters[:, 7:11], parameters[:, 11:])
        x = torch.where(ops.per_image(jitter) != 0, jittered, x)
        return torch.where(ops.per_image(grey) != 0, ops.grey(x), x)

    def _jitter(self, x: Tensor, factors: Tensor, order: Tensor) -> Tensor:
        """Apply the four adjustments ``factors`` [N, 4] in the order ``order`` [N, 4].

        All images turn their hue at once, the costly step. In three rounds before and three after,
        each image blends toward its own target, or waits.
        """
        blends, turn = order[:, :3], order[:, 3:]
        rounds = torch.arange(6, device=x.device)
        now = (blends + 2 * (blends > turn))[:, :, None] == rounds
        # Factor [N, 6] of each round, or 1.
        factor = torch.where(now, factors[:, :3, None], 1.0).prod(1)
        _, contrast, saturation = now.to(x.dtype).unbind(1)
        for k in range(6):
            if k == 3 and self.hue:
                x = ops.adjust_hue(x, factors[:, 3])
            grey = ops.grey(x)
            mean = ops.mean_level(grey) * ops.per_image(contrast[:, k])
            target = torch.addcmul(mean, grey, ops.per_image(saturation[:, k]))
            x = ops.blend(target, x, ops.per_image(factor[:, k]))
        return x


# CIFAR-10 policy of AutoAugment: 25 pairs of (operation, probability, level 0..9).
Step = tuple[str, float, int]
POLICY: tuple[tuple[Step, Step], ...] = (
    (("invert", 0.1, 7), ("contrast", 0.2, 6)),
    (("rotate", 0.7, 2), ("translate_x", 0.3, 9)),
    (("sharpness", 0.8, 1), ("sharpness", 0.9, 3)),
    (("shear_y", 0.5, 8), ("translate_y", 0.7, 9)),
    (("autocontrast", 0.5, 8), ("equalize", 0.9, 2)),
    (("shear_y", 0.2, 7), ("posterize", 0.3, 7)),
    (("color", 0.4, 3), ("brightness", 0.6, 7)),
    (("sharpness", 0.3, 9), ("brightness", 0.7, 9)),
    (("equalize", 0.6, 5), ("equalize", 0.5, 1)),
    (("contrast", 0.6, 7), ("sharpness", 0.6, 5)),
    (("color", 0.7, 7), ("translate_x", 0.5, 8)),
    (("equalize", 0.3, 7), ("autocontrast", 0.4, 8)),
    (("translate_y", 0.4, 3), ("sharpness", 0.2, 6)),
    (("brightness", 0.9, 6), ("color", 0.2, 8)),
    (("solarize", 0.5, 2), ("invert", 0.0, 3)),
    (("equalize", 0.2, 0), ("autocontrast", 0.6, 0)),
    (("equalize", 0.2, 8), ("equalize", 0.6, 4)),
    (("color", 0.9, 9), ("equalize", 0.6, 6)),
    (("autocontrast", 0.8, 4), ("solarize", 0.2, 8)),
    (("brightness", 0.1, 3), ("color", 0.7, 0)),
    (("solarize", 0.4, 5), ("autocontrast", 0.9, 3)),
    (("translate_y", 0.9, 9), ("translate_y", 0.7, 9)),
    (("autocontrast", 0.9, 2), ("solarize", 0.8, 3)),
    (("equalize", 0.8, 8), ("invert", 0.1, 3)),
    (("translate_y", 0.7, 9), ("autocontrast", 0.9, 1)),
)

# Level of pixels from outside the image.
FILL = 128.0

# Operations on images [N, 3, H, W] with magnitudes [N].
OPERATIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "shear_y": lambda x, m: ops.shear(x, m, FILL, across=False),
    "translate_x": lambda x, m: ops.affine(x, ops.translation(m, 0 * m), FILL),
    "translate_y": lambda x, m: ops.affine(x, ops.translation(0 * m, m), FILL),
    "rotate": lambda x, m: ops.affine(x, ops.rotation(m, x.shape[3]), FILL),
    "brightness": ops.adjust_brightness,
    "color": ops.adjust_saturation,
    "contrast": ops.adjust_contrast,
    "sharpness": ops.adjust_sharpness,
    "posterize": ops.posterize,
    "solarize": ops.solarize,
    "autocontrast": lambda x, m: ops.autocontrast(x),
    "equalize": lambda x, m: ops.equalize(x),
    "invert": lambda x, m: ops.invert(x),
}
NAMES = tuple(OPERATIONS)


def magnitude(name: str, level: int, sign: int, size: int) -> float:
    """Return the magnitude of an operation at a level 0..9: pixels, degrees, bits or factors.

    The sign +1 or -1 is the direction of shears and translations, and puts factors above or below
    one. Rotations have no sign: they are anticlockwise.
    """
    part = level / 9
    match name:
        case "shear_y":
            return sign * 0.3 * part
        case "translate_x" | "translate_y":
            return sign * 150 / 331 * size * part
        case "rotate":
            return 30 * part
        case "brightness" | "color" | "contrast" | "sharpness":
            return 1 + sign * 0.9 * part
        case "posterize":
            return round(8 - 4 * part)
        case "solarize":
            return 256 * (1 - part)
    return 0.0


@dataclass(frozen=True, kw_only=True)
class ClassificationView:
    """View of the classifier: padded crop, flip, AutoAugment (CIFAR-10 policy), cutout.

    RandomCrop(size, ``padding``) and RandomHorizontalFlip of torchvision; then one of the 25 pairs
    of `POLICY`, each step with its probability; then a black square of side ``cutout`` around a
    random pixel. The pairs are those of torchvision's AutoAugment. The steps follow ProCo's public
    code, whose results this view reproduces, and differ from torchvision: rotations go one way;
    the threshold of solarize falls from 256, not 255 (199.11, not 198.33, at level 2); shears are
    cubic, not nearest; translations keep their fraction of a pixel; and pixels from outside the
    image are grey, not black.

    The columns of the parameters are the position of the crop in the padded image; the flag to
    flip; the two steps, as indices into `NAMES` or -1 for none, and their magnitudes; and the
    centre of the square. The call groups the images by operation, for which it needs the parameters
    on the CPU.
    """

    size: int = 32
    padding: int = 4
    cutout: int = 16

    columns: ClassVar[tuple[str, ...]] = (
        *("top", "left", "flip"),
        *("first", "first_magnitude", "second", "second_magnitude"),
        *("row", "column"),
    )

    def __post_init__(self) -> None:
        validation.integer("size", self.size, 3)
        validation.integer("padding", self.padding, 0)
        validation.integer("cutout", self.cutout, 0)

    def draw(self, n: int, generator: Generator) -> Tensor:
        """Draw parameters [n, 9], float32 on the CPU, in named columns."""
        uniform = _uniform(n, generator)
        corner = (uniform(2) * (2 * self.padding + 1)).floor()
        flip = uniform(1) < 0.5
        pair = (uniform(1) * len(POLICY)).long()[:, 0]
        chance, sign = uniform(2), (uniform(2) < 0.5).long()
        steps = []
        for k in range(2):
            step = [pair[k] for pair in POLICY]
            index = torch.tensor([NAMES.index(name) for name, _, _ in step])
            probability = torch.tensor([p for _, p, _ in step], dtype=torch.float64)
            size = torch.tensor(
                [
                    [magnitude(name, level, s, self.size) for s in (1, -1)]
                    for name, _, level in step
                ],
                dtype=torch.float64,
            )
            applied = chance[:, k] < probability[pair]
            steps += [torch.where(applied, index[pair], -1), size[pair, sign[:, k]]]
        centre = (uniform(2) * self.size).floor()
        return torch.cat((corner, flip, torch.stack(steps, 1), centre), 1).float()

    def __call__(self, images: Tensor, parameters: Tensor) -> Tensor:
        """Augment uint8 images [N, 3, size, size]; return float32 levels of this shape.

        ``parameters`` [N, 9] are on the CPU.
        """
        _require(images, parameters, self.size, len(self.columns))
        if parameters.device.type != "cpu":
            raise ValueError(f"expected parameters on the CPU, got {parameters.device}")
        p = _sent(parameters, images.device)
        padded = pad(images, [self.padding] * 4)
        x = ops.crop(padded, p[:, 0], p[:, 1], p[:, 2], self.size).float()
        for column in (3, 5):
            kind, order = parameters[:, column].sort(stable=True)
            counts = torch.bincount(kind.long() + 1, minlength=len(NAMES) + 1).tolist()
            groups = _sent(order, images.device).split(counts)
            for name, rows in zip(NAMES, groups[1:], strict=True):
                if len(rows):
                    x[rows] = OPERATIONS[name](x[rows], p[rows, column + 1])
        return ops.erase(x, p[:, 7], p[:, 8], self.cutout)


def _uniform(n: int, generator: Generator) -> Callable[[int], Tensor]:
    """Return a function that draws uniform numbers [n, k] in float64."""
    validation.integer("n", n, 0)
    if generator.device.type != "cpu":
        raise ValueError(f"expected a generator on the CPU, got {generator.device}")
    return lambda k: torch.rand(n, k, generator=generator, dtype=torch.float64)


def _sent(a: Tensor, device: torch.device) -> Tensor:
    """Copy ``a`` to the device from page-locked memory, so that the host does not wait."""
    return a.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else a.to(device)


def _require(images: Tensor, parameters: Tensor, size: int, columns: int) -> None:
    if images.dtype != torch.uint8 or images.shape[1:] != (3, size, size):
        raise ValueError(
            f"expected uint8 images [N, 3, {size}, {size}], got {images.dtype} of shape "
            f"{tuple(images.shape)}"
        )
    if parameters.dtype != torch.float32 or parameters.shape != (len(images), columns):
        raise ValueError(
            f"expected float32 parameters [{len(images)}, {columns}], one row per image, got "
            f"{parameters.dtype} of shape {tuple(parameters.shape)}"
        )
