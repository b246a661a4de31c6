"""Fused kernels of the banks against torch, in Triton's interpreter and on a GPU."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from programs import run_interpreted
from resultant.losses import sums as torch_sums

CHECK = "from losses import test_bank_kernel; test_bank_kernel.check('cpu')"


def check(device: str) -> None:
    check_mean(device)
    check_accumulate(device)


def check_mean(device: str) -> None:
    from resultant.losses._bank_kernel import MEAN_BLOCK, mean

    generator = torch.Generator().manual_seed(0)
    for p in (2, 5, 16, 1024, MEAN_BLOCK, MEAN_BLOCK + 1, 2 * MEAN_BLOCK + 37):
        sums = torch.randn(2, 3, p + 1, generator=generator, dtype=torch.float64)
        sums[..., -1] = torch.tensor([[1.0, 7.0, 1e6], [torch_sums.START_WEIGHT, 3.0, 2.0]])
        sums[1, 0, :-1] *= torch_sums.START_WEIGHT
        sums[1, 1, :-1] = 0  # samples that cancel, exactly and down to the start of the class
        sums[1, 2, :-1] *= torch_sums.START_WEIGHT
        expected_mu, expected_R = torch_sums.mean(sums)
        for dtype, bar in ((torch.float64, 1e-15), (torch.float32, 6e-8)):
            # The neighbours of the output stay untouched.
            mu = torch.full((3, 2, 3, p), 9.0, dtype=dtype, device=device)
            R = torch.full((3, 2, 3), 9.0, dtype=torch.float64, device=device)
            mean(sums.to(device), mu[1], R[1])
            assert (mu[::2] == 9).all() and (R[::2] == 9).all()
            torch.testing.assert_close(mu[1].cpu().double(), expected_mu, rtol=bar, atol=0)
            torch.testing.assert_close(R[1].cpu(), expected_R, rtol=1e-14, atol=0)
            assert (mu[1, 1, 1:, 0] == 1).all() and (R[1, 1, 1:] == 0).all()
            # An expanded tensor is copied, and an output that is not contiguous refused.
            mean(sums[:1].to(device).expand(2, 3, p + 1), mu[1], R[1])
            torch.testing.assert_close(mu[1].cpu().double(), expected_mu[[0, 0]], rtol=bar, atol=0)
            with pytest.raises(ValueError, match="expected a contiguous tensor to write"):
                mean(sums.to(device), mu[:2, 0], R[::2, 0])
    sums[0, 1, 0] = torch.nan
    mean(sums.to(device), mu[1], R[1])
    assert mu[1, 0, 1].isnan().any() and R[1, 0, 1].isnan() and R[1].isfinite().sum() == 5
    mean(sums[:0].to(device), mu[1, :0], R[1, :0])


def check_accumulate(device: str) -> None:
    """Samples enter as in torch; a wrong length is written with its row."""
    from resultant.losses._bank_kernel import MEAN_BLOCK, accumulate

    generator = torch.Generator().manual_seed(0)
    for p, dtype in ((5, torch.float64), (MEAN_BLOCK + 3, torch.bfloat16)):
        z = functional.normalize(torch.randn(6, p, generator=generator), dim=-1).to(dtype)
        labels = 10 + torch.tensor([3, 0, 3, 2, -1, 4])  # the last two belong to others
        old = torch.randn(4, p + 1, generator=generator, dtype=torch.float64)
        new = torch.randn(4, p + 1, generator=generator, dtype=torch.float64)
        ones = torch.ones(6, p + 1, dtype=torch.float64)
        ones[:, :-1] = z
        expected = [a.index_add(0, labels[:4] - 10, ones[:4]) for a in (old, new)]
        got = old.to(device), new.to(device)
        wrong = torch.zeros(1, dtype=torch.int64, pin_memory=device == "cuda")
        strided = torch.stack([z, torch.zeros_like(z)], 1).to(device)[:, 0]
        accumulate(strided, labels.to(device), *got, wrong, 10, 0.05)
        synchronize(device)
        for a, b in zip(got, expected, strict=True):
            torch.testing.assert_close(a.cpu(), b, rtol=1e-14, atol=1e-14)
        assert wrong == 0
        for sample, noted in ((2, 3 + 2), (4, 1)):
            x = z.clone()
            x[sample] = 0
            accumulate(x.to(device), labels.to(device), *got, wrong, 10, 0.05)
            synchronize(device)
            assert wrong == noted


def synchronize(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


@pytest.mark.slow
def test_interpreted() -> None:
    run_interpreted(CHECK)


@pytest.mark.gpu
def test_gpu() -> None:
    check("cuda")
