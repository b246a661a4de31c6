"""A small feature store."""

from __future__ import annotations

import torch

N, M, D, P = 11, 5, 6, 3
ROWS, WIDTH = 60, 8


def arrays() -> dict[str, torch.Tensor]:
    torch.manual_seed(2)
    return {
        "train/encoder": torch.randn(N, D),
        "train/projection": torch.randn(N, P, dtype=torch.float64),
        "train/labels": torch.arange(N) % 4,
        "train/identities": torch.arange(N).flip(0),
        "test/encoder": torch.randn(M, D).bfloat16(),
        "test/labels": torch.arange(M, dtype=torch.int32) % 4,
    }


def rows_and_labels() -> tuple[torch.Tensor, torch.Tensor]:
    """Rows [60, 8] of five classes."""
    x = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(1))
    return x, torch.arange(ROWS) % 5
