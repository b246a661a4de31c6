"""Views of decoded images as input of a network: by the kernel on a GPU, by Pillow elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from resultant._core.device import has_triton
from resultant.images.drawing import normalize
from resultant.images.photo_plan import Plan, most_taps, plan
from resultant.images.photo_views import (
    COLUMNS,
    CUBIC,
    NEAREST,
    OPERATIONS,
    STEPS,
    WARPS,
    Colour,
    evaluation_parameters,
    matrices,
)

if TYPE_CHECKING:
    from PIL.Image import Image

STEP = COLUMNS.index("code0")


def uses_kernel(device: torch.device) -> bool:
    """Return True if views are computed on the device, by a Triton kernel."""
    return device.type == "cuda" and has_triton()


def placed_on(device: torch.device) -> torch.device:
    """Return the device that computes the views: the CPU without a kernel."""
    return device if uses_kernel(device) else torch.device("cpu")


class Rendering:
    """Normalized views of decoded images, [n, 3, size, size] channels last, ``number`` per call.

    Pixels from outside an image have the colour ``mean``.
    """

    def __init__(
        self, number: int, size: int, mean: Colour, std: Colour, device: torch.device
    ) -> None:
        self.size, self.mean, self.std, self.device = size, mean, std, device
        red, green, blue = (min(255, round(255 * m)) for m in mean)
        self.fill = (red, green, blue)
        self.kernel = None
        if uses_kernel(device):
            from resultant.images.photo_kernel import Renderer

            self.kernel = Renderer(number, size, mean, std, self.fill, device)

    @property
    def bytes(self) -> int:
        """Bytes of the buffers on the device."""
        return 0 if self.kernel is None else self.kernel.bytes

    @property
    def plan_bytes(self) -> int:
        """Bytes of the plan of a view of a few taps, with its temporaries."""
        return 320 * self.size

    def plan(self, parameters: Tensor) -> tuple[Tensor, ...]:
        """Prepare parameters [n, 30] of views, on the CPU, for calls; each tensor is [n, ...]."""
        if self.kernel is None:
            return (parameters,)
        on_device = parameters.pin_memory().to(self.device, non_blocking=True)
        return plan(on_device, self.size, most_taps(parameters))

    def rehearse(self, out: Tensor) -> None:
        """Compile the kernel, if there is one, with a view of a black image in ``out``."""
        if self.kernel is None:
            return
        sizes = torch.full((1, 2), self.size, dtype=torch.int32)
        planned = self.plan(evaluation_parameters(sizes, self.size, self.size))
        pixels = torch.zeros(3 * self.size**2, dtype=torch.uint8, device=self.device)
        offsets = torch.zeros(1, dtype=torch.int64, device=self.device)
        self(pixels, offsets, sizes.to(self.device), planned, out[:1])

    def __call__(
        self, pixels: Tensor, offsets: Tensor, sizes: Tensor, plan: tuple[Tensor, ...], out: Tensor
    ) -> None:
        """Write views to ``out`` [n, 3, size, size], channels last.

        ``pixels`` are flat uint8 decoded images, on the CPU for Pillow, with their first bytes
        ``offsets`` [n] int64 and their heights and widths ``sizes`` [n, 2] int32.
        """
        if self.kernel is not None:
            self.kernel(pixels, offsets, sizes, Plan(*plan), out)
            return
        views = levels(pixels, offsets, sizes, plan[0], self.size, self.fill)
        out.copy_(normalize(views, self.mean, self.std))


def levels(
    pixels: Tensor,
    offsets: Tensor,
    sizes: Tensor,
    parameters: Tensor,
    size: int,
    fill: tuple[int, int, int],
) -> Tensor:
    """Compute views uint8 [N, 3, size, size] with parameters [N, 30] from flat uint8 pixels.

    Images begin at ``offsets`` [N] and have heights and widths ``sizes`` [N, 2]. Pixels from
    outside a view have the colour ``fill``.
    """
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


def _warp(image: Image, entries: list[float], kind: float, fill: tuple[int, int, int]) -> Image:
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
