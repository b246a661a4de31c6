"""Plans of views for the kernel of photographs: taps that resize, and steps with affine maps.

Pillow resizes one axis after the other by weights in multiples of 2^-22, and rounds to levels after
both: whole numbers, so that every device is exact.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from resultant.images.photo_views import NEAREST, STEPS, matrices

BITS = 22


class Plan(NamedTuple):
    """Parameters of views as the kernel reads them, on the device; the axis resized last first."""

    first: Tensor  # first source pixel of each pixel along both axes of a view, [n, 2, size]
    weights: Tensor  # of the taps along both axes, int32 [n, 2, size, taps] in units of 2^-22
    counts: Tensor  # taps along both axes, and 1 if columns are resized before rows, [n, 3]
    steps: Tensor  # steps with their affine maps, [n, 7, 9]


def plan(parameters: Tensor, size: int, taps: int, sides: Tensor | None = None) -> Plan:
    """Compute a plan of views [n, 30]; pixels beyond the ``sides`` [n, 2] of images, if any, are
    black."""
    steps = parameters[:, 9:].unflatten(1, (STEPS, 3))
    maps = matrices(steps[:, :, 0], steps[:, :, 1], size)
    nearest = (steps[:, :, 2] == NEAREST)[:, :, None, None]
    maps = torch.where(nearest, fixed_point(maps), maps)
    top, left, height, width, rows, columns, down, across, flip = parameters[:, :9].unbind(1)
    first_rows, row_weights = axis_taps(top, height, rows, down, size, taps)
    first, weights = axis_taps(left, width, columns, across, size, taps)
    if sides is not None:
        row_weights = _within(first_rows, row_weights, sides[:, :1])
        weights = _within(first, weights, sides[:, 1:])
    mirrored = flip[:, None] != 0
    first = torch.where(mirrored, first.flip(1), first)
    weights = torch.where(mirrored[:, :, None], weights.flip(1), weights)
    counts = (2 * (parameters[:, 2:4] / parameters[:, 4:6]).clamp_min(1.0)).ceil().int()
    shrunk = height - rows
    swapped = (shrunk > 0) & (shrunk > 2 * (width - columns)) & chooses_order()

    def ordered(a: Tensor) -> Tensor:
        """Return rows and columns [n, 2, ...] in the order of the plan."""
        return torch.where(swapped.view(-1, *[1] * (a.dim() - 1)), a.flip(1), a)

    return Plan(
        ordered(torch.stack((first_rows, first), 1)),
        ordered(torch.stack((row_weights, weights), 1)),
        torch.cat((ordered(counts), swapped.int()[:, None]), 1),
        torch.cat((steps, maps.flatten(2)), 2),
    )


@cache
def chooses_order() -> bool:
    """Return True if Pillow resizes columns first where heights shrink much more: from 13 on."""
    try:
        from PIL import __version__
    except ImportError:
        return True
    return int(__version__.partition(".")[0]) >= 13


def fixed_point(maps: Tensor) -> Tensor:
    """Return affine maps [..., 2, 3] in multiples of 2^-16 at the centres of pixels, as Pillow."""
    centre = maps[..., 2] + (maps[..., 0] + maps[..., 1]) * 0.5
    return torch.cat((maps[..., :2], centre[..., None]), -1).mul_(65536).add_(0.5).floor_()


def most_taps(parameters: Tensor) -> int:
    """Return the most taps of any pixel of views with parameters [..., 30], on the CPU."""
    length, outputs = parameters[..., 2:4].flatten(), parameters[..., 4:6].flatten()
    if not len(length):
        return 2
    return math.ceil(2 * max(1.0, float((length.double() / outputs.double()).max())))


def axis_taps(
    start: Tensor, length: Tensor, outputs: Tensor, window: Tensor, size: int, number: int
) -> tuple[Tensor, Tensor]:
    """Return the first source pixels [N, size] and the weights [N, size, number] of the taps of
    windows in boxes along one axis, which are resized to ``outputs`` pixels."""
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
    return (low + start.double()[:, None]).int(), weight.int()


def _within(first: Tensor, weights: Tensor, side: Tensor) -> Tensor:
    """Return the weights without those of pixels outside an image of ``side`` [n, 1] pixels."""
    source = first[:, :, None] + torch.arange(weights.shape[-1], device=first.device)
    return torch.where((source >= 0) & (source < side[:, :, None]), weights, 0)
