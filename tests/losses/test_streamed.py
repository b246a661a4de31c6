"""Steps whose scores are never stored: edges that `test_paths` does not reach."""

from __future__ import annotations

import pytest
import torch

from loss_batches import COUNTS, TAU, C, P, batch
from loss_batches import seeded as seeded
from resultant._core import chunks
from resultant.losses import ProCoLoss
from resultant.losses._streamed import should_stream, streamed_entropies


def test_one_class_and_classes_without_a_prior() -> None:
    """Without other classes the loss is zero; a class of prior zero has no share."""
    z, y = batch(2)
    z.requires_grad_()
    alone = streamed_entropies(ProCoLoss(1, P), z, y * 0)
    assert (alone == 0).all() and torch.autograd.grad(alone.sum(), z)[0].abs().max() == 0
    counts = COUNTS.clone()
    counts[2:] = 0
    plain, other = (ProCoLoss(C, P, TAU, class_counts=counts) for _ in range(2))
    torch.testing.assert_close(streamed_entropies(other, z, y % 2).mean(), plain(z, y % 2))


def test_only_large_scores_are_streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    bank = ProCoLoss(C, P).bank
    z, _ = batch(2)
    size = z.numel() // P * C * z.element_size()
    for budget, expected in ((size, False), (size - 1, True)):
        monkeypatch.setattr(chunks, "SCORE_BYTES", budget)
        assert should_stream(bank, z) is expected
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert not should_stream(bank, z)


def test_no_second_derivatives() -> None:
    z, y = batch()
    value = ProCoLoss(C, P, shard_classes=True, prior=0.0)(z.requires_grad_(), y)
    with pytest.raises(RuntimeError, match="expected first derivatives only"):
        torch.autograd.grad(value, z, create_graph=True)
