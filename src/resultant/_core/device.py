"""Devices: the choice of one, Triton kernels on it, and the precision of its products."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from types import ModuleType
from typing import Any

import torch


def require_device(device: torch.device | str) -> torch.device:
    """Return the device; raise a ValueError if it is not available."""
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError) as error:
        first = str(error).partition("\n")[0]
        raise ValueError(f"expected a device to compute on, got {device!r}: {first}") from None


# Makes the device of a tensor the current one within a context: Triton launches on the current
# device and its current stream, wherever the tensors are. On the CPU it does nothing.
device_of = torch.cuda.device_of


@cache
def kernel_module(name: str) -> ModuleType | None:
    """Import a module of Triton kernels by its full name; None without Triton."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def has_triton() -> bool:
    """Return True if Triton is installed, which the fused kernels need."""
    return importlib.util.find_spec("triton") is not None


@contextmanager
def full_precision(device: torch.device) -> Iterator[None]:
    """Compute float32 products and convolutions without TF32, and without autocast."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    with ExitStack() as stack:
        if hasattr(matmul, "fp32_precision"):
            for backend in (matmul, cudnn.conv):  # type: ignore[attr-defined]
                stack.enter_context(_set(backend, "fp32_precision", "ieee"))
        else:
            for backend in (matmul, cudnn):
                stack.enter_context(_set(backend, "allow_tf32", False))
        stack.enter_context(torch.autocast(device.type, enabled=False))
        yield


@contextmanager
def timed_convolutions() -> Iterator[None]:
    """Let cuDNN time its algorithms on each new shape and keep the fastest."""
    with _set(torch.backends.cudnn, "benchmark", True):
        yield


@contextmanager
def _set(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)
