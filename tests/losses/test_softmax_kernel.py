"""Fused kernels of the softmax over classes against torch, in Triton's interpreter and on a GPU."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from loss_batches import COUNTS, C, batch
from programs import run_interpreted
from resultant._core import chunks
from resultant.classes.realization import Terms
from resultant.losses import ProCoLoss, _fused_step, _streamed
from resultant.losses._fused_step import fused_loss
from resultant.losses._means import mean
from resultant.losses._partial_softmax import Columns, FusedSoftmax, PartialSoftmax
from resultant.losses._streamed import streamed_loss

CHECK = "from losses import test_softmax_kernel; test_softmax_kernel.check('cpu')"
V, Q = 2, 3
# Realizations of edited gains, and one of them in float64.
EDITED, LAST = ("temperature", "preserve", "angular", "cosine"), ("preserve", torch.float64)

# Terms of native, tempered and preserving, angular, and cosine scores of K classes.
TERMS = {
    "native": lambda K: Terms(torch.tensor(0.1)),
    "preserve": lambda K: Terms(torch.linspace(0.05, 0.2, V * K).view(V, K), None, _row(K)),
    "angular": lambda K: Terms(torch.tensor(0.1), _row(K)),
    "cosine": lambda K: Terms(None, torch.tensor([[6.0], [7.0]])),
}


def _row(K: int) -> Tensor:
    return torch.linspace(-1.0, 2.0, V * K).view(V, K)


def check(device: str) -> None:
    from resultant.losses import _softmax_kernel

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_softmax_kernel, "FEW_TILE", (2, 16, 1))
        for name in ("native", "preserve"):
            check_parts(device, name, 20, 64)
        for name in TERMS:
            check_finish(device, name, 20, 64, torch.float32, 6e-5)
        check_finish(device, "preserve", 20, 64, torch.float64, 2e-12)
        check_finish(device, "native", 1, 3, torch.float32, 6e-5)
        check_steps(device)
        check_terms(device)


def problem(name: str, K: int, p: int) -> tuple[Tensor, Tensor, Columns]:
    """Draw queries near classes, sums with counts, and columns with a class of prior zero."""
    generator = torch.Generator().manual_seed(K + p)
    sums = torch.randn(K, p + 1, generator=generator, dtype=torch.float64)
    sums[:, -1] = 1 + 50 * torch.rand(K, generator=generator).double()
    z = sums[torch.randint(K, (V, Q), generator=generator), :-1]
    z = functional.normalize(z + torch.randn(z.shape, generator=generator), dim=-1).float()
    kappa = torch.rand(V, K, generator=generator) * p
    offset = torch.randn(K, generator=generator)
    if K > 1:
        sums[1, :-1] = 0  # samples that cancel
        kappa[:, 1], offset[2] = 0, -math.inf
    return z, sums, Columns(kappa, TERMS[name](K), offset)


def moved(columns: Columns, device: str, dtype: torch.dtype) -> Columns:
    def to(a: Tensor | None) -> Tensor | None:
        return None if a is None else a.to(device, dtype)

    kappa, terms, offset = columns
    return Columns(kappa.to(device, dtype), Terms(*map(to, terms)), offset.to(device, dtype))


def check_parts(device: str, name: str, K: int, p: int) -> None:
    """Two chunks and the classes of a batch, in any order of their tops."""
    z, sums, columns = problem(name, K, p)
    own = torch.randint(K, (Q,))
    results = []
    for fused in (False, True):
        dtype = torch.float32 if fused else torch.float64
        here = device if fused else "cpu"
        classes = moved(columns, here, dtype)
        score = ProCoLoss(2, p).score_and_slope
        queries, rows = z.to(here, dtype), sums.to(here)
        part = (
            FusedSoftmax(queries, score, classes.terms) if fused else PartialSoftmax(queries, score)
        )
        half = K // 2
        for chunk in (slice(half, K), slice(half)):
            if chunk != slice(0):
                part.absorb(rows[chunk], classes.at(chunk))
        mu = mean(rows, dtype)[0].expand(V, K, p)
        part.absorb_views(mu.contiguous(), classes, own.to(here))
        results.append([a.cpu().double() for a in (part.log_sum(), part.mean_gradient())])
    (log_sum, gradient), (got, got_gradient) = results
    size = columns.offset[columns.offset.isfinite()].abs().max() + 10
    torch.testing.assert_close(got, log_sum, rtol=0, atol=2e-6 * float(size))
    torch.testing.assert_close(
        got_gradient, gradient, rtol=0, atol=3e-6 * float(gradient.abs().max())
    )


def check_finish(
    device: str, name: str, K: int, p: int, dtype: torch.dtype, tolerance: float
) -> None:
    from resultant.losses._softmax_kernel import finish

    z, sums, columns = problem(name, K, p)
    labels = (torch.arange(2 * Q) % min(K, 3))[::2]  # not contiguous
    mu, _ = mean(sums)
    rho = (z.double() @ mu.mT).to(dtype).requires_grad_()
    score = ProCoLoss(2, p).score_and_slope
    classes = moved(moved(columns, "cpu", dtype), "cpu", torch.float64)
    logits = torch.stack([score(rho[v].double(), *classes.seen_by(v)[:2])[0] for v in range(V)])
    logits = (logits + classes.offset).flatten(0, 1)
    expected = functional.cross_entropy(logits, labels.repeat(V), reduction="none")
    (gradient,) = torch.autograd.grad(expected.mean(), rho)
    got = rho.detach().to(device, copy=True)
    entropies = finish(got, *moved(columns, device, dtype), p, labels.to(device))
    torch.testing.assert_close(
        entropies.cpu().double(), expected.view(V, Q), rtol=0, atol=tolerance
    )
    torch.testing.assert_close(got.cpu(), gradient, rtol=0, atol=tolerance)
    if K == 1:
        labels[1] = K
        assert finish(got, *moved(columns, device, dtype), p, labels.to(device)).isnan()[:, 1].all()


def check_steps(device: str) -> None:
    """Steps by fused kernels, of stored and of streamed scores, against the plain loss."""
    torch.manual_seed(0)
    z, y = (a.to(device) for a in batch(V, n=4, p=64, dtype=torch.float32))
    z.requires_grad_()
    plain, fused, streamed = (
        ProCoLoss(C, 64, 0.1, "angular", 0.3, COUNTS).to(device) for _ in range(3)
    )
    expected = plain.stored(z, y)
    value = fused_loss(fused, z, y)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_streamed, "partial_softmax", FusedSoftmax)
        for name in ("SCORE_BYTES", "DEVICE_BYTES"):
            patch.setattr(chunks, name, 4 * 4 * V * len(y))  # chunks of four classes
        other = streamed_loss(streamed, z, y)
    (first,) = torch.autograd.grad(expected, z, create_graph=True)
    for loss, got in ((fused, value), (streamed, other)):
        torch.testing.assert_close(got, expected, rtol=3e-6, atol=0)
        (gradient,) = torch.autograd.grad(got, z, retain_graph=True)
        torch.testing.assert_close(
            gradient, first, rtol=0, atol=1e-5 * float(first.detach().abs().max())
        )
        torch.testing.assert_close(loss.bank.old, plain.bank.old)
    (second,) = torch.autograd.grad(first.square().sum(), z)
    (again,) = torch.autograd.grad(value, z, create_graph=True)
    (got,) = torch.autograd.grad(again.square().sum(), z)
    torch.testing.assert_close(got, second, rtol=0, atol=1e-4 * float(second.detach().abs().max()))
    with pytest.raises(RuntimeError, match="expected first derivatives only"):
        torch.autograd.grad(other, z, create_graph=True)


def check_terms(device: str) -> None:
    """Terms of edited scores, and the least gains, against those of torch."""
    from resultant.losses import _terms_kernel

    kappa = torch.linspace(1.0, 90.0, V * C, dtype=torch.float64).view(V, C).to(device)
    for name, dtype, p in (*((name, torch.float32, 64) for name in EDITED), (*LAST, 5)):
        loss = ProCoLoss(C, p, 0.1, name, 0.7).to(device)
        expected = loss.terms(kappa.to(dtype), loss.noted_gains(kappa, dtype))
        noted = loss.least_target.clone()
        loss.least_target.fill_(math.inf)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_terms_kernel, "BLOCK", 4)
            got = _fused_step.fused_terms(loss, kappa, dtype)
        for a, b in zip(got, expected, strict=True):
            assert (a is None) == (b is None)
            if a is not None and b is not None:
                assert a.dtype == dtype
                bar = 16 * torch.finfo(dtype).eps
                torch.testing.assert_close(a, b, rtol=bar, atol=bar * float(b.abs().max()))
        torch.testing.assert_close(loss.least_target, noted, rtol=1e-14, atol=0)
    # A class without a gain has no temperature.
    loss = ProCoLoss(C, 64, 0.1, "temperature").to(device)
    kappa[1, 2] = 0
    star = _fused_step.fused_terms(loss, kappa, torch.float32).tau
    assert star is not None and star.isnan().nonzero().tolist() == [[1, 2]]
    assert loss.least_target[2] == 0 and (loss.least_target > 0).sum() == C - 1


@pytest.mark.slow
def test_interpreted() -> None:
    run_interpreted(CHECK)


@pytest.mark.gpu
def test_gpu() -> None:
    check("cuda")
