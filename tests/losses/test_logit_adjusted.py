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


def test_classes_without_a_count() -> None:
    """A class of count zero has log prior -inf, unless the prior is off."""
    assert LogitAdjustedCrossEntropy([3, 0, 1], 0.0).log_prior.tolist() == [0, 0, 0]
    loss = LogitAdjustedCrossEntropy([3, 0, 1])
    assert loss.log_prior[1] == -math.inf
    with pytest.raises(ValueError, match="that class_counts has, got class 1, whose count is zero"):
        loss(torch.zeros(2, 3), torch.tensor([0, 1]))
    with pytest.raises(ValueError, match=r"> 0 for a negative prior .* got 0 of class 1: leave"):
        LogitAdjustedCrossEntropy([3, 0], -1.0)


def test_no_samples() -> None:
    y = torch.zeros(0, dtype=torch.int64)
    for views in ((), (2,)):
        loss = LogitAdjustedCrossEntropy(COUNTS)(torch.zeros(*views, 0, C), y)
        assert loss.shape == () and loss.isnan()


def test_bad_logits() -> None:
    loss, y = LogitAdjustedCrossEntropy(COUNTS), torch.zeros(4, dtype=torch.int64)
    with pytest.raises(ValueError, match=r"expected logits of a floating dtype, got torch.int64"):
        loss(torch.ones(4, C).long(), y)
    with pytest.raises(ValueError, match=r"expected logits \[N, 6\] or \[V, N, 6\], got shape"):
        loss(torch.randn(4, 5), y)
    with pytest.raises(ValueError, match=r"expected class_counts \[C\] of one class or more"):
        LogitAdjustedCrossEntropy([])
