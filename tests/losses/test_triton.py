"""Fused kernels of the losses against torch, in Triton's interpreter and on a GPU."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.nn import functional

from programs import run_interpreted
from resultant.losses import _cross_entropy, _means, bank

CHECK = "from losses import test_triton; test_triton.check('cpu')"


def check(device: str) -> None:
    check_mean(device)
    check_enter(device)
    check_cross_entropy(device)


def check_mean(device: str) -> None:
    from resultant.losses._triton import MEAN_BLOCK, mean

    generator = torch.Generator().manual_seed(0)
    for p in (2, 5, 16, 1024, MEAN_BLOCK, MEAN_BLOCK + 1, 2 * MEAN_BLOCK + 37):
        sums = torch.randn(2, 3, p + 1, generator=generator, dtype=torch.float64)
        sums[..., -1] = torch.tensor([[1.0, 7.0, 1e6], [bank.START_WEIGHT, 3.0, 2.0]])
        sums[1, 0, :-1] *= bank.START_WEIGHT
        sums[1, 1, :-1] = 0  # samples that cancel, exactly and down to the start of the class
        sums[1, 2, :-1] *= bank.START_WEIGHT
        expected_mu, expected_R = _means.mean(sums)
        for dtype, bar in ((torch.float64, 1e-15), (torch.float32, 6e-8)):
            # The neighbours of the output stay untouched.
            mu = torch.full((3, 2, 3, p), 9.0, dtype=dtype, device=device)
            R = torch.full((3, 2, 3), 9.0, dtype=torch.float64, device=device)
            mean(sums.to(device), mu, R, view=1)
            assert (mu[::2] == 9).all() and (R[::2] == 9).all()
            torch.testing.assert_close(mu[1].cpu().double(), expected_mu, rtol=bar, atol=0)
            torch.testing.assert_close(R[1].cpu(), expected_R, rtol=1e-14, atol=0)
            assert (mu[1, 1, 1:] == 0).all() and (R[1, 1, 1:] == 0).all()
    sums[0, 1, 0] = torch.nan
    mean(sums.to(device), mu[1], R[1])
    assert mu[1, 0, 1].isnan().any() and R[1, 0, 1].isnan() and R[1].isfinite().sum() == 5
    mean(sums[:0].to(device), mu[1, :0], R[1, :0])


def check_enter(device: str) -> None:
    """Samples enter as in torch; a wrong length is written with its row."""
    from resultant.losses._triton import MEAN_BLOCK, enter, mean

    generator = torch.Generator().manual_seed(0)
    for p, dtype in ((5, torch.float64), (MEAN_BLOCK + 3, torch.bfloat16)):
        z = functional.normalize(torch.randn(6, p, generator=generator), dim=-1).to(dtype)
        rows = torch.tensor([3, 0, 3, 2, -1, 4])  # the last two belong to others
        old = torch.randn(4, p + 1, generator=generator, dtype=torch.float64)
        new = torch.randn(4, p + 1, generator=generator, dtype=torch.float64)
        ones = torch.ones(6, p + 1, dtype=torch.float64)
        ones[:, :-1] = z
        expected = [a.index_add(0, rows[:4], ones[:4]) for a in (old, new)]
        got = old.to(device), new.to(device)
        host = torch.zeros(1, dtype=torch.int64, pin_memory=device == "cuda")
        views = torch.stack([torch.zeros_like(z), z]).to(device)
        enter(views, rows.to(device), *got, host, 0.05, view=1)
        if device == "cuda":
            torch.cuda.synchronize()
        for a, b in zip(got, expected, strict=True):
            torch.testing.assert_close(a.cpu(), b, rtol=1e-14, atol=1e-14)
        assert host == 0
        z[2] = 0
        enter(z.to(device), rows.to(device), *got, host, 0.05)
        if device == "cuda":
            torch.cuda.synchronize()
        assert host == (3 << 32) + 0x3F800000  # the row, and the bits of 1 in float32
    sums = torch.tensor([[3.0, 0, 0, 4], [0, 0, 5, 5], [0, 0, 0, 2], [math.nan, 0, 0, 1]])
    sums, mu = sums.double().to(device), torch.empty(4, 3, device=device)
    R, kappa = (torch.empty(4, dtype=torch.float64, device=device) for _ in range(2))
    mean(sums, mu, R, kappa)
    expected = bank.ProCoBank(4, 3).kappa(R.cpu())
    torch.testing.assert_close(kappa.cpu(), expected, rtol=1e-15, atol=0, equal_nan=True)


def fused(scores: Tensor, offset: Tensor, labels: Tensor) -> Tensor:
    apply: Callable[..., Any] = _cross_entropy._CrossEntropy.apply
    return apply(scores, offset, labels)[0]


def problem(rows: int, columns: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Scores, offset, labels, and weights of the rows."""
    generator = torch.Generator().manual_seed(rows + columns)
    scores = 8 * torch.randn(rows, columns, generator=generator, dtype=torch.float64)
    offset = torch.randn(columns, generator=generator, dtype=torch.float64)
    labels = torch.randint(columns, (rows,), generator=generator)
    return scores, offset, labels, torch.randn(rows, generator=generator, dtype=torch.float64)


def check_cross_entropy(device: str) -> None:
    from resultant.losses._triton import ENTROPY_BLOCK as BLOCK

    for rows, columns in ((6, 10), (4, 1), (2, 1000), (2, 2 * BLOCK + 7)):
        scores, offset, labels, weights = problem(rows, columns)
        for dtype, bar in ((torch.float64, 1e-14), (torch.float32, 1e-6)):
            # One row leans on its label, one away from it, and large scores cancel.
            x = scores.to(dtype)
            x[0, labels[0]], x[1, labels[1]] = 40, -40
            x[-1] += 1000
            x = x.requires_grad_()
            logits = x.detach().double().requires_grad_()
            whole = logits + offset.to(dtype).double()
            expected = functional.cross_entropy(whole, labels, reduction="none")
            (expected_grad,) = torch.autograd.grad(expected @ weights, logits)
            got = fused(*(a.to(device) for a in (x, offset.to(dtype), labels)))
            (grad,) = torch.autograd.grad(got.cpu() @ weights.to(dtype), x)
            assert got.dtype == grad.dtype == dtype
            rounding = bar * whole.detach().abs().amax(-1)  # of the logits
            assert ((got.cpu() - expected).abs() <= rounding).all(), (columns, dtype)
            assert ((grad - expected_grad).abs() <= rounding.unsqueeze(-1)).all(), (columns, dtype)

    # Classes of prior zero have no share, also if they fill the first block.
    scores, offset, labels, _ = problem(2, 2 * BLOCK + 7)
    offset[: BLOCK + 3], labels = -math.inf, torch.tensor([BLOCK + 5, 0])
    x = scores.to(device).requires_grad_()
    got = fused(x, offset.to(device), labels.to(device))
    torch.testing.assert_close(
        got.detach().cpu(), functional.cross_entropy(scores + offset, labels, reduction="none")
    )
    assert got[1] == math.inf
    (grad,) = torch.autograd.grad(got[0], x)
    assert (grad[0, : BLOCK + 3] == 0).all() and grad.isfinite().all()

    # A score that is not finite, or an invalid label, makes its row NaN and no other.
    scores, offset, labels, _ = problem(4, 10)
    scores[0, 3], labels[1], labels[2] = math.nan, -100, 10
    got = fused(*(a.to(device) for a in (scores, offset, labels)))
    assert got.isnan().tolist() == [True, True, True, False]

    x, offset, labels = (a.to(device) for a in problem(2, 3)[:3])
    assert gradcheck(lambda a: fused(a, offset, labels), x.requires_grad_(), fast_mode=True)
    assert gradgradcheck(lambda a: fused(a, offset, labels), x, fast_mode=True)
    assert fused(x[:0], offset, labels[:0]).shape == (0,)


@pytest.mark.slow
def test_interpreted() -> None:
    run_interpreted(CHECK)


@pytest.mark.gpu
def test_gpu() -> None:
    check("cuda")


@pytest.mark.gpu
def test_no_temporary() -> None:
    one = bank.ProCoBank(4000, 512).cuda()
    one.snapshot()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    snapshot = one.snapshot()
    peak = torch.cuda.max_memory_allocated() - before
    # Blocks are rounded up; the directions in float64 would take twice as much again.
    assert peak <= 1.25 * (snapshot.mu.nbytes + snapshot.R.nbytes)
