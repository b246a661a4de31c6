"""Values of a device that the host reads later, without waiting for the device."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class Mirror:
    """Copy of a small tensor in host memory that the device writes in the order of its work.

    A read returns the value after some earlier step. Copies of a mirror begin empty.
    """

    def __init__(self) -> None:
        self.host: Tensor | None = None

    def write(self, a: Tensor) -> None:
        """Queue a copy of ``a`` on its device."""
        if self.host is None:
            self.host = torch.zeros(a.shape, dtype=a.dtype, pin_memory=a.is_cuda)
        self.host.copy_(a, non_blocking=True)

    def __deepcopy__(self, memo: dict[int, Any]) -> Mirror:
        return Mirror()

    def __reduce__(self) -> tuple[type[Mirror], tuple[()]]:
        return Mirror, ()
