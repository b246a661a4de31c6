"""Views of decoded images as input of a network, by the fastest way on the device."""

from __future__ import annotations

import importlib.util

import torch
from torch import Tensor

from resultant.images.augment import normalize
from resultant.images.photo_views import Colour, levels


class Rendering:
    """Normalized views [n, 3, size, size], channels last, of decoded images.

    On a CUDA device with Triton the views are one kernel and lie in a buffer that the next call
    overwrites.

    Args:
        number: Most views of a call.
        size: Height and width of the views.
        mean: Mean per channel, in [0, 1]; also the colour of pixels from outside an image.
        std: Standard deviation per channel.
        dtype: Type of the views.
        device: Device of the views.
    """

    def __init__(
        self,
        number: int,
        size: int,
        mean: Colour,
        std: Colour,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.size, self.mean, self.std, self.dtype = size, mean, std, dtype
        red, green, blue = (float(min(255, round(255 * m))) for m in mean)
        self.fill = (red, green, blue)
        self.kernel = None
        if device.type == "cuda" and importlib.util.find_spec("triton") is not None:
            from resultant.images.photo_kernel import Renderer

            self.kernel = Renderer(number, size, mean, std, self.fill, dtype, device)

    @property
    def bytes(self) -> int:
        """Bytes of the buffers on the device."""
        return 0 if self.kernel is None else self.kernel.bytes

    def __call__(
        self, pixels: Tensor, offsets: Tensor, sizes: Tensor, parameters: Tensor, taps: int
    ) -> Tensor:
        """Compute views.

        Args:
            pixels: Decoded images, flat uint8.
            offsets: First byte [n] of each image, int64.
            sizes: Heights and widths [n, 2], int32.
            parameters: Parameters [n, 33], float64.
            taps: `photo_views.most_taps` of the parameters, or more.
        """
        if self.kernel is not None:
            return self.kernel(pixels, offsets, sizes, parameters, taps)
        x = levels(pixels, offsets, sizes, parameters.cpu(), self.size, self.fill)
        x = normalize(x, self.mean, self.std).to(self.dtype)
        return x.contiguous(memory_format=torch.channels_last)
