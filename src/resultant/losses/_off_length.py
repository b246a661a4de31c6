"""Lengths of vectors on a GPU that are not one: written by the step, read by a later step.

A GPU writes into pinned memory of the host, and only if a length is wrong. Nothing waits, and a
step of unit vectors costs nothing.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from resultant._core.validation import DivergedError

# Distance of a length from one that is more than rounding in half precision.
LENGTH_TOLERANCE = 0.05


class OffLength:
    """Distance from one of a wrong length, one per run. Copies begin without."""

    def __init__(self, runs: int) -> None:
        self.runs = runs
        self._host: Tensor | None = None

    @property
    def host(self) -> Tensor:
        """Distances [runs] in memory that a GPU can write; zero unless a length was wrong."""
        if self._host is None:
            self._host = torch.zeros(self.runs, pin_memory=torch.cuda.is_available())
        return self._host

    def require(self) -> None:
        """Raise if a step that the device has finished had a wrong length."""
        if self._host is None or not float(self._host.max()):
            return
        run = f" of run {int(self._host.argmax())}" if self.runs > 1 else ""
        got = f"a length that is {float(self._host.max()):.3g} away from one{run}"
        self._host.zero_()
        raise DivergedError(
            f"expected unit vectors z in all steps so far, got {got} (a vector of zeros has no "
            "direction; normalize after casting to float32)"
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> OffLength:
        return OffLength(self.runs)

    def __reduce__(self) -> tuple[type[OffLength], tuple[int]]:
        return OffLength, (self.runs,)
