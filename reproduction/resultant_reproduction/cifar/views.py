"""Random views of batches of small images uint8 [N, 3, size, size], as those of `photo_views`."""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from resultant.images import photo_views as photo
from resultant.images.rendering import Rendering, placed_on
from resultant_reproduction.recipes.config import CIFAR_CHANNELS

MEAN, STD = CIFAR_CHANNELS
# Channels of a 3 x 3 x 3 neighbourhood of a pixel, padded for the tensor cores.
PATCH = 32
# Colour of pixels from outside the image.
FILL = (128, 128, 128)
# Pixels around an image that is cropped for the classifier, and the side of its black square.
PADDING, CUTOUT = 4, 16


def small_views(images: Tensor, rows: Tensor) -> Tensor:
    """Return views uint8 of images uint8 [N, 3, S, S], on their device, with rows of `COLUMNS`."""
    (n, _, size, _), device = images.shape, placed_on(images.device)
    pixels = images.to(device).permute(0, 2, 3, 1).contiguous().view(-1)
    offsets = torch.arange(n, device=device) * 3 * size**2
    sizes = torch.full((n, 2), size, dtype=torch.int32, device=device)
    # Levels are exact in half precision.
    out = torch.empty(n, size, size, 3, dtype=torch.float16, device=device).permute(0, 3, 1, 2)
    unit = 1 / 255
    rendering = Rendering(n, size, (0.0, 0.0, 0.0), (unit, unit, unit), device, FILL)
    rendering(pixels, offsets, sizes, rendering.plan(rows, sizes), out)
    return out.to(images.device, torch.uint8)


@dataclass(frozen=True, kw_only=True)
class ContrastiveView(photo.PhotoView):
    """View of contrastive learning: resized crop, flip, colour jitter in random order, grey."""

    size: int = 32

    def draw(self, sizes: Tensor, generator: Generator) -> Tensor:
        """Draw parameters [N, 26] of images that already have ``size``."""
        uniform = photo.uniforms(len(sizes), generator)
        box = photo.draw_boxes(sizes.double(), self.scale, self.ratio, uniform)
        flip, chance, grey = uniform(3).split(1, 1)
        # The draws are positions in the order.
        steps = self._jitter(chance, uniform(4), uniform(4).argsort(1))
        rows = photo.parameters(box, flip < 0.5, [*steps, self._grey(grey)])
        return rows.float().double()

    def __call__(self, images: Tensor, parameters: Tensor) -> Tensor:
        return small_views(images, parameters)


# CIFAR-10 policy of AutoAugment: 25 pairs of (operation, probability, level 0..9).
Step = tuple[str, float, int]
POLICY: tuple[tuple[Step, Step], ...] = (
    (("invert", 0.1, 7), ("contrast", 0.2, 6)),
    (("rotate", 0.7, 2), ("translate_x", 0.3, 9)),
    (("sharpness", 0.8, 1), ("sharpness", 0.9, 3)),
    (("shear_y", 0.5, 8), ("translate_y", 0.7, 9)),
    (("autocontrast", 0.5, 8), ("equalize", 0.9, 2)),
    (("shear_y", 0.2, 7), ("posterize", 0.3, 7)),
    (("saturation", 0.4, 3), ("brightness", 0.6, 7)),
    (("sharpness", 0.3, 9), ("brightness", 0.7, 9)),
    (("equalize", 0.6, 5), ("equalize", 0.5, 1)),
    (("contrast", 0.6, 7), ("sharpness", 0.6, 5)),
    (("saturation", 0.7, 7), ("translate_x", 0.5, 8)),
    (("equalize", 0.3, 7), ("autocontrast", 0.4, 8)),
    (("translate_y", 0.4, 3), ("sharpness", 0.2, 6)),
    (("brightness", 0.9, 6), ("saturation", 0.2, 8)),
    (("solarize", 0.5, 2), ("invert", 0.0, 3)),
    (("equalize", 0.2, 0), ("autocontrast", 0.6, 0)),
    (("equalize", 0.2, 8), ("equalize", 0.6, 4)),
    (("saturation", 0.9, 9), ("equalize", 0.6, 6)),
    (("autocontrast", 0.8, 4), ("solarize", 0.2, 8)),
    (("brightness", 0.1, 3), ("saturation", 0.7, 0)),
    (("solarize", 0.4, 5), ("autocontrast", 0.9, 3)),
    (("translate_y", 0.9, 9), ("translate_y", 0.7, 9)),
    (("autocontrast", 0.9, 2), ("solarize", 0.8, 3)),
    (("equalize", 0.8, 8), ("invert", 0.1, 3)),
    (("translate_y", 0.7, 9), ("autocontrast", 0.9, 1)),
)

MOVED = ("translate_x", "translate_y", "rotate")
FILTERS = {"shear_y": photo.CUBIC, **dict.fromkeys(MOVED, photo.NEAREST)}


def magnitude(name: str, level: int, sign: int, size: int) -> float:
    """Return the magnitude of an operation at a level 0..9: pixels, degrees, bits or factors."""
    part = level / 9
    values = {"shear_y": sign * 0.3 * part, "rotate": 30 * part}
    values |= {"posterize": round(8 - 4 * part), "solarize": 256 * (1 - part)}
    values |= dict.fromkeys(("translate_x", "translate_y"), sign * 150 / 331 * size * part)
    factors = ("brightness", "saturation", "contrast", "sharpness")
    return (values | dict.fromkeys(factors, 1 + sign * 0.9 * part)).get(name, 0.0)


@dataclass(frozen=True, kw_only=True)
class ClassificationView:
    """View of the classifier: padded crop, flip, AutoAugment (CIFAR-10 policy), cutout.

    The steps follow ProCo's public code and differ from torchvision: rotations go one way; the
    threshold of solarize falls from 256, not 255; shears are cubic, not nearest; translations keep
    their fraction of a pixel; and pixels from outside the image are grey, not black.
    """

    size: int = 32

    def draw(self, sizes: Tensor, generator: Generator) -> Tensor:
        """Draw parameters [N, 28]: rows of `COLUMNS`, and the centre of the square."""
        uniform = photo.uniforms(len(sizes), generator)
        corner = (uniform(2) * (2 * PADDING + 1)).floor() - PADDING
        flip = uniform(1) < 0.5
        pair = (uniform(1) * len(POLICY)).long()[:, 0]
        chance, sign = uniform(2), uniform(2) < 0.5
        steps = []
        for k in range(2):
            table = [
                [photo.CODE[name], FILTERS.get(name, photo.BILINEAR), p]
                + [magnitude(name, level, sign, self.size) for sign in (-1, 1)]
                for name, p, level in (pair[k] for pair in POLICY)
            ]
            code, filters, p, below, above = corner.new_tensor(table)[pair].unbind(1)
            used, value = chance[:, k] < p, torch.where(sign[:, k], below, above)
            steps.append(torch.stack((code * used, value, filters * used), 1))
        box = torch.cat((corner, torch.full_like(corner, self.size)), 1)
        rows = photo.parameters(box, flip, steps)
        return torch.cat((rows, (uniform(2) * self.size).floor()), 1).float().double()

    def __call__(self, images: Tensor, parameters: Tensor) -> Tensor:
        rows, centre = parameters.split([len(photo.COLUMNS), 2], 1)
        views, half = small_views(images, rows), CUTOUT // 2
        at = torch.arange(self.size, device=views.device)
        centre = centre.to(views.device)[:, :, None]
        down, across = ((at >= centre - half) & (at < centre + half)).unbind(1)
        return views.masked_fill((down[:, :, None] & across[:, None, :])[:, None], 0)
