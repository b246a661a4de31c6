"""Devices: the choice of one, Triton kernels on it, and the precision of its products."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import cache
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

_HERE = nullcontext()


def require_device(device: torch.device | str) -> torch.device:
    """Return the device; raise a ValueError if it is not available."""
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError) as error:
        first = str(error).partition("\n")[0]
        raise ValueError(f"expected a device to compute on, got {device!r}: {first}") from None


def device_of(a: Tensor) -> AbstractContextManager[object]:
    """Make the device of ``a`` the current one within a context.

    Triton launches on the current device and its current stream, wherever the tensors are. The
    device of ``a`` is nearly always the current one already; then, and on the CPU, the context does
    nothing: `torch.cuda.device` would take the host several times as long.
    """
    index = a.get_device()
    return _HERE if index < 0 or index == torch.cuda.current_device() else torch.cuda.device(index)


class Launcher:
    """Launches of a Triton kernel that skip what Triton has derived before.

    Triton derives types, alignment and constants from the arguments of every launch, and calls
    the hooks of profilers, which takes the host several times as long as the launch. Here the
    caller names what decides by a ``key``, and no hook is called.
    """

    def __init__(self, kernel: Any) -> None:
        self._kernel, self._compiled = kernel, {}

    def __call__(
        self,
        grid: tuple[int, int, int],
        key: object,
        tensors: tuple[Tensor, ...],
        numbers: tuple[Any, ...],
        warps: int,
    ) -> None:
        """Launch on the current device.

        Args:
            grid: Number of programs.
            key: What decides the device, the dtypes, and what Triton knows of the numbers.
            tensors: The first arguments of the kernel.
            numbers: The other arguments, constants included.
            warps: Number of warps per program.
        """
        pointers, bits = [a.data_ptr() for a in tensors], 0
        for pointer in pointers:
            bits |= pointer
        aligned = not bits & 15
        if aligned and (compiled := self._compiled.get(key)) is not None:
            launch, stream_of, device, fixed = compiled
            launch(*grid, stream_of(device), *fixed, *pointers, *numbers)
            return
        compiled = self._kernel[grid](*tensors, *numbers, num_warps=warps)
        # In the interpreter nothing is compiled.
        if aligned and compiled is not None and _launches_directly():
            self._compiled[key] = _direct(compiled, tensors[0].get_device())


def _direct(compiled: Any, device: int) -> tuple[Any, Any, int, tuple[Any, ...]]:
    """Return the launch of a compiled kernel, its stream as a function of the device, the device,
    and the arguments between the stream and those of the kernel; the last three are hooks."""
    stream_of = importlib.import_module("triton").runtime.driver.active.get_current_stream
    fixed = compiled.function, compiled.packed_metadata, None, None, None
    return compiled.run, stream_of, device, fixed


@cache
def _launches_directly() -> bool:
    """Return True if compiled kernels take all arguments: since Triton 3.4."""
    major, minor = importlib.metadata.version("triton").split(".")[:2]
    return (int(major), int(minor)) >= (3, 4)


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
