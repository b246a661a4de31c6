"""SupCon, the balanced contrastive loss and the logit-adjusted one against their definitions."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from loss_batches import COUNTS, C, N
from resultant.losses import LogitAdjustedCrossEntropy
from resultant.losses.supervised import BalancedContrastiveLoss, SupConLoss

TAU = 0.2


def batch(runs: int | None = None) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    lead = () if runs is None else (runs,)
    z = torch.randn(2, *lead, 6, 5, generator=generator, dtype=torch.float64)
    return functional.normalize(z, dim=-1), torch.tensor([0, 0, 1, 3, 0, 1])


def defined(z: Tensor, y: Tensor, prototypes: Tensor | None) -> float:
    """Return SupCon, or the balanced loss with prototypes, by the sums of the papers."""
    queries = [(z[v, i], int(y[i])) for v in range(len(z)) for i in range(len(y))]
    others = [] if prototypes is None else [(c, k) for k, c in enumerate(prototypes)]
    losses = []
    for i, (x, own) in enumerate(queries):
        rest = [pair for j, pair in enumerate(queries) if j != i] + others
        terms = [(math.exp(float(x @ w) / TAU), k) for w, k in rest]
        sizes = {k: sum(label == k for _, label in rest) for _, k in rest}
        below = sum(e / (1 if prototypes is None else sizes[k]) for e, k in terms)
        positive = [e for e, k in terms if k == own]
        if positive:
            losses.append(-sum(math.log(e / below) for e in positive) / len(positive))
    return sum(losses) / len(losses)


def test_losses_are_the_defined_ones() -> None:
    """Class 2 has no sample in the batch, only its prototype."""
    z, y = batch()
    assert math.isclose(float(SupConLoss(TAU)(z, y)), defined(z, y, None), rel_tol=1e-12)
    loss = BalancedContrastiveLoss(4, 5, TAU, seeds=(0,)).double()
    prototypes = functional.normalize(loss.prototypes[0].detach(), dim=-1)
    assert math.isclose(loss(z[:, None], y).item(), defined(z, y, prototypes), rel_tol=1e-12)


def test_runs_are_separate() -> None:
    z, y = batch(runs=3)
    labels = torch.stack([y, y.flip(0), y.roll(1)])
    stacked = BalancedContrastiveLoss(4, 5, TAU, seeds=(4, 5, 6)).double()
    balanced, supcon = stacked(z, labels), SupConLoss(TAU)(z, labels)
    for run, seed in enumerate((4, 5, 6)):
        one = BalancedContrastiveLoss(4, 5, TAU, seeds=(seed,)).double()
        own = slice(run, run + 1)
        torch.testing.assert_close(one(z[:, own], labels[own])[0], balanced[run])
        torch.testing.assert_close(SupConLoss(TAU)(z[:, run], labels[run]), supcon[run])


def test_samples_without_another_of_their_class() -> None:
    """They have no positive: the mean is over the other samples, and zero without any."""
    z, _ = batch()
    x, y = z[:1].clone().requires_grad_(), torch.tensor([0, 0, 1, 3, 0, 2])
    loss = SupConLoss(TAU)(x, y)
    assert math.isclose(loss.item(), defined(z[:1], y, None), rel_tol=1e-12)
    assert torch.autograd.grad(loss, x)[0].isfinite().all()
    assert SupConLoss(TAU)(z[:1, :3], torch.arange(3)) == 0


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
