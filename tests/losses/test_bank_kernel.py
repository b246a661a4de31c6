"""The fused means of a bank: those of the torch path, in Triton's interpreter and on a GPU."""

from __future__ import annotations

import sys

import pytest
import torch

import resultant
from interpreter import run_interpreted
from resultant.losses import bank

CHECK = "import test_bank_kernel; test_bank_kernel.check('cpu')"


def check(device: str) -> None:
    from resultant.losses._bank_triton import BLOCK, mean

    generator = torch.Generator().manual_seed(0)
    for p in (2, 5, 16, 1024, BLOCK, BLOCK + 1, 2 * BLOCK + 37):
        sums = torch.randn(2, 3, p + 1, generator=generator, dtype=torch.float64)
        sums[..., -1] = torch.tensor([[1.0, 7.0, 1e6], [bank.START_WEIGHT, 3.0, 2.0]])
        sums[1, 0, :-1] *= bank.START_WEIGHT
        sums[1, 1, :-1] = 0  # samples that cancel, and those of which the start is left
        sums[1, 2, :-1] *= bank.START_WEIGHT
        wanted_mu, wanted_R = bank._mean(sums)
        for dtype, bar in ((torch.float64, 1e-15), (torch.float32, 6e-8)):
            # Next to what is written stands what must stay.
            mu = torch.full((3, 2, 3, p), 9.0, dtype=dtype, device=device)
            R = torch.full((3, 2, 3), 9.0, dtype=torch.float64, device=device)
            mean(sums.to(device), mu[1], R[1])
            assert (mu[::2] == 9).all() and (R[::2] == 9).all()
            torch.testing.assert_close(mu[1].cpu().double(), wanted_mu, rtol=bar, atol=0)
            torch.testing.assert_close(R[1].cpu(), wanted_R, rtol=1e-14, atol=0)
            assert (mu[1, 1, 1:] == 0).all() and (R[1, 1, 1:] == 0).all()
    sums[0, 1, 0] = torch.nan
    mean(sums.to(device), mu[1], R[1])
    assert mu[1, 0, 1].isnan().any() and R[1, 0, 1].isnan() and R[1].isfinite().sum() == 5
    mean(sums[:0].to(device), mu[1, :0], R[1, :0])


def test_interpreted() -> None:
    run_interpreted(CHECK)


def test_without_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)
    monkeypatch.delitem(sys.modules, "resultant.losses._bank_triton", raising=False)
    monkeypatch.delattr(resultant, "_bank_kernel", raising=False)
    bank._fused.cache_clear()
    assert bank._fused() is None
    bank._fused.cache_clear()


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
    found = one.snapshot()
    taken = torch.cuda.max_memory_allocated() - before
    # Blocks are rounded up; the directions in float64 would be twice as much again.
    assert taken <= 1.25 * (found.mu.nbytes + found.R.nbytes)
