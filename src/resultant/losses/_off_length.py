"""Lengths of vectors on a GPU that are not one: written by the step, read by a later step.

A GPU writes into pinned memory of the host, and only if a length is wrong. Nothing waits, and a
step of unit vectors costs nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

# Distance of a length from one that is more than rounding in half precision.
LENGTH_TOLERANCE = 0.05


class OffLength:
    """A wrong length: its distance from one, and the row of its class. Copies begin without."""

    def __init__(self) -> None:
        self._host: Tensor | None = None
        self._seen: Any = None

    @property
    def host(self) -> Tensor:
        """Memory [1] that a GPU can write; zero unless a length was wrong.

        One number, so that both parts are written at once: the row times 2^32, plus the bits of the
        distance in float32.
        """
        if self._host is None:
            pinned = torch.cuda.is_available()
            self._host = torch.zeros(1, dtype=torch.int64, pin_memory=pinned)
            self._seen = self._host.numpy()
        return self._host

    def take(self) -> tuple[float, int] | None:
        """Return distance and row of a wrong length that the device has met, and forget them."""
        # Read through NumPy, as every step does: operations of torch take the host longer.
        if self._seen is None or not (packed := int(self._seen[0])):
            return None
        self._seen[0] = 0
        row, bits = divmod(packed, 1 << 32)
        return float(np.uint32(bits).view(np.float32)), row

    def __deepcopy__(self, memo: dict[int, Any]) -> OffLength:
        return OffLength()

    def __reduce__(self) -> tuple[type[OffLength], tuple[()]]:
        return OffLength, ()
