"""Views of decoded images as input of a network: by the kernel on a GPU, by Pillow elsewhere."""

from __future__ import annotations

import torch
from torch import Tensor

from resultant._core.device import has_triton
from resultant.images.photo_plan import Plan, most_taps, plan
from resultant.images.photo_views import Colour, channel_lines, normalize
from resultant.images.pillow_views import levels


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
    """Normalized views of decoded images, [n, 3, size, size] channels last, ``number`` per call.

    Pixels from outside an image have the colour ``fill``, in levels, by default ``mean``.
    """

    def __init__(
        self,
        number: int,
        size: int,
        mean: Colour,
        std: Colour,
        device: torch.device,
        fill: tuple[int, ...] | None = None,
    ) -> None:
        self.size, self.mean, self.std, self.device = size, mean, std, device
        self.fill = fill or tuple(min(255, round(255 * m)) for m in mean)
        self.kernel = uses_kernel(device)
        if self.kernel:
            lines = *channel_lines(mean, std), self.fill
            self.lines = torch.tensor(lines, dtype=torch.float32, device=device)
            self.scratch = torch.empty(number, 6 * size * size, dtype=torch.float16, device=device)
            self.tables = torch.empty(number, 256, dtype=torch.int32, device=device)

    def plan(self, parameters: Tensor, sides: Tensor | None = None) -> tuple[Tensor, ...]:
        """Prepare parameters [n, 30] of views, on the CPU, for a call; ``sides`` as in `plan`."""
        if not self.kernel:
            return (parameters,)
        return plan(moved(parameters, self.device), self.size, most_taps(parameters), sides)

    def __call__(
        self, pixels: Tensor, offsets: Tensor, sizes: Tensor, plan: tuple[Tensor, ...], out: Tensor
    ) -> None:
        """Write views to ``out`` [n, 3, size, size], channels last.

        ``pixels`` are flat uint8 decoded images, on the CPU for Pillow, with their first bytes
        ``offsets`` [n] int64 and their heights and widths ``sizes`` [n, 2] int32.
        """
        if self.kernel:
            from resultant.images.photo_kernel import render

            buffers = self.lines, self.scratch, self.tables
            render(pixels, offsets, sizes, Plan(*plan), *buffers, out, self.size)
        else:
            views = levels(pixels, offsets, sizes, plan[0], self.size, self.fill)
            out.copy_(normalize(views, self.mean, self.std))
