"""Losses of stacked runs against separate losses, compiled, and on a GPU."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest
import torch

from loss_batches import COUNTS, TAU, C, P, batch, cancelling
from loss_batches import seeded as seeded
from resultant._core import validation
from resultant.classes.rule import REALIZATIONS, TEMPERED, Rule
from resultant.losses import ProCoLoss
from resultant.training.stacked_loss import StackedProCoLoss

BETAS, SEEDS = (0.0, 0.2, 0.5, 1.5, 0.0), (3, 1, 4, 1, 5)


def stacked(
    names: Sequence[str] = REALIZATIONS, dim: int = P, beta: float = 0.0, **options: Any
) -> StackedProCoLoss:
    rules = [Rule(TAU, name, beta) for name in names]
    return StackedProCoLoss(C, dim, rules, seeds=range(len(names)), **options)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "own_labels", "leave_out"),
    [
        *((REALIZATIONS, *both) for both in product((False, True), repeat=2)),
        (("native",) * 2, False, True),
        (("cosine",) * 2, False, False),
        (("temperature", "native"), True, False),
        (("preserve", "preserve"), False, True),
        (("angular", "cosine"), False, False),
    ],
)
def test_runs_are_separate_losses(
    names: tuple[str, ...], own_labels: bool, leave_out: bool
) -> None:
    runs = len(names)
    betas, seeds = BETAS[:runs], SEEDS[:runs]
    rules = [Rule(TAU, name, beta) for name, beta in zip(names, betas, strict=True)]
    stack = StackedProCoLoss(C, P, rules, COUNTS, 0.5, seeds=seeds, leave_out=leave_out)
    separate = [
        ProCoLoss(
            *(C, P, TAU, name, beta, COUNTS, 0.5), seed=seed, leave_out=leave_out, normalize=False
        )
        for name, beta, seed in zip(names, betas, seeds, strict=True)
    ]
    for _ in range(2):
        z, y = batch(2, runs)
        if own_labels:
            y = torch.stack([y.roll(i) for i in range(runs)])
        z.requires_grad_()
        losses = stack(z, y)
        assert losses.shape == (runs,)
        (grad,) = torch.autograd.grad(losses.sum(), z)
        for i, one in enumerate(separate):
            part = z[:, i].detach().requires_grad_()
            expected = one(part, y[i] if own_labels else y)
            torch.testing.assert_close(losses[i], expected, rtol=1e-12, atol=0)
            (expected_grad,) = torch.autograd.grad(expected, part)
            torch.testing.assert_close(grad[:, i], expected_grad, rtol=1e-10, atol=1e-13)
            torch.testing.assert_close(stack.state(i).kappa, one.state().kappa)
            total = stack.bank.run_statistics(i, bank="new").total
            torch.testing.assert_close(total, one.bank.statistics(bank="new").total)
            one.start_epoch()
        stack.start_epoch()


@pytest.mark.parametrize(
    ("rules", "seeds", "message"),
    [
        ([Rule(TAU)], [0, 1], "a rule and a seed per run, .* got 1 rules and 2 seeds"),
        ([], [], "of one run or more, got 0 rules and 0 seeds"),
        ([Rule(0.1), Rule(0.2)], [0, 1], "expected one temperature and family of all runs, got"),
    ],
)
def test_refused(rules: list[Rule], seeds: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        StackedProCoLoss(C, P, rules, seeds=seeds)


@pytest.fixture
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values are not read."""
    monkeypatch.setattr(validation, "should_validate", lambda validate, *_: bool(validate))


@pytest.mark.parametrize("leave_out", [False, True])
def test_check_names_runs_and_classes_without_a_gain(leave_out: bool, as_on_a_gpu: None) -> None:
    loss = stacked(leave_out=leave_out)
    z, y = cancelling(2, 5)
    if leave_out:
        # Only the class without its third sample has no gain.
        y[2] = 2
        z[1] = z[0]
    assert loss(z, y).isnan().tolist() == [name in TEMPERED for name in REALIZATIONS]
    with pytest.raises(ValueError, match=r"got 2 of 30 not: run 1 class 2 \(0\), run 2 class 2 "):
        loss.check()
    loss.check()
    z, y = batch(2, 5)
    loss.bank.reset()
    assert loss(z, y).isfinite().all()
    loss.check()


@pytest.mark.gpu
@pytest.mark.parametrize("leave_out", [False, True])
def test_devices_agree(leave_out: bool) -> None:
    here = stacked(dim=128, beta=0.3, leave_out=leave_out)
    there = copy.deepcopy(here).cuda()
    for _ in range(3):
        z, y = batch(2, 5, p=128, dtype=torch.float32)
        x = z.cuda().requires_grad_()
        a, b = here(z.requires_grad_(), y), there(x, y.cuda())
        torch.testing.assert_close(b.cpu(), a, rtol=2e-5, atol=0)
        (a,), (b,) = torch.autograd.grad(a.sum(), z), torch.autograd.grad(b.sum(), x)
        torch.testing.assert_close(b.cpu(), a, rtol=1e-3, atol=1e-5)
        here.start_epoch()
        there.start_epoch()
    for a, b in zip(here.bank.buffers(), there.bank.buffers(), strict=True):
        torch.testing.assert_close(b.cpu(), a, rtol=1e-14, atol=1e-14)
