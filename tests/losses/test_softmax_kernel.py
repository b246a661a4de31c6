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
from resultant.losses import ProCoLoss, _streamed
from resultant.losses._streamed import Columns, PartialSoftmax
from resultant.losses.bank import mean

CHECK = "from losses import test_softmax_kernel; test_softmax_kernel.check('cpu')"
V, Q = 2, 3

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
        for name in TERMS:
            check_parts(device, name, 20, 64)
        check_parts(device, "native", 1, 3)
        check_steps(device)


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
    from resultant.losses._softmax_kernel import FusedSoftmax

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


def check_steps(device: str) -> None:
    """Steps by fused kernels against the plain loss, in both modes, with one and two views."""
    from resultant.losses._softmax_kernel import FusedSoftmax

    torch.manual_seed(0)
    for views, leave_out in (((V,), False), ((), True)):
        plain, fused = (
            ProCoLoss(C, 64, 0.1, "angular", 0.3, COUNTS, leave_out=leave_out).to(device)
            for _ in range(2)
        )
        for training in (True, False):
            plain.train(training)
            fused.train(training)
            z, y = (a.to(device) for a in batch(*views, n=4, p=64, dtype=torch.float32))
            expected = plain(z.requires_grad_(), y)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(_streamed, "partial_softmax", FusedSoftmax)
                for name in ("SCORE_BYTES", "DEVICE_BYTES"):
                    patch.setattr(chunks, name, 4 * 2 * len(y))  # chunks of a class or two
                got = fused(z, y)
            torch.testing.assert_close(got, expected, rtol=3e-6, atol=0)
            first, gradient = (torch.autograd.grad(a, z)[0] for a in (expected, got))
            bar = 1e-5 * float(first.abs().max())
            torch.testing.assert_close(gradient, first, rtol=0, atol=bar)
            torch.testing.assert_close(fused.bank.old, plain.bank.old)


@pytest.mark.slow
def test_interpreted() -> None:
    run_interpreted(CHECK)


@pytest.mark.gpu
def test_gpu() -> None:
    check("cuda")
