"""Views of decoded images as input of a network: by the kernel on a GPU, by Pillow elsewhere."""

from __future__ import annotations

import torch
from torch import Tensor

from resultant._core.device import has_triton
from resultant.images.drawing import normalize
from resultant.images.photo_plan import Plan, most_taps, plan
from resultant.images.photo_views import Colour, evaluation_parameters
from resultant.images.pillow_views import levels


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
