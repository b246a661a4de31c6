"""Sums and counts [..., p + 1] of the unit vectors of classes: starts, directions and mean lengths.

A class begins with a random vector of length 0.9 as a sample of weight 1e-30: without samples it is
the mean, and next to one sample it is below rounding. Samples that cancel have the direction e_1
and the length zero, as in `ClassStatistics`; lengths are at most one.
"""

from __future__ import annotations

import math
from types import ModuleType

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from resultant._core.device import kernel_module
from resultant.classes.statistics import ZERO_LENGTH

START_LENGTH = 0.9
START_WEIGHT = 1e-30
# Classes whose random starts are drawn at a time.
START_ROWS = 1 << 16


def write_starts(
    rows: Tensor, classes: range, num_classes: int, entropy: tuple[int, int, int]
) -> None:
    """Write the starts of ``classes`` into rows [K, p + 1]; seed, epoch and bank fix them. The
    starts of all ``num_classes`` classes are drawn, so that any share of them is the same."""
    rows[:, -1] = START_WEIGHT
    mixed = np.random.SeedSequence(entropy).generate_state(1, np.uint64)
    generator = torch.Generator("cpu").manual_seed(int(mixed[0] >> np.uint64(1)))
    for left in range(0, num_classes, START_ROWS):
        right = min(left + START_ROWS, num_classes)
        # Not in the default dtype, in which other numbers would be drawn.
        options = {"generator": generator, "dtype": torch.float32, "device": "cpu"}
        u = torch.randn(right - left, rows.shape[1] - 1, **options)
        first, last = max(left, classes.start), min(right, classes.stop)
        if first < last:
            u = u[first - left : last - left].double()
            u = START_WEIGHT * START_LENGTH * u / u.norm(dim=-1, keepdim=True)
            rows[first - classes.start : last - classes.start, :-1] = u.to(rows.device)


def samples(z: Tensor, rows: Tensor) -> Tensor:
    """Return vectors z [M, p] and counts as [M, p + 1] in float64, zero for rows below zero."""
    counted = functional.pad(z.double(), (0, 1), value=1.0)
    return counted.masked_fill_((rows < 0).unsqueeze(-1), 0.0)


def mean(sums: Tensor, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """Return directions [..., p] in a dtype and mean lengths [...]."""
    mu = sums.new_empty(*sums.shape[:-1], sums.shape[-1] - 1, dtype=dtype)
    R = sums.new_empty(sums.shape[:-1])
    write_mean(sums, mu, R)
    return mu, R


def mean_lengths(sums: Tensor) -> Tensor:
    """Return the mean lengths [...]."""
    return _within_one(torch.linalg.vector_norm(sums[..., :-1], dim=-1) / sums[..., -1])


def write_mean(sums: Tensor, mu: Tensor, R: Tensor) -> None:
    """Write the result of `mean` into contiguous tensors; on a GPU in one pass."""
    if (kernels := bank_kernels(sums)) is not None:
        kernels.mean(sums, mu, R)
        return
    total = sums[..., :-1]
    length = torch.linalg.vector_norm(total, dim=-1)
    R.copy_(_within_one(length / sums[..., -1]))
    mu.copy_(total / length.masked_fill(R == 0, math.inf).unsqueeze(-1))
    mu[..., 0].masked_fill_(R == 0, 1.0)


def _within_one(R: Tensor) -> Tensor:
    # NaN is no length that cancels. The mean of rounded unit vectors may be longer than one.
    return R.masked_fill(R <= ZERO_LENGTH, 0.0).clamp_max_(1)


def bank_kernels(a: Tensor) -> ModuleType | None:
    """Return the fused kernels for a tensor: on a GPU, with Triton, outside of torch.compile."""
    eager = a.is_cuda and not torch.compiler.is_compiling()
    return kernel_module("resultant.losses._bank_kernel") if eager else None
