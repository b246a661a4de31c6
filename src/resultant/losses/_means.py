"""Directions and lengths of the means of classes, from sums and counts.

Samples that cancel have the direction e_1 and the length zero, as in `ClassStatistics`. Lengths are
at most one.
"""

from __future__ import annotations

import math
from types import ModuleType

import torch
from torch import Tensor

from resultant._core.device import kernel_module
from resultant.classes.statistics import ZERO_LENGTH


def mean(sums: Tensor, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """Return directions [..., p] and lengths [...] of the means of sums and counts [..., p + 1]."""
    mu = sums.new_empty(*sums.shape[:-1], sums.shape[-1] - 1, dtype=dtype)
    R = sums.new_empty(sums.shape[:-1])
    write_mean(sums, mu, R)
    return mu, R


def lengths(sums: Tensor) -> Tensor:
    """Return the lengths [...] of the means of sums and counts [..., p + 1]."""
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
