"""Steps whose scores are never stored, and steps by fused kernels, against the plain loss.

A stand-in written in torch takes the place of the kernels, which `test_softmax_kernel` checks.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from loss_batches import COUNTS, TAU, C, P, batch
from loss_batches import seeded as seeded
from resultant._core import chunks
from resultant.classes.rule import REALIZATIONS
from resultant.losses import ProCoLoss, _fused_step, _partial_softmax, _streamed
from resultant.losses._fused_step import fused_loss
from resultant.losses._means import mean
from resultant.losses._streamed import streamed_loss
from resultant.score.exact import vmf_score_and_slope


def logits(rho: Tensor, kappa: Tensor, terms: Any, offset: Tensor, p: int) -> tuple[Tensor, Tensor]:
    """Logits and slopes [V, Q, K] in float64."""
    tau, slope, shift = (None if a is None else a.double() for a in terms)
    x, s = torch.zeros(2, *rho.shape, dtype=torch.float64)
    for v, each in enumerate(rho.double()):
        if tau is not None:
            at = tau if tau.dim() == 0 else tau[v]
            x[v], s[v] = vmf_score_and_slope(each, kappa[v].double(), at, p, validate_args=False)
        if slope is not None:
            x[v] += each * slope[v]
            s[v] += slope[v]
        if shift is not None:
            x[v] += shift[v]
    return x + offset.double(), s


def half_directions(sums: Tensor) -> Tensor:
    mu = mean(sums, torch.float32)[0] * 2.0**15
    high = mu.half()
    return torch.cat([high, (mu - high).half(), high], -1)


def absorb(
    rho: Tensor,
    kappa: Tensor,
    terms: Any,
    offset: Tensor,
    p: int,
    sums: tuple[Tensor, Tensor, Tensor],
    own: Tensor | None = None,
    rho_scale: float = 1.0,
    weight_scale: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    x, s = logits(rho * rho_scale, kappa, terms, offset, p)
    if own is not None:
        x[:, torch.arange(x.shape[1]), own] = -math.inf
    top, total, gradient = sums
    now = torch.maximum(top, x.amax(-1).float())
    base = now.where(now > -math.inf, 0.0)
    kept, weights = (top - base).exp(), (x - base.unsqueeze(-1)).exp()
    total.copy_(total * kept + weights.sum(-1))
    gradient *= kept.unsqueeze(-1)
    top.copy_(now)
    weights = (weights * s).float()
    if weight_scale is None:
        return weights, weights
    high = (weights * weight_scale).half()
    return high, (weights * weight_scale - high).half()


def finish(
    rho: Tensor, kappa: Tensor, terms: Any, offset: Tensor, p: int, labels: Tensor
) -> Tensor:
    x, s = logits(rho, kappa, terms, offset, p)
    share = x.softmax(-1)
    rows = torch.arange(len(labels))
    entropies = -share[:, rows, labels].log()
    share[:, rows, labels] -= 1
    rho.copy_(share * s / entropies.numel())
    return entropies.to(rho.dtype)


KERNELS: Any = SimpleNamespace(
    UNIT_SCALE=2.0**15, half_directions=half_directions, absorb=absorb, finish=finish
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("realization", "leave_out", "views"),
    [(name, i % 2 == 0, (2,)) for i, name in enumerate(REALIZATIONS)]
    + [("native", False, ()), ("preserve", False, (3,)), ("cosine", True, (2,))],
)
def test_equals_stored_scores(
    realization: str, leave_out: bool, views: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "SCORE_BYTES", 900)
    plain, other = (
        ProCoLoss(C, P, TAU, realization, 0.3, COUNTS, 0.7, leave_out=leave_out) for _ in range(2)
    )
    for step in range(2):
        plain.train(step == 0)
        other.train(step == 0)
        z, y = batch(*views)
        z.requires_grad_()
        expected, got = plain.stored(z, y), other(z, y)
        torch.testing.assert_close(got, expected, rtol=1e-12, atol=0)
        (first,), (gradient,) = (torch.autograd.grad(a, z) for a in (expected, got))
        torch.testing.assert_close(gradient, first, rtol=0, atol=1e-11 * float(first.abs().max()))
        assert torch.equal(plain.bank.old, other.bank.old)
    assert torch.equal(plain.least_target, other.least_target)


@pytest.mark.parametrize("realization", REALIZATIONS)
@pytest.mark.parametrize("step", [streamed_loss, fused_loss])
def test_fused_steps(step: Any, realization: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_ins = {_partial_softmax.KERNELS: KERNELS}
    for module in (_partial_softmax, _fused_step):
        monkeypatch.setattr(module, "kernel_module", stand_ins.get)
    monkeypatch.setattr(_streamed, "partial_softmax", _partial_softmax.FusedSoftmax)
    monkeypatch.setattr(chunks, "SCORE_BYTES", 600)
    plain, other = (ProCoLoss(C, 64, TAU, realization, 0.3, COUNTS) for _ in range(2))
    for loss in (plain, other):
        torch.manual_seed(0)
        loss.stored(*batch(p=64))
    z, y = batch(2, p=64, dtype=torch.float32)
    z.requires_grad_()
    expected, got = plain.stored(z, y), step(other, z, y)
    torch.testing.assert_close(got, expected, rtol=2e-6, atol=0)
    (first,), (gradient,) = (torch.autograd.grad(a, z, retain_graph=True) for a in (expected, got))
    torch.testing.assert_close(gradient, first, rtol=0, atol=1e-5 * float(first.abs().max()))
    assert torch.equal(plain.bank.old, other.bank.old)
    if step is streamed_loss:
        with pytest.raises(RuntimeError, match="expected first derivatives only"):
            torch.autograd.grad(got, z, create_graph=True)
        return
    seconds = []
    for value in (expected, got):
        (first,) = torch.autograd.grad(value, z, create_graph=True)
        seconds.append(torch.autograd.grad(first.square().sum(), z)[0])
    torch.testing.assert_close(seconds[1], seconds[0], rtol=1e-4, atol=1e-7)


def test_one_class_and_classes_without_a_prior() -> None:
    """Without other classes the loss is zero; a class of prior zero has no share."""
    z, y = batch(2)
    z.requires_grad_()
    alone = streamed_loss(ProCoLoss(1, P), z, y * 0)
    assert alone == 0 and torch.autograd.grad(alone, z)[0].abs().max() == 0
    counts = COUNTS.clone()
    counts[2:] = 0
    plain, other = (ProCoLoss(C, P, TAU, class_counts=counts) for _ in range(2))
    torch.testing.assert_close(streamed_loss(other, z, y % 2), plain(z, y % 2))


def test_only_large_scores_are_streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    bank = ProCoLoss(C, P).bank
    z, _ = batch(2)
    size = z.numel() // P * C * z.element_size()
    for budget, expected in ((size, False), (size - 1, True)):
        monkeypatch.setattr(chunks, "SCORE_BYTES", budget)
        assert _streamed.streams(bank, z) is expected
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert not _streamed.streams(bank, z)
