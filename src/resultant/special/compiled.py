"""The compiled kernel for CPUs: loading, coefficients, and calls on tensors.

The library `_kernel.shared` is built with the package where there is a C compiler; its suffix keeps
Python from taking it for a module. Without the library, or
with the environment variable ``RESULTANT_KERNEL=0``, `available` is False and the functions in
torch are used, which compute the same in many small operations.
"""

from __future__ import annotations

import ctypes
import os
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from resultant._core.autograd import is_plain
from resultant.special.debye import expansion, log_i_zero, unshifted, unshifted_from

# Below this size a second thread costs more than it saves.
GRAIN = 16384

# Elements in a block of the kernel.
BLOCK = {torch.float64: 16, torch.float32: 32}

_NUMPY = {torch.float64: np.float64, torch.float32: np.float32}
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


_TYPES = {"p": ctypes.c_void_p, "n": ctypes.c_int64}


def _functions(name: str, arguments: str) -> dict[torch.dtype, Callable[..., None]]:
    """Return the function of each dtype; ``arguments`` are letters of `_TYPES`."""
    if _library is None:
        return {}
    functions = {}
    for dtype, suffix in ((torch.float64, "f64"), (torch.float32, "f32")):
        functions[dtype] = function = getattr(_library, f"resultant_{name}_{suffix}")
        function.argtypes, function.restype = [_TYPES[a] for a in arguments], None
    return functions


_SCORE = _functions("score", "ppppppnnnn")
_RATIO = _functions("ratio", "ppppnn")
_PARTIALS = _functions("partials", "pppppppnnnn")
_INVERSE = _functions("inverse", "ppppnnn")
_STEP = _functions("step", "pppppnn")
_LOG = _functions("log", "ppppnnpn")


def available(*tensors: Tensor) -> bool:
    """Return True if the kernel can compute on these tensors here: plain tensors on the CPU,
    outside of a transform of torch.func, of a trace and of a mode."""
    if _library is None or not is_plain():
        return False
    # The memory of a lazy negation, such as the imaginary part of a conjugate, has the other sign.
    return all(type(a) in _PLAIN and a.is_cpu and not a.is_neg() for a in tensors)


@lru_cache(maxsize=1024)
def _table(nu: float, dtype: torch.dtype, kind: str = "") -> np.ndarray:
    """Return an expansion as the kernel reads it; ``kind`` is "", "unshifted" or "absolute"."""
    e = expansion(nu, dtype, absolute=kind == "absolute")
    e = unshifted(e, dtype) if kind == "unshifted" else e
    weighted = [e.weighted(n) for n in (1, 2, 3)]
    weighted[0][0] = 0.5
    header = [nu, e.order, e.scale, unshifted_from(dtype) ** 2, len(e.coefficients), e.shift]
    tables = [float(c) for values in (e.coefficients, *weighted) for c in values]
    numbers = [*header, *e.steps(), *np.repeat(tables, BLOCK[dtype])]
    return np.array(numbers, dtype=_NUMPY[dtype])


@lru_cache(maxsize=1024)
def _addresses(nu: float, dtype: torch.dtype, kind: str = "") -> tuple[int, int]:
    """Return where the expansion at ``nu`` is, and the unshifted one."""
    near = _table(nu, dtype, kind)
    direct = _table(nu, dtype, "unshifted") if expansion(nu, dtype).shift else near
    _KEPT.update({near.ctypes.data: near, direct.ctypes.data: direct})
    return near.ctypes.data, direct.ctypes.data


# Tables by their address, which the kernel reads.
_KEPT: dict[int, np.ndarray] = {}


def score(rho: Tensor, kappa: Tensor, tau: Tensor, p: int, slope: bool) -> tuple[Tensor, Tensor]:
    """Compute q and, if ``slope``, its slope (else an empty tensor) of rho [rows, classes] for
    kappa and tau, each [classes] or [1]; or of rho of any shape, for kappa and tau of that shape or
    of one element."""
    table = _addresses(p / 2 - 1, rho.dtype)[:1]
    return _grid(_SCORE[rho.dtype], table, rho, kappa, tau, True, slope)


def partials(
    rho: Tensor, kappa: Tensor, tau: Tensor, p: int, *, by_kappa: bool = True, by_tau: bool = True
) -> tuple[Tensor, Tensor]:
    """Compute dq/dkappa and dq/dtau, each if requested (else an empty tensor), of arguments as
    those of `score`."""
    tables = _addresses(p / 2 - 1, rho.dtype)
    return _grid(_PARTIALS[rho.dtype], tables, rho, kappa, tau, by_kappa, by_tau)


def _grid(
    function: Callable[..., None],
    tables: tuple[int, ...],
    rho: Tensor,
    kappa: Tensor,
    tau: Tensor,
    one: bool,
    other: bool,
) -> tuple[Tensor, Tensor]:
    """Call the kernel on rho and its classes for ``one`` and the ``other`` result; a result that is
    not wanted is empty."""
    rho, kappa, tau = rho.contiguous(), kappa.contiguous(), tau.contiguous()
    first = torch.empty_like(rho) if one else rho.new_empty(0)
    second = torch.empty_like(rho) if other else rho.new_empty(0)
    total, classes = rho.numel(), max(kappa.numel(), tau.numel())
    if not total:
        return first, second
    # One row, if all elements have one kappa and tau.
    rows, columns = (total // classes, classes) if classes > 1 else (1, total)
    steps = int(kappa.numel() > 1), int(tau.numel() > 1)
    inputs = rho.data_ptr(), kappa.data_ptr(), tau.data_ptr()
    outputs = first.data_ptr() if one else None, second.data_ptr() if other else None
    size = rho.element_size()

    def part(start: int, end: int) -> None:
        """Compute rows or, if there is one, columns."""
        move = start * size * (columns if rows > 1 else 1)
        along = [0 if rows > 1 else move * step for step in steps]
        moved = [a + m for a, m in zip(inputs, (move, *along), strict=True)]
        out = [a if a is None else a + move for a in outputs]
        height, width = (end - start, columns) if rows > 1 else (1, end - start)
        function(*tables, *moved, *out, height, width, *steps)

    in_parts(part, rows if rows > 1 else columns, total)
    return first, second


def _each(
    call: Callable[..., None], inputs: list[Tensor], *options: Any, nu: float, kind: str = ""
) -> Tensor:
    """Call the kernel on the elements of inputs of one shape."""
    inputs = [a.contiguous() for a in inputs]
    out = torch.empty_like(inputs[-1])
    tables = _addresses(nu, out.dtype, kind)
    at, size = [a.data_ptr() for a in (*inputs, out)], out.element_size()
    count = out.numel()

    def part(first: int, last: int) -> None:
        call(*tables, *(a + first * size for a in at), last - first, *options)

    in_parts(part, count, count)
    return out


def ratio(nu: float, x: Tensor, kind: int) -> Tensor:
    """Compute R_nu (kind 0), its first or second derivative (1, 2), or 1 - R_nu (3)."""
    return _each(_RATIO[x.dtype], [x], kind, nu=nu)


def inverse(nu: float, r: Tensor, steps: int, *, complement: bool) -> Tensor:
    """Solve R_nu(x) = r or, for the ``complement``, 1 - R_nu(x) = r, for x in ``steps`` steps."""
    return _each(_INVERSE[r.dtype], [r], steps, int(complement), nu=nu)


def step(nu: float, x0: Tensor, x1: Tensor, *, complement: bool) -> Tensor:
    """Compute phi(x1) - phi(x0), the integral of R_nu, or that of the ``complement`` 1 - R_nu."""
    return _each(_STEP[x1.dtype], list(torch.broadcast_tensors(x0, x1)), int(complement), nu=nu)


def information(nu: float, x: Tensor) -> Tensor:
    """Compute x R(x) - (phi(x) - phi(0))."""
    return _each(_STEP[x.dtype], [torch.zeros_like(x), x], 2, nu=nu)


def log(nu: float, x: Tensor, *, scaled: bool) -> Tensor:
    """Compute log I_nu(x) or, if ``scaled``, log I_nu(x) - x."""
    return _each(_LOG[x.dtype], [x], int(scaled), *_log_zero(x.dtype), nu=nu, kind="absolute")


@cache
def _log_zero(dtype: torch.dtype) -> tuple[int, int]:
    """Return where the coefficients of log I_0 near zero are, and their number."""
    table = np.repeat(log_i_zero(), BLOCK[dtype]).astype(_NUMPY[dtype])
    _KEPT[table.ctypes.data] = table
    return table.ctypes.data, len(log_i_zero())


def in_parts(part: Callable[[int, int], Any], count: int, work: int) -> None:
    """Call ``part(first, last)`` over the ranges of ``count`` items, in the threads of torch, each
    with `GRAIN` elements of the ``work`` or more. The kernel runs without the lock of Python."""
    threads = min(torch.get_num_threads(), work // GRAIN, count)
    if threads <= 1:
        if count:
            part(0, count)
        return
    ends = [count * i // threads for i in range(threads + 1)]
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(part, ends[:-1], ends[1:]))
