"""The compiled kernel for CPUs, built with the package where there is a C compiler; without it, or
with the environment variable ``RESULTANT_KERNEL=0``, functions in torch compute the same."""

import ctypes
import os
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, lru_cache, wraps
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from resultant._core.autograd import Function
from resultant._core.modes import is_plain, is_zero_tensor
from resultant.special.debye import LogDebye, Number, expansion, raised, unshifted, unshifted_from
from resultant.special.differences import anchor

# Elements per thread; with fewer, starting a thread costs more than it saves.
GRAIN = 1 << 17

# Elements in a block of the kernel.
BLOCK = {torch.float64: 16, torch.float32: 32}

_PLAIN = (Tensor, torch.nn.Parameter)


def _load(folder: Path) -> ctypes.CDLL | None:
    """Load the library of the sources in the folder; None if it is missing or of other sources."""
    if os.environ.get("RESULTANT_KERNEL") == "0":
        return None
    try:
        library = ctypes.CDLL(str(folder / "_kernel.shared"))
        sources = library.resultant_sources
    except (OSError, AttributeError):
        return None
    sources.restype = ctypes.c_int64
    # After an update in place the library is that of other sources until it is built again. A wheel
    # has the library alone.
    texts = b"".join(path.read_bytes() for path in sorted(folder.glob("_kernel*.[ch]")))
    return library if not texts or sources() == zlib.crc32(texts) else None


_library = _load(Path(__file__).parent)


# Functions of `bessel`, in the order of the kernel: the ratio R and its derivative, 1 - R, the x
# of a ratio and of a complement, the integral of R, that of 1 - R from zero, log I and log I - x.
KINDS = (
    "ratio", "first", "complement", "inverse", "complement_inverse", "integral",
    "complement_integral", "log", "log_scaled",
)  # fmt: skip


@cache
def _function(name: str, dtype: torch.dtype, pointers: int, numbers: int) -> Callable[..., None]:
    """Return a function of the library for a dtype, with so many arguments."""
    suffix = "f64" if dtype == torch.float64 else "f32"
    function = getattr(_library, f"resultant_{name}_{suffix}")
    function.argtypes = [ctypes.c_void_p] * pointers + [ctypes.c_int64] * numbers
    function.restype = None
    return function


def available(*tensors: Tensor) -> bool:
    """Return True for plain tensors on the CPU, outside of transforms, of traces and of modes."""
    if _library is None or not is_plain():
        return False
    return all(type(a) in _PLAIN and a.is_cpu and _has_memory(a) for a in tensors)


def _has_memory(a: Tensor) -> bool:
    """Return True if the memory holds the values: that of a lazy negation, such as the imaginary
    part of a conjugate, has the other sign, and a tensor of zeros may have none."""
    return not a.is_neg() and not is_zero_tensor(a)


def _table(e: LogDebye, dtype: torch.dtype) -> Tensor:
    """Return an expansion as the kernel reads it."""
    weighted = [e.weighted(n) for n in (1, 2, 3)]
    weighted[0][0] = 0.5
    start = [float(a) for a in anchor(e, torch.empty(0, dtype=dtype, device="cpu"))]
    sizes = len(e.coefficients), e.shift
    header = [e.nu, e.order, e.scale, unshifted_from(dtype) ** 2, *start, *sizes, *e.steps()]
    tables = [c for values in (e.coefficients, *weighted) for c in values]
    repeated = [c for c in tables for _ in range(BLOCK[dtype])]
    return torch.tensor([*header, *repeated], dtype=dtype, device="cpu")


@lru_cache(maxsize=1024)
def _tables(
    nu: float, dtype: torch.dtype, absolute: bool = False, ratio: bool = False
) -> tuple[Any, ...]:
    """Return the addresses of the two expansions at ``nu``, for the ``ratio`` `raised`, and the
    tensors to keep meanwhile."""
    e = expansion(nu, dtype, absolute=absolute)
    pair = (e, unshifted(e, dtype)) if e.shift else (e,)
    tables = [_table(raised(a, dtype) if ratio else a, dtype) for a in pair]
    near, direct = tables[0], tables[-1]
    return near.data_ptr(), direct.data_ptr(), near, direct


def score(rho: Tensor, kappa: Tensor, tau: Tensor, p: int, slope: bool) -> tuple[Tensor, ...]:
    """Compute q and, if ``slope``, its slope, of arguments as `score._backends.by_rows` calls."""
    rho, kappa, tau = rho.contiguous(), kappa.contiguous(), tau.contiguous()
    results = [torch.empty_like(rho) for _ in range(1 + slope)]
    total, classes = rho.numel(), max(kappa.numel(), tau.numel())
    # One row, if all elements have one kappa and tau.
    rows, columns = (total // classes, classes) if classes > 1 else (1, total)
    steps = int(kappa.numel() > 1), int(tau.numel() > 1)
    expansion, *_arrays = _tables(p / 2 - 1, rho.dtype)
    call, size = _function("score", rho.dtype, 6, 4), rho.element_size()

    def part(start: int, end: int) -> None:
        """Compute rows or, if there is one, columns."""
        move = start * size * (columns if rows > 1 else 1)
        along = [0 if rows > 1 else move * step for step in steps]
        moves, outputs = (move, *along), [a.data_ptr() + move for a in results]
        inputs = [a.data_ptr() + m for a, m in zip((rho, kappa, tau), moves, strict=True)]
        shape = (end - start, columns) if rows > 1 else (1, end - start)
        call(expansion, *inputs, outputs[0], outputs[1] if slope else None, *shape, *steps)

    in_parts(part, rows if rows > 1 else columns, total)
    return tuple(results)


def bessel(kind: str, nu: float, *x: Tensor) -> Tensor:
    """Compute one of `KINDS` of x or, for the integral of R, of its two ends, which broadcast."""
    inputs = [a.contiguous() for a in (torch.broadcast_tensors(*x) if len(x) > 1 else x)]
    out = torch.empty_like(inputs[-1])
    near, direct, *_arrays = _tables(nu, out.dtype, kind.startswith("log"), kind == "ratio")
    lower, upper, to = inputs[0].data_ptr(), inputs[-1].data_ptr(), out.data_ptr()
    call, number = _function("bessel", out.dtype, 5, 2), KINDS.index(kind)

    def part(first: int, last: int) -> None:
        move = first * out.element_size()
        call(near, direct, lower + move, upper + move, to + move, last - first, number)

    in_parts(part, out.numel(), out.numel())
    return out


def by_kernel(kind: str) -> Callable[[Function], Function]:
    """Make a function of (nu, x) or (nu, x0, x1) use the kernel where it can."""

    def decorate(function: Function) -> Function:
        @wraps(function)
        def value(nu: Number, *x: Tensor) -> Tensor:
            if not isinstance(nu, Tensor) and available(*x):
                return bessel(kind, nu, *x)
            return function(nu, *x)

        return value

    return decorate


def in_parts(part: Callable[[int, int], Any], count: int, work: int) -> None:
    """Call ``part(first, last)`` over ranges of ``count`` items, in the threads of torch."""
    threads = min(torch.get_num_threads(), work // GRAIN, count)
    if threads <= 1:
        if work:
            part(0, count)
        return
    ends = [count * i // threads for i in range(threads + 1)]
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(part, ends[:-1], ends[1:]))
