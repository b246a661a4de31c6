"""Error-free products: the rounding error of a multiplication or division, as a tensor."""

from __future__ import annotations

import torch
from torch import Tensor

# 2**ceil(digits/2) + 1 cuts a significand in two halves whose products are exact (Dekker 1971).
SPLITTER = {torch.float64: 134217729.0, torch.float32: 4097.0}


def _halves(a: Tensor) -> tuple[Tensor, Tensor]:
    scaled = a * SPLITTER[a.dtype]
    high = scaled - (scaled - a)
    return high, a - high


def two_product(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``(p, e)``: the rounded product ``p``, and ``p + e`` the exact product."""
    p = a * b
    a1, a2 = _halves(a)
    b1, b2 = _halves(b)
    return p, ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2


def two_reciprocal(a: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``(r, e)``: the rounded ``1/a``, and ``r + e`` exact to twice the precision."""
    r = 1 / a
    p, e = two_product(a, r)
    return r, ((1 - p) - e) * r
