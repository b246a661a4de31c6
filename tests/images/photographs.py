"""Photographs of several sizes as flat pixels, and their views by PIL, torchvision and timm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from resultant.images.photo_views import COLUMNS, CUBIC, OPERATIONS, STEPS

BILINEAR, BICUBIC = Image.Resampling.BILINEAR, Image.Resampling.BICUBIC
Picture = Image.Image
FILL = (120, 111, 102)
# Smallest probability of a statistical test.
LEAST_P = 1e-3


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def column(parameters: Tensor, name: str) -> np.ndarray:
    return parameters[:, COLUMNS.index(name)].numpy()


def levels(pictures: list[Picture]) -> Tensor:
    return torch.stack([torch.from_numpy(np.array(p)).permute(2, 0, 1) for p in pictures])


def photographs(n: int, low: int = 20, high: int = 70) -> tuple[Tensor, Tensor, Tensor]:
    """Return flat pixels, offsets [n] and sizes [n, 2] of smooth images with noise, and three of
    one level or two."""
    g = seeded(3)
    sizes = torch.randint(low, high, (n, 2), generator=g)
    parts = []
    for i, (h, w) in enumerate(sizes.tolist()):
        coarse = torch.rand(1, 3, 5, 5, generator=g)
        x = torch.nn.functional.interpolate(coarse, size=(h, w), mode="bicubic")[0]
        x = 330 * x * torch.rand(1, generator=g) + 20 * torch.randn(3, h, w, generator=g)
        x = x.clamp(0, 255).to(torch.uint8)
        if i < 3:
            x[:] = (0, 255, 77)[i]
            x[:, : h // 2] += i // 2
        parts.append(x.permute(1, 2, 0).reshape(-1))
    ends = torch.tensor([len(part) for part in parts]).cumsum(0)
    return torch.cat(parts), ends - torch.tensor([len(part) for part in parts]), sizes


def picture(pixels: Tensor, offset: int, size: list[int]) -> Picture:
    h, w = size
    return Image.fromarray(pixels[offset : offset + 3 * h * w].view(h, w, 3).numpy())


def colours() -> dict[str, Callable[[Picture, float], Picture]]:
    """Return the operations on colours by torchvision and timm."""
    # Not at the top: kernels are interpreted in a process without torchvision.
    from timm.data import auto_augment as timm

    from resultant._core.vision import vision_module

    tv = vision_module("torchvision.transforms.functional")
    return {
        "brightness": tv.adjust_brightness,
        "contrast": tv.adjust_contrast,
        "saturation": tv.adjust_saturation,
        "hue": tv.adjust_hue,
        "grey": lambda p, v: tv.rgb_to_grayscale(p, 3),
        "sharpness": timm.sharpness,
        "autocontrast": lambda p, v: timm.auto_contrast(p),
        "equalize": lambda p, v: timm.equalize(p),
        "invert": lambda p, v: timm.invert(p),
        "posterize": lambda p, v: timm.posterize(p, int(v)),
        "solarize": lambda p, v: timm.solarize(p, int(v)),
        "solarize_add": lambda p, v: timm.solarize_add(p, int(v)),
    }


def reference(p: Picture, row: list[float], size: int, fill: tuple[float, ...] = FILL) -> Picture:
    """Compute the view of a picture from a row of parameters."""
    from timm.data import auto_augment as timm

    of = dict(zip(COLUMNS, row, strict=True))
    top, left, height, width = (int(of[k]) for k in ("top", "left", "height", "width"))
    p = p.crop((left, top, left + width, top + height))
    p = p.resize((int(of["columns"]), int(of["rows"])), BILINEAR)
    down, across = int(of["down"]), int(of["across"])
    p = p.crop((across, down, across + size, down + size))
    p = ImageOps.mirror(p) if of["flip"] else p
    warp: dict[str, Any] = {"fillcolor": tuple(map(int, fill))}
    named = colours() | {
        "rotate": lambda p, v: timm.rotate(p, v, **warp),
        "shear_x": lambda p, v: timm.shear_x(p, v, **warp),
        "shear_y": lambda p, v: timm.shear_y(p, v, **warp),
        "translate_x": lambda p, v: timm.translate_x_rel(p, v / size, **warp),
        "translate_y": lambda p, v: timm.translate_y_rel(p, v / size, **warp),
    }
    for k in range(STEPS):
        if of[f"code{k}"]:
            warp["resample"] = BICUBIC if of[f"filter{k}"] == CUBIC else BILINEAR
            p = named[OPERATIONS[int(of[f"code{k}"])]](p, of[f"value{k}"])
    return p


def references(
    pixels: Tensor, offsets: Tensor, sizes: Tensor, parameters: Tensor, size: int
) -> Tensor:
    """Return the views of all pictures, uint8 [n, 3, size, size]."""
    rows = zip(offsets.tolist(), sizes.tolist(), parameters.tolist(), strict=True)
    return levels([reference(picture(pixels, o, s), row, size) for o, s, row in rows])
