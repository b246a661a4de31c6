"""Cross-entropy of scores with an offset per class."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from resultant.losses import _cross_entropy
from resultant.losses._cross_entropy import cross_entropy


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_equals_log_softmax_at_the_labels(device: str) -> None:
    scores = torch.randn(5, 2, 3, 7, dtype=torch.float64, device=device, requires_grad=True)
    offset = torch.randn(7, dtype=torch.float64, device=device)
    labels = torch.randint(7, (5, 1, 3), device=device).expand(5, 2, 3)
    got = cross_entropy(scores, offset, labels)
    shares = (scores + offset).log_softmax(-1)
    expected = -shares.gather(-1, labels.unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(got, expected)
    grads = [torch.autograd.grad(a.sin().sum(), scores)[0] for a in (got, expected)]
    torch.testing.assert_close(*grads)


def test_derivatives_of_a_fused_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in takes the place of the kernel, which returns cross-entropies and gradient."""

    def kernel(scores: Tensor, offset: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        share = (scores + offset).softmax(-1)
        rows = torch.arange(len(labels))
        entropies = -share[rows, labels].log()
        share[rows, labels] -= 1
        return entropies, share

    kernels = SimpleNamespace(cross_entropy=kernel)
    monkeypatch.setattr(_cross_entropy, "kernel_module", lambda name: kernels)
    scores = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    offset, labels = torch.randn(4, dtype=torch.float64), torch.tensor([0, 3, 3])
    apply: Callable[..., Any] = _cross_entropy._CrossEntropy.apply
    assert gradcheck(lambda a: apply(a, offset, labels)[0], scores)
    assert gradcheck(lambda a: apply(a, offset, labels)[1], scores)
    assert gradgradcheck(lambda a: apply(a, offset, labels)[0], scores)
