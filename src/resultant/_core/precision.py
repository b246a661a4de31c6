"""How a GPU is to compute: float32 products in full, and convolutions that were timed first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch


@contextmanager
def full_precision(device: torch.device) -> Iterator[None]:
    """Float32 products and convolutions without TF32, and without autocast."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    with ExitStack() as stack:
        if hasattr(matmul, "fp32_precision"):
            for place in (matmul, cudnn.conv):  # type: ignore[attr-defined]
                stack.enter_context(_set(place, "fp32_precision", "ieee"))
        else:
            for place in (matmul, cudnn):
                stack.enter_context(_set(place, "allow_tf32", False))
        stack.enter_context(torch.autocast(device.type, enabled=False))
        yield


@contextmanager
def timed_convolutions() -> Iterator[None]:
    """cuDNN tries its algorithms on each new shape and keeps the fastest."""
    with _set(torch.backends.cudnn, "benchmark", True):
        yield


@contextmanager
def _set(place: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(place, name)
    setattr(place, name, value)
    try:
        yield
    finally:
        setattr(place, name, before)
