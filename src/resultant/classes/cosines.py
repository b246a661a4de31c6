"""Cosines of queries and class directions."""

from __future__ import annotations

import torch
from torch import Tensor


def cosines(z: Tensor, mu: Tensor) -> Tensor:
    """Multiply unit vectors ``z`` [N, p] with class directions ``mu`` [C, p].

    Returns:
        Cosines [N, C] in the dtype of mu, which autocast does not lower. Rounding may leave them
        slightly outside [-1, 1].

    Example:
        >>> cosines(torch.tensor([[0.6, 0.8]]), torch.eye(2, dtype=torch.float64)).round(decimals=6)
        tensor([[0.6000, 0.8000]], dtype=torch.float64)
    """
    with torch.autocast(z.device.type, enabled=False):
        return z.to(mu.dtype) @ mu.T
