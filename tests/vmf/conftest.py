"""A fixed seed for every test of the distribution: failures of statistical tests repeat."""

import pytest
import torch


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(20240601)
