"""Fused kernels of banks and softmax against torch, in Triton's interpreter and on a GPU."""

import pytest
import torch
from torch.nn import functional

from loss_batches import COUNTS, C, batch
from programs import run_interpreted
from resultant._core import memory
from resultant.losses import ProCoLoss, step_streamed
from resultant.losses.bank import START_WEIGHT
from resultant.vmf.estimators import fit_direction


def check(device: str) -> None:
    check_mean(device)
    check_accumulate(device)
    check_softmax(device)


def check_mean(device: str) -> None:
    """Means as in torch: of starts, of samples that cancel, without weight, too long, and NaN."""
    from resultant.losses._bank_kernel import BLOCK, UNIT_SCALE, half_directions, mean

    generator = torch.Generator().manual_seed(0)
    for p in (2, 5, 1024, BLOCK + 1):
        sums = torch.randn(2, 4, p + 1, generator=generator, dtype=torch.float64)
        sums[..., -1] = torch.tensor([[1.0, 7.0, 1e6, 0.0], [START_WEIGHT, 3.0, 2.0, -1.0]])
        sums[1, ::2, :-1] *= START_WEIGHT
        sums[1, 1, :-1] = 0
        expected_mu, expected_R = fit_direction(sums[..., :-1], sums[..., -1])
        for dtype, bar in ((torch.float64, 1e-15), (torch.float32, 6e-8)):
            mu = torch.empty(2, 4, p, dtype=dtype, device=device)
            R = torch.empty(2, 4, dtype=torch.float64, device=device)
            mean(sums.to(device), mu, R)
            torch.testing.assert_close(mu.cpu().double(), expected_mu, rtol=bar, atol=0)
            torch.testing.assert_close(R.cpu(), expected_R, rtol=1e-14, atol=0)
        high, low, again = half_directions(sums[0].to(device)).cpu().double().chunk(3, -1)
        assert (high == again).all()
        torch.testing.assert_close((high + low) / UNIT_SCALE, expected_mu[0], rtol=0, atol=5e-7)
    # NaN stays, also without weight.
    sums[0, 1, 0] = sums[:, 3, 1] = torch.nan
    expected_mu, expected_R = fit_direction(sums[..., :-1], sums[..., -1])
    mean(sums.to(device), mu, R)
    torch.testing.assert_close(mu.cpu().double(), expected_mu, rtol=6e-8, atol=0, equal_nan=True)
    torch.testing.assert_close(R.cpu(), expected_R, rtol=1e-14, atol=0, equal_nan=True)
    assert mu[0, 1].isnan().any() and R[0, 1].isnan() and R.isfinite().sum() == 7
    assert mu[:, 3].isnan().sum() == 2
    mean(sums[:0].to(device), mu[:0], R[:0])


def check_accumulate(device: str) -> None:
    """Samples enter as in torch; one of wrong length is noted with its class, and stays out."""
    from resultant.losses._bank_kernel import BLOCK, accumulate

    generator = torch.Generator().manual_seed(0)
    for p, dtype in ((5, torch.float64), (BLOCK + 3, torch.bfloat16)):
        z = functional.normalize(torch.randn(6, p, generator=generator), dim=-1).to(dtype)
        labels = 10 + torch.tensor([3, 0, 3, 2, -1, 4])  # the last two belong to others
        banks = torch.randn(2, 4, p + 1, generator=generator, dtype=torch.float64)
        samples = functional.pad(z.double(), (0, 1), value=1.0)[:4]
        expected = banks.index_add(1, labels[:4] - 10, samples.expand(2, -1, -1))
        got, noted = banks.to(device), torch.zeros((), dtype=torch.int64, device=device)
        strided = torch.stack([z, torch.zeros_like(z)], 1).to(device)[:, 0]
        accumulate(strided, labels.to(device), got[0], got[1], noted, 10, 0.05)
        torch.testing.assert_close(got.cpu(), expected, rtol=1e-14, atol=1e-14)
        assert noted == 0
        for sample, value, largest in ((4, 0, 1), (2, torch.nan, 13 + 2), (1, torch.inf, 13 + 2)):
            x, before = z.clone(), got.clone()
            x[sample, 1] = value
            x[sample, 2:] *= value
            entered = torch.arange(4) != sample
            accumulate(x.to(device), labels.to(device), got[0], got[1], noted, 10, 0.05)
            samples = functional.pad(x.double(), (0, 1), value=1.0)[:4][entered]
            expected = before.cpu().index_add(
                1, labels[:4][entered] - 10, samples.expand(2, -1, -1)
            )
            torch.testing.assert_close(got.cpu(), expected, rtol=1e-14, atol=1e-14)
            assert noted == largest


P, N = 64, 4


def check_softmax(device: str) -> None:
    """Compare steps by fused kernels with the plain loss: every term of a score, both modes, one
    and two views, a class of prior zero and one whose samples cancel; and second calls, which add
    chunks of classes of larger and of smaller logits."""
    from resultant.losses import _softmax_kernel

    torch.manual_seed(0)
    counts = COUNTS.clone()
    counts[3] = 0
    for realization, views in (("preserve", 2), ("angular", 1), ("cosine", 2)):
        plain, fused = (
            ProCoLoss(C, P, 0.1, realization, 0.3, counts, leave_out=views == 1).to(device)
            for _ in range(2)
        )
        for training in (True, False):
            plain.train(training)
            fused.train(training)
            z, y = batch(views, n=N, p=P, dtype=torch.float32)
            z, y = z.to(device), y.masked_fill(y == 3, 2).to(device)
            if realization == "cosine":
                y[:2], z[:, 1] = 4, -z[:, 0]
            expected = plain(z.requires_grad_(), y)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(_softmax_kernel, "FEW_TILE", (2, 16, 1))
                patch.setattr(step_streamed, "partial_softmax", _softmax_kernel.FusedSoftmax)
                for name in ("SCORE_BYTES", "DEVICE_BYTES"):
                    patch.setattr(memory, name, 4 * N * views * 4)  # chunks of four classes and two
                got = fused(z, y)
            torch.testing.assert_close(got, expected, rtol=3e-6, atol=0)
            first, gradient = (torch.autograd.grad(a, z)[0] for a in (expected, got))
            bar = 1e-5 * float(first.abs().max())
            torch.testing.assert_close(gradient, first, rtol=0, atol=bar)
            torch.testing.assert_close(fused.bank.old, plain.bank.old)


@pytest.mark.slow
def test_interpreted() -> None:
    run_interpreted("from losses import test_kernels; test_kernels.check('cpu')")


@pytest.mark.gpu
def test_gpu() -> None:
    check("cuda")
