"""Memory: byte budgets, rows in chunks that fit a budget, and the most that a file may declare."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
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

# Limits of containers, by the second and the first version of control groups.
LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def total_memory() -> int:
    """Return the bytes of memory of the machine, or of the container if it has fewer."""
    sizes = []
    with suppress(AttributeError, OSError, ValueError):
        sizes.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for path in LIMITS:
        # "max" is no number: there is no limit.
        with suppress(OSError, ValueError):
            sizes.append(int(Path(path).read_text()))
    return min(sizes, default=8 << 30)


def require_content(size: int, what: str) -> None:
    """Raise a ValueError if the header of a file declares more bytes than half of the memory."""
    limit = total_memory() // 2
    if size > limit:
        rule = f"{size:,} bytes of {what}, beyond half of the memory ({limit:,} bytes)"
        remedy = "write it in shards, or as .npy or .safetensors, which are mapped"
        raise ValueError(f"{rule}; {remedy}")


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


def feature_slices(z: Tensor) -> Iterator[slice]:
    """Yield slices of the rows of z [N, p] whose chunks fit `FEATURE_BYTES` in float64."""
    return row_slices(len(z), 8 * z.shape[1], FEATURE_BYTES)
