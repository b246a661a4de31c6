"""Operations on batches of images against torchvision and PIL."""

from __future__ import annotations

import math
import platform
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from images.pictures import (
    SIZE,
    Picture,
    affine,
    apart,
    fused,
    levels,
    pictures,
    sample,
    seeded,
    tv,
)
from resultant.images import image_ops as ops
from resultant.images.augment import (
    MEAN,
    STD,
    normalize,
)


def between(low: float, high: float) -> Callable[[int], Tensor]:
    return lambda n: low + (high - low) * torch.rand(n, generator=seeded(4))


def whole(low: int, high: int) -> Callable[[int], Tensor]:
    return lambda n: torch.randint(low, high + 1, (n,), generator=seeded(4)).float()


def sheared(p: Picture, degrees: list[float]) -> Picture:
    bicubic = tv.InterpolationMode.BICUBIC
    return tv.affine(p, 0.0, [0, 0], 1.0, degrees, bicubic, [128.0] * 3, center=[0, 0])


Ours = Callable[[Tensor, Tensor], Tensor]


Reference = Callable[[Any, float], Any]


ELEMENTARY: dict[str, tuple[Ours, Reference, Callable[[int], Tensor]]] = {
    "brightness": (ops.adjust_brightness, tv.adjust_brightness, between(0, 2)),
    "contrast": (ops.adjust_contrast, tv.adjust_contrast, between(0, 2)),
    "saturation": (ops.adjust_saturation, tv.adjust_saturation, between(0, 2)),
    "sharpness": (ops.adjust_sharpness, tv.adjust_sharpness, between(0, 2)),
    "hue": (ops.adjust_hue, tv.adjust_hue, between(-0.5, 0.5)),
    "posterize": (ops.posterize, lambda p, m: tv.posterize(p, int(m)), whole(1, 8)),
    "solarize": (ops.solarize, tv.solarize, between(0, 255)),
    "solarize at a level": (ops.solarize, tv.solarize, whole(0, 255)),
    "invert": (lambda x, m: ops.invert(x), lambda p, m: tv.invert(p), between(0, 1)),
    "autocontrast": (
        lambda x, m: ops.autocontrast(x),
        lambda p, m: tv.autocontrast(p),
        between(0, 1),
    ),
    "equalize": (lambda x, m: ops.equalize(x), lambda p, m: tv.equalize(p), between(0, 1)),
    "grey": (
        lambda x, m: ops.grey(x).expand_as(x),
        lambda p, m: tv.rgb_to_grayscale(p, 3),
        between(0, 1),
    ),
    "shear x": (
        lambda x, m: ops.shear(x, m, 128.0, across=True),
        lambda p, m: sheared(p, [math.degrees(math.atan(m)), 0.0]),
        between(-0.5, 0.5),
    ),
    "shear y": (
        lambda x, m: ops.shear(x, m, 128.0, across=False),
        lambda p, m: sheared(p, [0.0, math.degrees(math.atan(m))]),
        between(-0.5, 0.5),
    ),
    "rotate": (
        lambda x, m: ops.affine(x, ops.rotation(m, SIZE), 128.0),
        lambda p, m: tv.rotate(p, m, fill=[128.0] * 3),
        between(-180, 180),
    ),
    "translate x": (
        lambda x, m: ops.affine(x, ops.translation(m, 0 * m), 128.0),
        affine(lambda m: (1, 0, m, 0, 1, 0)),
        between(-40, 40),
    ),
    "translate y": (
        lambda x, m: ops.affine(x, ops.translation(0 * m, m), 128.0),
        affine(lambda m: (1, 0, 0, 0, 1, m)),
        between(-40, 40),
    ),
    "translate by pixels": (
        lambda x, m: ops.affine(x, ops.translation(-m, m), 128.0),
        lambda p, m: tv.affine(p, 0.0, [int(m), -int(m)], 1.0, [0.0, 0.0], fill=[128.0] * 3),
        whole(-35, 35),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ELEMENTARY)
def test_operation_equals_torchvision(name: str) -> None:
    ours, reference, draw = ELEMENTARY[name]
    images = sample()
    m = draw(len(images))
    expected = [reference(p, a) for p, a in zip(pictures(images), m.tolist(), strict=True)]
    torch.testing.assert_close(ours(images.float(), m), levels(expected), atol=0, rtol=0)


def test_blend_equals_pillow() -> None:
    """For every two levels; separate rounding on x86, and elsewhere one of the two ways."""
    a, b = np.meshgrid(np.arange(256, dtype=np.uint8), np.arange(256, dtype=np.uint8))
    factors = (0.1, 0.5, 0.7, 1.0, 1.1, 1.6, 1.9, -0.2)
    first, second = Image.fromarray(a), Image.fromarray(b)
    own = [np.array(Image.blend(first, second, f)) for f in factors]
    ways = [
        way
        for way in (apart, fused)
        if all((p == way(a, b, f)).all() for p, f in zip(own, factors, strict=True))
    ]
    assert len(ways) == 1 and (ways == [apart] or platform.machine() not in ("x86_64", "AMD64"))


@pytest.mark.slow
def test_hue_of_many_colours() -> None:
    """Chromas that are multiples of 5 and 17 put a hue on a step."""
    steps = [torch.arange(0, 256, k) for k in (3, 5, 17)]
    colours = torch.cat([torch.cartesian_prod(t, t, t) for t in steps]).to(torch.uint8)
    picture = Image.fromarray(colours[:, None].numpy())
    x = colours.T[None, :, :, None].float()
    for turn in (0.0, 0.07, -0.1, 0.5):
        ours = ops.adjust_hue(x, torch.tensor([turn]))
        torch.testing.assert_close(ours, levels([tv.adjust_hue(picture, turn)]), atol=0, rtol=0)


def boxes(n: int, size: int) -> Tensor:
    g = seeded(5)
    sides = torch.randint(1, size + 1, (n, 2), generator=g)
    corner = (torch.rand(n, 2, generator=g) * (size - sides + 1)).floor().long()
    return torch.cat((corner, sides), 1)


@pytest.mark.parametrize(("size", "most"), [(32, 0), (64, 0), (24, 1)])
def test_resized_crop(size: int, most: int) -> None:
    """Exact for weights that are binary fractions; PIL rounds other weights."""
    images = sample(200, size)
    box = boxes(len(images), size)
    box[:2] = torch.tensor([[0, 0, size, size], [size - 1, 0, 1, 1]])
    flip = torch.arange(len(images)) % 2
    expected = []
    for p, b, f in zip(pictures(images), box.tolist(), flip.tolist(), strict=True):
        cut = tv.resized_crop(p, *b, [size, size], tv.InterpolationMode.BILINEAR)
        expected.append(tv.hflip(cut) if f else cut)
    ours = ops.resized_crop(images, box.float(), flip.float())
    torch.testing.assert_close(ours, levels(expected), atol=most, rtol=0)


def test_padded_crop() -> None:
    images = sample()
    corner = torch.randint(0, 9, (len(images), 2), generator=seeded(5))
    flip = torch.arange(len(images)) % 2
    padded = torch.nn.functional.pad(images, [4] * 4)
    ours = ops.crop(padded, corner[:, 0], corner[:, 1], flip, SIZE)
    expected = []
    for p, (i, j), f in zip(pictures(images), corner.tolist(), flip.tolist(), strict=True):
        cut = tv.crop(tv.pad(p, [4]), i, j, SIZE, SIZE)
        expected.append(tv.hflip(cut) if f else cut)
    torch.testing.assert_close(ours.float(), levels(expected), atol=0, rtol=0)


@pytest.mark.parametrize("length", [0, 1, 7, 16, 80])
def test_erase(length: int) -> None:
    images = sample().float()
    centre = torch.randint(0, SIZE, (len(images), 2), generator=seeded(6))
    expected = []
    for a, (i, j) in zip(images, centre.tolist(), strict=True):
        top, left = max(0, i - length // 2), max(0, j - length // 2)
        h, w = min(SIZE, i + length // 2) - top, min(SIZE, j + length // 2) - left
        expected.append(tv.erase(a, top, left, h, w, torch.tensor(0.0)))
    ours = ops.erase(images, centre[:, 0].float(), centre[:, 1].float(), length)
    torch.testing.assert_close(ours, torch.stack(expected), atol=0, rtol=0)


def test_normalize() -> None:
    images = sample()
    means, stds = (0.1, 0.2, 0.3), (0.5, 0.6, 0.7)
    for got, mean, std in (
        (normalize(images), MEAN, STD),
        (normalize(images.float(), means, stds), means, stds),
    ):
        expected = tv.normalize(images / 255, list(mean), list(std))
        torch.testing.assert_close(got, expected)
