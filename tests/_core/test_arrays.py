"""Checks of features and labels, and directions of rows."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from resultant._core import chunks
from resultant._core.arrays import directions, require_features, require_labels

CPU = torch.device("cpu")
Z = torch.nn.functional.normalize(torch.randn(5, 3, generator=torch.Generator().manual_seed(0)))
Y = torch.tensor([0, 1, 2, 1, 0])


@pytest.mark.parametrize(
    ("z", "message"),
    [
        (Z[0], r"expected z \[N, 3\], got shape \(3,\)"),
        (Z.tolist(), r"expected z \[N, 3\], got list"),
        (Z.long(), "expected z of a floating dtype, got torch.int64"),
        (Z.to("meta"), "expected z on cpu, got z on meta"),
        (Z * torch.tensor([1, 1, 1.2, 1, 1])[:, None], r"expected \|z\| - 1 .* at index 2 \(norm"),
    ],
)
def test_bad_features(z: Tensor, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The index of a bad row counts from the first row, not from the first of its chunk."""
    monkeypatch.setattr(chunks, "FEATURE_BYTES", 8 * 3 * 2)
    require_features(Z, 3, CPU, None)
    with pytest.raises(ValueError, match=message):
        require_features(z, 3, CPU, None)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (Y[:4], r"expected y \[5\], one per row of z, got shape \(4,\)"),
        (Y.int(), "expected y of dtype torch.int64, got torch.int32"),
        (Y.to("meta"), "expected y on cpu, got y on meta"),
        (Y - 1, r"expected y in \[0, 3\), got -1 at index 0"),
        (Y + 1, r"expected y in \[0, 3\), got 3 at index 2"),
    ],
)
def test_bad_labels(y: Tensor, message: str) -> None:
    require_labels(Y, 5, 3, CPU, None)
    with pytest.raises(ValueError, match=message):
        require_labels(y, 5, 3, CPU, None)


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_directions_of_any_length(scale: float) -> None:
    """A row of zeros is unchanged, and a row that is not finite has no finite length."""
    x = Z.double() * scale
    x[1], x[2, 0] = 0, torch.inf
    units, length = directions(x)
    expected = Z.double() / Z.double().norm(dim=1, keepdim=True)
    torch.testing.assert_close(units[[0, 3, 4]], expected[[0, 3, 4]])
    assert length[1] == 0 and not units[1].any() and not length[2].isfinite()
