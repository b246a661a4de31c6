"""Batches of unit vectors for the losses and the banks, and their seed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from resultant.losses import ProCoBank

C, P, N, TAU = 6, 16, 24, 0.1
COUNTS = torch.tensor([50.0, 20.0, 10.0, 6.0, 3.0, 1.0])


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Seed every test of a file that imports this fixture."""
    torch.manual_seed(0)


def batch(*lead: int, n: int = N, p: int = P, dtype: Any = torch.float64) -> tuple[Tensor, Tensor]:
    """Return unit vectors near the means of their classes, and labels; the last class is rare."""
    y = torch.randint(0, C - 1, (n,))
    y[: n // 12] = C - 1
    lean = torch.linspace(1.0, 4.0, C)[y].unsqueeze(-1)
    x = torch.randn(*lead, n, p) + lean * torch.eye(C, p)[y]
    return nn.functional.normalize(x.to(dtype), dim=-1), y


def cancelling(*lead: int) -> tuple[Tensor, Tensor]:
    """Return a batch in which class 2 has two opposite samples and no other."""
    z, y = batch(*lead)
    y[y == 2] = 1
    y[:2] = 2
    z[..., 1, :] = -z[..., 0, :]
    return z, y


def wrong_length(bank: ProCoBank, row: int) -> None:
    """Note a vector of zeros in a row of the bank, as a kernel does; -1 is a row elsewhere."""
    bank.off_length.host.fill_((row << 32) + int(np.float32(1).view(np.int32)))
