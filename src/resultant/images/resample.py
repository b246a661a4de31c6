"""Bilinear resizing with the arithmetic of PIL: whole numbers, so that every device is exact.

PIL resizes each row first, then each column, by weights in multiples of 2^-22, and rounds to levels
after both. An enlarged pixel has two taps per axis; a reduced one has more, against aliasing.
(From version 13 on, Pillow resizes columns first where heights shrink much more than widths, which
changes some pixels by one level; the order here is always the same.)
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

BITS = 22


class Taps(NamedTuple):
    """Source pixels of each target pixel along one axis.

    Attributes:
        first: First source pixel [N, size], int32.
        weight: Weights [N, size, K] of it and the next ones, int32 in multiples of 2^-22; zero
            beyond the taps of a pixel.
    """

    first: Tensor
    weight: Tensor


def number_of_taps(length: Tensor, outputs: Tensor) -> int:
    """Return the most taps of any pixel when lengths [N] are resized to ``outputs`` [N]."""
    if not len(length):
        return 2
    return math.ceil(2 * max(1.0, float((length.double() / outputs.double()).max())))


def taps(
    start: Tensor, length: Tensor, outputs: Tensor, window: Tensor, size: int, number: int
) -> Taps:
    """Compute the taps of a window of resized boxes along one axis.

    Args:
        start: First pixels [N] of the boxes in the image.
        length: Lengths [N] of the boxes.
        outputs: Lengths [N] of the resized boxes.
        window: First pixels [N] of the windows in the resized boxes.
        size: Length of the windows.
        number: Largest number of taps, of `number_of_taps`.

    Returns:
        The taps, on the device of the arguments; the sources are counted in the image.
    """
    length, outputs = length.double()[:, None], outputs.double()[:, None]
    scale = length / outputs
    support = scale.clamp_min(1.0)
    at = torch.arange(size, device=length.device) + window.double()[:, None]
    centre = (at + 0.5) * scale
    low = (centre - support + 0.5).trunc().clamp_min(0.0)
    high = torch.minimum((centre + support + 0.5).trunc(), length)
    inverse = 1 / support
    parts, total = [], torch.zeros_like(centre)
    for k in range(number):
        part = (1 - ((k + low - centre + 0.5) * inverse).abs()).clamp_min(0.0)
        parts.append(torch.where(low + k < high, part, 0.0))
        # One by one, because the order of a sum decides its last bit.
        total = total + parts[-1]
    weight = torch.stack([(part / total * 2**BITS + 0.5).trunc() for part in parts], -1)
    return Taps((low + start.double()[:, None]).int(), weight.int())


def resized(image: Tensor, rows: Taps, columns: Taps) -> Tensor:
    """Resize one image uint8 [H, W, 3] by the taps of its rows and columns; return [S, S, 3]."""
    half = 1 << (BITS - 1)
    x = image.to(torch.int32)
    for dim, (first, weight) in ((1, columns), (0, rows)):
        last, total = x.shape[dim] - 1, torch.full((), half, dtype=torch.int32, device=x.device)
        shape = [-1 if k == dim else 1 for k in range(3)]
        for k in range(weight.shape[-1]):
            source = (first[0] + k).clamp_max(last)
            total = total + x.index_select(dim, source) * weight[0, :, k].view(shape)
        x = (total >> BITS).clamp_(0, 255)
    return x
