"""Random views of batches of small images.

A view draws its parameters on the CPU, so that every device has the same augmentations:

    parameters = view.draw(len(images), generator)
    augmented = normalize(view(images, parameters))

Images and views are uint8 [N, 3, size, size]. A call computes the views by Pillow, on the CPU; on
a GPU `resultant.images.view_kernel` and `resultant.images.photo_kernel` compute them from the same
parameters. All are within one level of the torchvision transforms of pictures of Pillow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor

from resultant.images import pillow_views
from resultant.images.drawing import Range, draw_boxes, draw_factors, uniforms
from resultant.images.photo_views import BILINEAR, CODE, COLUMNS, CUBIC, JITTER, NEAREST

# Colour of pixels from outside the image.
FILL = (128, 128, 128)


@dataclass(frozen=True, kw_only=True)
class ContrastiveView:
    """View of contrastive learning: resized crop, flip, colour jitter in random order, grey.

    Equal to RandomResizedCrop(size, scale, ratio), RandomHorizontalFlip, RandomApply of ColorJitter
    with ``p_jitter`` and RandomGrayscale(``p_grey``) of torchvision, for images that already have
    ``size``. The columns of the parameters are the box in pixels; flags to flip, jitter and turn
    grey; the three factors, and the hue in turns; and the position of these four in the order.
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

    def draw(self, n: int, generator: Generator) -> Tensor:
        """Draw parameters [n, 15], float32 on the CPU, in named columns."""
        uniform = uniforms(n, generator)
        sizes = torch.full((n, 2), float(self.size), dtype=torch.float64)
        box = draw_boxes(sizes, self.scale, self.ratio, uniform)
        flags = uniform(3) < torch.tensor([0.5, self.p_jitter, self.p_grey], dtype=torch.float64)
        spreads = (self.brightness, self.contrast, self.saturation)
        factors = draw_factors(spreads, self.hue, uniform(4))
        order = uniform(4).argsort(1)
        return torch.cat((box, flags, factors, order), 1).float()

    def rows(self, parameters: Tensor) -> Tensor:
        """Return the parameters as rows [n, 30] of `photo_views`, in float64."""
        p = parameters.double()
        flip, jitter, grey = p[:, 4:7].unbind(1)
        used = [CODE[name] * bool(getattr(self, name)) for name in JITTER]
        order = p[:, 11:].argsort(1)
        codes = torch.tensor(used).expand(len(p), -1).gather(1, order) * jitter[:, None]
        values = p[:, 7:11].gather(1, order)
        steps = [
            *zip(codes.unbind(1), values.unbind(1), [BILINEAR] * 4, strict=True),
            (CODE["grey"] * grey, 0.0, BILINEAR),
        ]
        return _rows(p[:, :4], flip, steps, self.size)

    def __call__(self, images: Tensor, parameters: Tensor) -> Tensor:
        """Augment uint8 images [N, 3, size, size] by parameters [N, 15], both on the CPU."""
        return _views(self, images, parameters)


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

# Operations of the policy, by their codes in `photo_views`, and their filters.
OPERATIONS = {
    **{name: CODE[name] for name in ("shear_y", "translate_x", "translate_y", "rotate")},
    "brightness": CODE["brightness"],
    "color": CODE["saturation"],
    **{name: CODE[name] for name in ("contrast", "sharpness", "posterize", "solarize")},
    **{name: CODE[name] for name in ("autocontrast", "equalize", "invert")},
}
NAMES = tuple(OPERATIONS)
FILTERS = {"shear_y": CUBIC, **dict.fromkeys(("translate_x", "translate_y", "rotate"), NEAREST)}


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
    centre of the square.
    """

    size: int = 32
    padding: int = 4
    cutout: int = 16

    columns: ClassVar[tuple[str, ...]] = (
        *("top", "left", "flip"),
        *("first", "first_magnitude", "second", "second_magnitude"),
        *("row", "column"),
    )

    def draw(self, n: int, generator: Generator) -> Tensor:
        """Draw parameters [n, 9], float32 on the CPU, in named columns."""
        uniform = uniforms(n, generator)
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

    def rows(self, parameters: Tensor) -> Tensor:
        """Return the parameters as rows [n, 30] of `photo_views`, without the square."""
        p = parameters.double()
        corner = p[:, :2] - self.padding
        box = torch.cat((corner, torch.full_like(corner, self.size)), 1)
        # One more, for index -1.
        codes = torch.tensor([*OPERATIONS.values(), 0])
        filters = torch.tensor([*(FILTERS.get(name, BILINEAR) for name in NAMES), BILINEAR])
        steps = []
        for column in (3, 5):
            index = p[:, column].long()
            steps.append((codes[index], p[:, column + 1], filters[index]))
        return _rows(box, p[:, 2], steps, self.size)

    def erase(self, views: Tensor, parameters: Tensor) -> Tensor:
        """Blacken the squares of views [N, 3, size, size]; the parameters are on their device."""
        t, low = torch.arange(self.size, device=views.device), self.cutout // 2
        rows, columns = (
            (t >= parameters[:, k, None] - low) & (t < parameters[:, k, None] + self.cutout - low)
            for k in (7, 8)
        )
        return views.masked_fill((rows[:, :, None] & columns[:, None, :])[:, None], 0)

    def __call__(self, images: Tensor, parameters: Tensor) -> Tensor:
        """Augment uint8 images [N, 3, size, size] by parameters [N, 9], both on the CPU."""
        return self.erase(_views(self, images, parameters), parameters)


StepColumns = tuple[Tensor, Tensor | float, Tensor | float]


def _rows(box: Tensor, flip: Tensor, steps: list[StepColumns], size: int) -> Tensor:
    """Return rows [n, 30] of boxes [n, 4] of this size, flips [n] and up to seven steps."""
    result = box.new_zeros(len(box), len(COLUMNS))
    result[:, :4], result[:, 4:6] = box, size
    result[:, COLUMNS.index("flip")] = flip
    first = COLUMNS.index("code0")
    for k, step in enumerate(steps):
        for j, value in enumerate(step):
            result[:, first + 3 * k + j] = value
    return result


View = ContrastiveView | ClassificationView


def _views(view: View, images: Tensor, parameters: Tensor) -> Tensor:
    n, size = len(images), view.size
    pixels = images.permute(0, 2, 3, 1).contiguous().view(-1)
    offsets, sizes = torch.arange(n) * 3 * size**2, torch.full((n, 2), size)
    return pillow_views.levels(pixels, offsets, sizes, view.rows(parameters), size, FILL)
