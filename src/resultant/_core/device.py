"""The device that kernels are launched on.

Triton launches on the current device and its current stream, wherever the tensors lie.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

_HERE = nullcontext()


def device_of(a: Tensor) -> AbstractContextManager[object]:
    """Within, the device of ``a`` is the current one.

    It nearly always is already, and then, as on the CPU, nothing is done: `torch.cuda.device` would
    take the host several times as long.
    """
    index = a.get_device()
    return _HERE if index < 0 or index == torch.cuda.current_device() else torch.cuda.device(index)
