"""Views of decoded images as input of a network: by the kernel on a GPU, by Pillow elsewhere."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageEnhance, ImageOps
from PIL.Image import Resampling
from torch import Tensor

from resultant._core.device import has_triton
from resultant.images import photo_views as photo
from resultant.images.photo_views import Plan, most_taps, plan

STEP = photo.COLUMNS.index("code0")
# By the numbers `photo_views.BILINEAR`, ``CUBIC`` and ``NEAREST``.
FILTERS = (Resampling.BILINEAR, Resampling.BICUBIC, Resampling.NEAREST)
# Pixels that a filter of resizing reaches.
REACH = {Resampling.BILINEAR: 1, Resampling.BICUBIC: 2}


def resizing(interpolation: str) -> Resampling:
    """Return the filter of an interpolation of timm; those other than bilinear are as sharp as
    bicubic."""
    return Resampling.BILINEAR if interpolation == "bilinear" else Resampling.BICUBIC


def uses_kernel(device: torch.device) -> bool:
    """Return True if views are computed on the device, by a Triton kernel."""
    return device.type == "cuda" and has_triton()


def placed_on(device: torch.device) -> torch.device:
    """Return the device that computes the views: the CPU without a kernel."""
    return device if uses_kernel(device) else torch.device("cpu")


def moved(a: Tensor, device: torch.device) -> Tensor:
    """Copy a tensor of the CPU to a device, from page-locked memory: the host does not wait."""
    return a.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else a


class Rendering:
    """Normalized views of decoded images, ``number`` per call, resized by ``interpolation``; pixels
    from outside are ``fill``."""

    def __init__(
        self,
        number: int,
        size: int,
        mean: photo.Colour,
        std: photo.Colour,
        device: torch.device,
        fill: tuple[int, ...] | None = None,
        interpolation: str = "bilinear",
    ) -> None:
        self.resizing = resizing(interpolation)
        self.size, self.mean, self.std, self.device = size, mean, std, device
        self.fill = fill or tuple(min(255, round(255 * m)) for m in mean)
        self.kernel = uses_kernel(device)
        if self.kernel:
            lines = *photo.channel_lines(mean, std), self.fill
            self.lines = torch.tensor(lines, dtype=torch.float32, device=device)
            self.scratch = torch.empty(number, 6 * size * size, dtype=torch.float16, device=device)
            self.tables = torch.empty(number, 256, dtype=torch.int32, device=device)

    def plan(self, parameters: Tensor, sides: Tensor | None = None) -> tuple[Tensor, ...]:
        """Prepare parameters [n, 26] of views, on the CPU, for a call; ``sides`` as in `plan`."""
        if not self.kernel:
            return (parameters,)
        reach = REACH[self.resizing]
        on_device, taps = moved(parameters, self.device), most_taps(parameters, self.size, reach)
        return plan(on_device, self.size, taps, sides, reach=reach)

    def __call__(
        self, pixels: Tensor, offsets: Tensor, sizes: Tensor, plan: tuple[Tensor, ...], out: Tensor
    ) -> None:
        """Write views of flat uint8 ``pixels``, images at ``offsets`` [n] of ``sizes`` [n, 2]."""
        if self.kernel:
            from resultant.images.photo_kernel import render

            buffers = self.lines, self.scratch, self.tables, out
            render((pixels, offsets, sizes), Plan(*plan), buffers, self.size)
        else:
            images = pixels, offsets, sizes
            views = levels(*images, plan[0], self.size, self.fill, self.resizing)
            out.copy_(photo.normalize(views, self.mean, self.std))


def levels(
    pixels: Tensor,
    offsets: Tensor,
    sizes: Tensor,
    drawn: Tensor,
    size: int,
    fill: tuple[int, ...],
    resizing: Resampling = Resampling.BILINEAR,
) -> Tensor:
    """Compute views uint8 [N, 3, size, size] with parameters [N, 26] from flat uint8 pixels."""
    steps = drawn[:, STEP:].unflatten(1, (photo.STEPS, 3))
    maps = photo.matrices(steps[:, :, 0], steps[:, :, 1], size).flatten(2).tolist()
    out = np.empty((len(drawn), size, size, 3), np.uint8)
    flat, rows = pixels.numpy(), drawn[:, :STEP].int().tolist()
    for i, offset in enumerate(offsets.tolist()):
        height, width = sizes[i].tolist()
        image = flat[offset : offset + 3 * height * width].reshape(height, width, 3)
        view = crop(Image.fromarray(image), rows[i], size, resizing)
        for (code, value, kind), entries in zip(steps[i].tolist(), maps[i], strict=True):
            name = photo.OPERATIONS[int(code)]
            if name in photo.WARPS:
                options = Image.Transform.AFFINE, entries, FILTERS[int(kind)]
                view = view.transform(view.size, *options, fillcolor=fill)
            elif code:
                view = OPERATIONS[name](view, value)
        out[i] = np.asarray(view)
    return torch.from_numpy(out).permute(0, 3, 1, 2)


def crop(image: Image.Image, row: list[int], size: int, resizing: Resampling) -> Image.Image:
    """Resize a box, and mirror it; pixels outside the image are black."""
    top, left, height, width, flip = row
    if (left, top, width, height) != (0, 0, *image.size):
        image = image.crop((left, top, left + width, top + height))
    if image.size != (size, size):
        image = image.resize((size, size), resizing)
    return ImageOps.mirror(image) if flip else image


def _turn_hue(image: Image.Image, turn: float) -> Image.Image:
    """Turn the hues, bytes in Pillow, by a share of the circle within [-1/2, 1/2]."""
    hue, saturation, value = image.convert("HSV").split()
    turned = np.asarray(hue) + np.array(int(turn * 255)).astype(np.uint8)
    return Image.merge("HSV", (Image.fromarray(turned), saturation, value)).convert("RGB")


OPERATIONS: dict[str, Callable[[Any, float], Any]] = {
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
