"""Rows: in chunks that fit a budget, and their directions."""

import pytest
import torch

from resultant._core.arrays import directions


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_directions_of_any_length(scale: float) -> None:
    """A row of zeros is unchanged, and a row that is not finite has no finite length."""
    z = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x = z * scale
    x[1], x[2, 0] = 0, torch.inf
    units, length = directions(x)
    expected = z / z.norm(dim=1, keepdim=True)
    torch.testing.assert_close(units[[0, 3, 4]], expected[[0, 3, 4]])
    assert length[1] == 0 and not units[1].any() and not length[2].isfinite()
