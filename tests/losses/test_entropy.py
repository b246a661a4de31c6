"""The fused cross-entropy: the same as torch's, in Triton's interpreter and on a GPU."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.nn import functional

import resultant
from interpreter import run_interpreted
from resultant.losses import _cross_entropy as _entropy

CHECK = "import test_entropy; test_entropy.check('cpu')"


def fused(scores: Tensor, offset: Tensor, labels: Tensor) -> Tensor:
    apply: Callable[..., Any] = _entropy._CrossEntropy.apply
    return apply(scores, offset, labels)[0]


def problem(rows: int, columns: int, runs: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Scores, offsets, labels, and weights of the rows."""
    generator = torch.Generator().manual_seed(rows + columns)
    scores = 8 * torch.randn(rows, columns, generator=generator, dtype=torch.float64)
    offset = torch.randn(runs, columns, generator=generator, dtype=torch.float64)
    labels = torch.randint(columns, (rows,), generator=generator)
    return scores, offset, labels, torch.randn(rows, generator=generator, dtype=torch.float64)


def check(device: str) -> None:
    from resultant.losses._entropy_triton import BLOCK

    for rows, columns, runs in ((6, 10, 3), (4, 1, 1), (2, 1000, 2), (2, 2 * BLOCK + 7, 1)):
        scores, offset, labels, weights = problem(rows, columns, runs)
        for dtype, bar in ((torch.float64, 1e-14), (torch.float32, 1e-6)):
            # One leans on its label, one away from it, and large scores cancel.
            x = scores.to(dtype)
            x[0, labels[0]], x[1, labels[1]] = 40, -40
            x[-1] += 1000
            x = x.requires_grad_()
            logits = x.detach().double().requires_grad_()
            whole = logits + offset.to(dtype).double().repeat(rows // runs, 1)
            wanted = functional.cross_entropy(whole, labels, reduction="none")
            (wanted_grad,) = torch.autograd.grad(wanted @ weights, logits)
            there = (a.to(device) for a in (x, offset.to(dtype), labels))
            got = fused(*there)
            (grad,) = torch.autograd.grad(got.cpu() @ weights.to(dtype), x)
            assert got.dtype == grad.dtype == dtype
            rounding = bar * whole.detach().abs().amax(-1)  # of the logits
            assert ((got.cpu() - wanted).abs() <= rounding).all(), (columns, dtype)
            assert ((grad - wanted_grad).abs() <= rounding.unsqueeze(-1)).all(), (columns, dtype)

    # Classes of prior zero have no share, also where they fill the first block.
    scores, offset, labels, _ = problem(2, 2 * BLOCK + 7, 1)
    offset[0, : BLOCK + 3], labels = -math.inf, torch.tensor([BLOCK + 5, 0])
    x = scores.to(device).requires_grad_()
    got = fused(x, offset.to(device), labels.to(device))
    torch.testing.assert_close(
        got.detach().cpu(), functional.cross_entropy(scores + offset, labels, reduction="none")
    )
    assert got[1] == math.inf
    (grad,) = torch.autograd.grad(got[0], x)
    assert (grad[0, : BLOCK + 3] == 0).all() and grad.isfinite().all()

    # What is not finite, or no label, makes its row NaN and no other.
    scores, offset, labels, _ = problem(4, 10, 1)
    scores[0, 3], labels[1], labels[2] = math.nan, -100, 10
    got = fused(*(a.to(device) for a in (scores, offset, labels)))
    assert got.isnan().tolist() == [True, True, True, False]

    small = problem(2, 3, 2)[:3]
    x, offset, labels = (a.to(device) for a in small)
    assert gradcheck(lambda a: fused(a, offset, labels), x.requires_grad_(), fast_mode=True)
    assert gradgradcheck(lambda a: fused(a, offset, labels), x, fast_mode=True)
    assert fused(x[:0], offset, labels[:0]).shape == (0,)


def test_interpreted() -> None:
    run_interpreted(CHECK)


def test_without_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)
    monkeypatch.delitem(sys.modules, "resultant.losses._entropy_triton", raising=False)
    monkeypatch.delattr(resultant, "_entropy_kernel", raising=False)
    _entropy._fused.cache_clear()
    assert _entropy._fused() is None
    _entropy._fused.cache_clear()


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_offsets_go_to_their_runs(device: str) -> None:
    scores = torch.randn(5, 2, 3, 4, 7, dtype=torch.float64, device=device, requires_grad=True)
    offset = torch.randn(3, 4, 7, dtype=torch.float64, device=device)
    labels = torch.randint(7, (5, 1, 1, 4), device=device).expand(5, 2, 3, 4)
    got = _entropy.cross_entropy(scores, offset, labels)
    shares = (scores + offset).log_softmax(-1)
    wanted = -shares.gather(-1, labels.unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(got, wanted)
    grads = [torch.autograd.grad(a.sin().sum(), scores)[0] for a in (got, wanted)]
    torch.testing.assert_close(*grads)


@pytest.mark.gpu
def test_gpu() -> None:
    check("cuda")
