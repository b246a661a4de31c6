"""SupCon, the balanced contrastive loss and the logit-adjusted one against their definitions."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from resultant_reproduction.cifar.supervised import BalancedContrastiveLoss, SupConLoss

TAU = 0.2
Y = torch.tensor([0, 0, 1, 3, 0, 1])


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


def test_losses_of_runs_are_the_defined_ones() -> None:
    """Class 2 has no sample in the batch, only its prototype."""
    torch.manual_seed(0)
    z = functional.normalize(torch.randn(2, 3, 6, 5, dtype=torch.float64), dim=-1)
    labels = torch.stack([Y, Y.flip(0), Y.roll(1)])
    balanced = BalancedContrastiveLoss(4, 5, TAU, seeds=(4, 5, 6)).double()
    prototypes = functional.normalize(balanced.prototypes.detach(), dim=-1)
    for losses, classes in (
        (SupConLoss(TAU)(z, labels), [None] * 3),
        (balanced(z, labels), prototypes),
    ):
        expected = [defined(z[:, run], labels[run], classes[run]) for run in range(3)]
        assert losses.tolist() == pytest.approx(expected, rel=1e-12)


def test_samples_without_another_of_their_class() -> None:
    """They have no positive: the mean is over the other samples, and zero without any."""
    torch.manual_seed(0)
    z = functional.normalize(torch.randn(1, 6, 5, dtype=torch.float64), dim=-1).requires_grad_()
    y = torch.tensor([0, 0, 1, 3, 0, 2])
    loss = SupConLoss(TAU)(z, y)
    assert math.isclose(loss.item(), defined(z.detach(), y, None), rel_tol=1e-12)
    assert torch.autograd.grad(loss, z)[0].isfinite().all()
    assert SupConLoss(TAU)(z[:, :3], torch.arange(3)) == 0
