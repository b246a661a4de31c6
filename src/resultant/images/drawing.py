"""Draws and channels that views of small images and of photographs share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Generator, Tensor

# Attempts at a box within the image.
ATTEMPTS = 10

# Channels of a 3 x 3 x 3 neighbourhood of a pixel, padded for the tensor cores.
PATCH = 32
# Mean and standard deviation of the channels of CIFAR.
MEAN = (0.4914, 0.4822, 0.4465)
STD = (0.2023, 0.1994, 0.2010)

Range = tuple[float, float]


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


def normalize(images: Tensor, mean: Sequence[float] = MEAN, std: Sequence[float] = STD) -> Tensor:
    """Compute ``(images / 255 - mean) / std`` per channel of levels [N, C, H, W]."""
    # Plain numbers: constants on the device would need a copy.
    scales, shifts = channel_lines(mean, std)
    return torch.stack(
        [x * a + b for x, a, b in zip(images.unbind(1), scales, shifts, strict=True)], 1
    )


def channel_lines(mean: Sequence[float], std: Sequence[float]) -> tuple[list[float], list[float]]:
    """Return scales and shifts of the channels such that level * scale + shift is normalized."""
    shifts = [-m / s for m, s in zip(mean, std, strict=True)]
    return [1 / (255 * s) for s in std], shifts
