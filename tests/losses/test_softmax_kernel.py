"""Fused kernels of the softmax over classes against torch, in Triton's interpreter and on a GPU."""

from __future__ import annotations

import pytest
import torch

from loss_batches import COUNTS, C, batch
from programs import run_interpreted
from resultant._core import chunks
from resultant.losses import ProCoLoss, _streamed

CHECK = "from losses import test_softmax_kernel; test_softmax_kernel.check('cpu')"
P, N = 64, 4


def check(device: str) -> None:
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
                patch.setattr(_streamed, "partial_softmax", _softmax_kernel.FusedSoftmax)
                for name in ("SCORE_BYTES", "DEVICE_BYTES"):
                    patch.setattr(chunks, name, 4 * N * views * 4)  # chunks of four classes and two
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
