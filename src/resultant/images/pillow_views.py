"""Views computed by Pillow on the CPU, from the parameters of `photo_views`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from resultant.images.photo_views import COLUMNS, CUBIC, NEAREST, OPERATIONS, STEPS, WARPS, matrices

if TYPE_CHECKING:
    from PIL.Image import Image

STEP = COLUMNS.index("code0")


def levels(
    pixels: Tensor,
    offsets: Tensor,
    sizes: Tensor,
    parameters: Tensor,
    size: int,
    fill: tuple[int, ...],
) -> Tensor:
    """Compute views uint8 [N, 3, size, size] with parameters [N, 30] from flat uint8 pixels."""
    from PIL import Image

    steps = parameters[:, STEP:].unflatten(1, (STEPS, 3))
    maps = matrices(steps[:, :, 0], steps[:, :, 1], size).flatten(2).tolist()
    out = np.empty((len(parameters), size, size, 3), np.uint8)
    flat, rows = pixels.numpy(), parameters[:, :STEP].int().tolist()
    for i, (offset, (height, width)) in enumerate(
        zip(offsets.tolist(), sizes.tolist(), strict=True)
    ):
        image = flat[offset : offset + 3 * height * width].reshape(height, width, 3)
        view = crop(Image.fromarray(image), rows[i], size)
        for (code, value, kind), entries in zip(steps[i].tolist(), maps[i], strict=True):
            name = OPERATIONS[int(code)]
            if name in WARPS:
                view = _warp(view, entries, kind, fill)
            elif code:
                view = _operations()[name](view, value)
        out[i] = np.asarray(view)
    return torch.from_numpy(out).permute(0, 3, 1, 2)


def crop(image: Image, row: list[int], size: int) -> Image:
    """Resize a box, cut a window from it, and mirror it; pixels outside the image are black."""
    from PIL import Image, ImageOps

    top, left, height, width, rows, columns, down, across, flip = row
    if (left, top, width, height) != (0, 0, *image.size):
        image = image.crop((left, top, left + width, top + height))
    if image.size != (columns, rows):
        image = image.resize((columns, rows), Image.Resampling.BILINEAR)
    if (across, down, size, size) != (0, 0, columns, rows):
        image = image.crop((across, down, across + size, down + size))
    return ImageOps.mirror(image) if flip else image


def _warp(image: Image, entries: list[float], kind: float, fill: tuple[int, ...]) -> Image:
    from PIL import Image

    filters = {CUBIC: Image.Resampling.BICUBIC, NEAREST: Image.Resampling.NEAREST}
    return image.transform(
        image.size,
        Image.Transform.AFFINE,
        entries,
        filters.get(kind, Image.Resampling.BILINEAR),
        fillcolor=fill,
    )


def _operations() -> dict[str, Callable[[Any, float], Any]]:
    from PIL import ImageEnhance, ImageOps

    return {
        "brightness": lambda image, v: ImageEnhance.Brightness(image).enhance(v),
        "contrast": lambda image, v: ImageEnhance.Contrast(image).enhance(v),
        "saturation": lambda image, v: ImageEnhance.Color(image).enhance(v),
        "sharpness": lambda image, v: ImageEnhance.Sharpness(image).enhance(v),
        "hue": _turn_hue,
        "grey": lambda image, v: image.convert("L").convert("RGB"),
        "autocontrast": lambda image, v: ImageOps.autocontrast(image),
        "equalize": lambda image, v: ImageOps.equalize(image),
        "invert": lambda image, v: ImageOps.invert(image),
        "posterize": lambda image, v: ImageOps.posterize(image, int(v)),
        "solarize": lambda image, v: ImageOps.solarize(image, v),  # type: ignore[arg-type]
        "solarize_add": lambda image, v: image.point(
            [min(255, level + int(v)) if level < 128 else level for level in range(256)] * 3
        ),
    }


def _turn_hue(image: Image, turn: float) -> Image:
    """Turn the hues, bytes in Pillow, by a share of the circle within [-1/2, 1/2]."""
    from PIL import Image

    hue, saturation, value = image.convert("HSV").split()
    turned = np.asarray(hue) + np.array(int(turn * 255)).astype(np.uint8)
    return Image.merge("HSV", (Image.fromarray(turned), saturation, value)).convert("RGB")
