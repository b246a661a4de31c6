"""Cross-entropy of scores with an offset per class."""

from __future__ import annotations

import pytest
import torch

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
