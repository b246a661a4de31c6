"""A fixed seed for every test of the distribution: failures of statistical tests repeat."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(20240601)
