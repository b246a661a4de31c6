"""Byte budgets, and rows split into chunks that fit a budget.

Every budget of the library is here. Results do not depend on the budgets, except for the last
digits where a matrix product of another height is rounded differently.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import Tensor

# Temporaries of a score per thread, such that they stay in the cache of a CPU.
CACHE_BYTES = 1 << 18
# Decisions, rows or cosines, quantiles and inclusions of an analysis on a CPU.
DECISION_BYTES = 1 << 22
ROW_BYTES = 1 << 21
QUANTILE_BYTES = 1 << 22
INCLUSION_BYTES = 1 << 23
# Features as float64 rows.
FEATURE_BYTES = 1 << 24
# Matrices of rows by classes, or of pairs by points; several are alive at a time.
MATRIX_BYTES = 1 << 25
# Rows that are read from a file at a time.
READ_BYTES = 1 << 25
# Scores [N, C].
SCORE_BYTES = 1 << 26
# Matrices on other devices than the CPU, where the number of chunks costs; and the most rows.
DEVICE_BYTES = 1 << 28
DEVICE_ROWS = 1 << 17
# Arrays of a file that are put into memory rather than mapped.
HELD_BYTES = 1 << 28
# A member of an archive that is decompressed at a time, and text of a table; a line must fit.
INFLATED_BYTES = 1 << 22
TEXT_BYTES = 1 << 24
# GPU memory that images on the device leave to tests and to the allocator.
MARGIN_BYTES = 4 << 30
# Plans of views on a GPU, with their temporaries.
PLAN_BYTES = 1 << 27
# Views that are made ahead of a GPU.
AHEAD_BYTES = 1 << 28
# Rows of one task of a cluster, and of all samples on its driver.
TASK_BYTES = 1 << 28
SAMPLE_BYTES = 1 << 32


def matrix_bytes(device: torch.device) -> int:
    """Return the budget of one matrix of scores or cosines on a device."""
    return SCORE_BYTES if device.type == "cpu" else DEVICE_BYTES


def rows_per_chunk(bytes_per_row: int, budget: int, device: torch.device | None = None) -> int:
    """Return the number of rows that fit the budget, at least 1.

    On a ``device`` other than the CPU the budget is `DEVICE_BYTES` and at most `DEVICE_ROWS` rows.
    """
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
