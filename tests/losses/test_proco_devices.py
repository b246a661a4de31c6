"""The ProCo loss in other precisions, compiled, and on a GPU."""

from __future__ import annotations

import copy

import pytest
import torch

from loss_batches import COUNTS, C, P, batch
from loss_batches import seeded as seeded
from resultant.losses.proco import ProCoLoss


def test_float32_is_close_to_float64_after_many_batches() -> None:
    single, double = ProCoLoss(C, 128), ProCoLoss(C, 128)
    a = b = torch.zeros(())
    for _ in range(50):
        z, y = batch(2, p=128, dtype=torch.float32)
        a, b = single(z, y), double(z.double(), y)
    assert a.dtype == torch.float32 and b.dtype == torch.float64
    torch.testing.assert_close(a.double(), b, rtol=2e-6, atol=0)


def test_autocast_changes_nothing() -> None:
    z, y = batch(2, dtype=torch.float32)
    z.requires_grad_()
    results = []
    for enabled in (False, True):
        loss = ProCoLoss(C, P, realization="angular", leave_out=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            total = loss(z, y)
            scores = loss.scores(z)
        results.append((total, scores, loss.bank.old, torch.autograd.grad(total, z)[0]))
        assert total.dtype == scores.dtype == torch.float32
    for a, b in zip(*results, strict=True):
        assert torch.equal(a, b)


def test_bfloat16_queries_are_scored_in_float32() -> None:
    z, y = batch(dtype=torch.bfloat16)
    loss = ProCoLoss(C, P).bfloat16()
    assert loss.bank.old.dtype == loss.log_prior.dtype == torch.float64
    total = loss(z.requires_grad_(), y)
    total.backward()
    assert total.dtype == torch.float32 and z.grad is not None and z.grad.dtype == torch.bfloat16


@pytest.mark.slow
def test_compiles_for_any_batch() -> None:
    """One graph serves batches of every size, also after a loss of another dimension."""
    torch.compiler.reset()
    # Expansions are short in these dimensions, and quickly traced. The first loss only leaves its
    # sizes to the second.
    for dim, sizes, backend in ((1024, (24,), "eager"), (512, (24, 36), "aot_eager")):
        eager = ProCoLoss(C, dim, 0.1, "angular", class_counts=COUNTS)
        other = copy.deepcopy(eager)
        compiled = torch.compile(other, fullgraph=True, dynamic=True, backend=backend)
        for n in sizes:
            z, y = batch(2, n=n, p=dim, dtype=torch.float32)
            z.requires_grad_()
            expected, got = eager(z, y), compiled(z, y)
            torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)
            grads = [torch.autograd.grad(a, z)[0] for a in (expected, got)]
            torch.testing.assert_close(grads[1], grads[0], rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(other.bank.old, eager.bank.old)
            torch.testing.assert_close(other.bank.new, eager.bank.new)


@pytest.mark.gpu
def test_negative_targets_on_device() -> None:
    loss = ProCoLoss(C, P, realization="temperature", beta=60.0).cuda()
    z, y = (a.cuda() for a in batch())
    assert loss(z, y).isnan()
    with pytest.raises(ValueError, match=r"expected target gains > 0 .* of 6 not: class \d \(-"):
        loss.check()
