"""Arguments as tensors of one dtype, and values that are not read."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

import resultant
from resultant._core import validation


def test_tensors_share_dtype_and_device() -> None:
    half, single = torch.ones(2, dtype=torch.bfloat16), torch.ones(3, 1)
    (a, b, c), dtype = validation.tensors(a=half, b=single, c=2)
    assert dtype == a.dtype == b.dtype == c.dtype == torch.float32
    (a, _), dtype = validation.tensors(a=half, b=torch.ones((), dtype=torch.float64))
    assert dtype == torch.bfloat16 and a.dtype == torch.float32
    assert validation.tensors(a=1, b=2.0)[1] == torch.float64


@pytest.mark.filterwarnings("error")
def test_numbers_of_numpy_are_compared_without_overflow() -> None:
    rho = torch.tensor(0.5, dtype=torch.float64)
    expected = resultant.vmf_score(rho, 3.0, 0.5, 8)
    kappa, tau = np.asarray([3.0, 0.5], dtype=np.float32)
    assert resultant.vmf_score(rho, kappa, tau, 8) == expected


@pytest.mark.parametrize(
    "call",
    [
        lambda a: resultant.bessel_ratio(3.0, a),
        lambda a: resultant.ratio_approximation(3.0, a),
        lambda a: resultant.ratio_bound(a),
        lambda a: resultant.concentration(8, a, n=a),
        lambda a: resultant.mean_resultant(8, a),
        lambda a: resultant.projection_variance(a, a, a),
        lambda a: resultant.rate_function(a, a, a),
    ],
)
def test_values_on_other_devices_are_not_read(call: Callable[[torch.Tensor], torch.Tensor]) -> None:
    result = call(torch.ones(3, device="meta"))
    assert result.is_meta and result.shape == (3,)
