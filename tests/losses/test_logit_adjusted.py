"""Logit-adjusted cross-entropy against torch."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from loss_batches import COUNTS, C, N
from resultant.losses import LogitAdjustedCrossEntropy


@pytest.mark.parametrize("gamma", [0.0, 1.0, 0.5])
def test_equals_cross_entropy_of_adjusted_logits(gamma: float) -> None:
    torch.manual_seed(0)
    logits, y = torch.randn(2, N, C), torch.randint(0, C, (N,))
    loss = LogitAdjustedCrossEntropy(COUNTS, gamma)
    whole = logits.double() + gamma * (COUNTS.double() / COUNTS.sum()).log()
    expected = nn.functional.cross_entropy(whole.flatten(0, 1), y.repeat(2))
    torch.testing.assert_close(loss(logits, y).double(), expected, rtol=1e-6, atol=0)
    expected = nn.functional.cross_entropy(whole[0], y)
    torch.testing.assert_close(loss(logits[0], y).double(), expected, rtol=1e-6, atol=0)
    assert loss(logits.bfloat16(), y).dtype == torch.float32


def test_without_counts_and_without_samples() -> None:
    """A class of count zero has log prior -inf, unless the prior is off."""
    assert LogitAdjustedCrossEntropy([3, 0, 1], 0.0).log_prior.tolist() == [0, 0, 0]
    loss = LogitAdjustedCrossEntropy([3, 0, 1])
    assert loss.log_prior[1] == -math.inf
    for views in ((), (2,)):
        assert loss(torch.zeros(*views, 0, 3), torch.zeros(0, dtype=torch.int64)).isnan()
