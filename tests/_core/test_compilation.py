"""Functions that torch.compile leaves as they are."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from resultant._core.compilation import untraced


@pytest.mark.slow
def test_runs_between_graphs() -> None:
    traced = []

    @untraced
    def double(a: Tensor, factor: float = 2.0) -> Tensor:
        traced.append(torch.compiler.is_compiling())
        return factor * a

    def whole(a: Tensor) -> Tensor:
        return double(a + 1, factor=3.0) - 1

    a = torch.arange(3.0)
    expected = whole(a)
    compiled = torch.compile(whole, backend="eager")
    for _ in range(2):
        assert torch.equal(compiled(a), expected)
    assert traced == [False] * 3
    assert double.__name__ == "double"
