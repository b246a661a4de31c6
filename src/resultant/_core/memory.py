"""Memory: byte budgets, and rows in chunks that fit a budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import Tensor

ROW_BYTES = 1 << 22  # rows, decisions and quantiles of an analysis on a CPU
FEATURE_BYTES = 1 << 24  # features as float64 rows, and text of a table
MATRIX_BYTES = 1 << 25  # rows by classes, pairs by points, rows of a file; several at a time
SCORE_BYTES = 1 << 26  # scores [N, C]
# Matrices on other devices than the CPU, where the number of chunks costs, views that are made
# ahead of a device, and tasks of a cluster; and the most rows.
DEVICE_BYTES = 1 << 28
DEVICE_ROWS = 1 << 17


def matrix_bytes(device: torch.device) -> int:
    """Return the budget of one matrix of scores or cosines on a device."""
    return SCORE_BYTES if device.type == "cpu" else DEVICE_BYTES


def rows_per_chunk(bytes_per_row: int, budget: int, device: torch.device | None = None) -> int:
    """Return how many rows fit the budget, at least 1; other devices have their own budget."""
    bytes_per_row = max(1, bytes_per_row)
    if device is None or device.type == "cpu":
        return max(1, budget // bytes_per_row)
    return max(1, min(DEVICE_ROWS, DEVICE_BYTES // bytes_per_row))


def row_slices(
    rows: int, bytes_per_row: int, budget: int, device: torch.device | None = None
) -> Iterator[slice]:
    """Yield the slices of ``rows`` rows whose chunks fit the budget."""
    height = rows_per_chunk(bytes_per_row, budget, device)
    return (slice(top, top + height) for top in range(0, rows, height))


def in_chunks(
    compute: Callable[[slice], tuple[Tensor, ...]], rows: int, bytes_per_row: int, budget: int
) -> tuple[Tensor, ...]:
    """Join the results [n, ...] of ``compute`` over slices of rows that fit the budget. Nothing is
    written in place, so that torch.func.vmap and gradients pass."""
    from torch import cat, compiler

    if compiler.is_compiling():
        return compute(slice(None))
    parts = [compute(part) for part in row_slices(rows, bytes_per_row, budget)]
    if len(parts) > 1:
        return tuple(map(cat, zip(*parts, strict=True)))
    return parts[0] if parts else compute(slice(0, 0))


def feature_slices(z: Tensor) -> Iterator[slice]:
    """Yield slices of the rows of z [N, p] whose chunks fit `FEATURE_BYTES` in float64."""
    return row_slices(len(z), 8 * z.shape[1], FEATURE_BYTES)
