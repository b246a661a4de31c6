"""Settings of torch within a context: the precision of products, and timed convolutions."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch


@contextmanager
def full_precision(device: torch.device) -> Iterator[None]:
    """Compute float32 products and convolutions without TF32, and without autocast."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    if hasattr(matmul, "fp32_precision"):
        name, value, other = "fp32_precision", "ieee", cudnn.conv  # type: ignore[attr-defined]
    else:
        name, value, other = "allow_tf32", False, cudnn
    autocast = torch.autocast(device.type, enabled=False)
    with _set(matmul, name, value), _set(other, name, value), autocast:
        yield


def timed_convolutions() -> AbstractContextManager[None]:
    """Let cuDNN time its algorithms on each new shape and keep the fastest."""
    return _set(torch.backends.cudnn, "benchmark", True)


@contextmanager
def _set(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)
