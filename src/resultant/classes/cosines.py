"""Cosines of queries and class directions."""

from __future__ import annotations

import torch
from torch import Tensor

from resultant._core.autograd import is_transformed


def cosines(z: Tensor, mu: Tensor) -> Tensor:
    """Multiply unit vectors ``z`` [N, p] with class directions ``mu`` [C, p].

    Vectors in half precision are off unit length by up to 1/256. Products beyond [-1, 1] are
    clamped, so that bounds over all cosines hold for them; gradients are those of the products.
    The cosines [N, C] have the dtype of mu, which autocast does not lower.
    """
    with torch.autocast(z.device.type, enabled=False):
        rho = z.to(mu.dtype) @ mu.T
    if not (torch.compiler.is_compiling() or rho.requires_grad or is_transformed()):
        return rho.clamp_(-1, 1)
    return rho + (rho.detach().clamp(-1, 1) - rho.detach())
