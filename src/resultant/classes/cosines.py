"""Cosines of queries and class directions."""

from __future__ import annotations

import torch
from torch import Tensor

from resultant._core.autograd import is_transformed


def cosines(z: Tensor, mu: Tensor) -> Tensor:
    """Multiply unit vectors ``z`` [N, p] with class directions ``mu`` [C, p] in the dtype of mu.
    Products of rounded vectors beyond [-1, 1] are clamped; gradients are those of the products."""
    with torch.autocast(z.device.type, enabled=False):
        rho = z.to(mu.dtype) @ mu.T
    if not (torch.compiler.is_compiling() or rho.requires_grad or is_transformed()):
        return rho.clamp_(-1, 1)
    return rho + (rho.detach().clamp(-1, 1) - rho.detach())
