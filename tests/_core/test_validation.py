"""Arguments as tensors, and checks of their values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import resultant
from resultant import bessel_ratio
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
    ("arguments", "message"),
    [
        ({"a": True}, "expected a to be a tensor or number, got bool"),
        ({"a": torch.ones(2), "b": torch.ones(3)}, r"that broadcast, got a \(2,\), b \(3,\)"),
        ({"a": torch.ones(2), "b": torch.ones(2, device="meta")}, "one device, got a on cpu, b on"),
        ({"a": torch.tensor([1])}, "expected a of a floating dtype, got torch.int64"),
    ],
)
def test_bad_tensors(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        validation.tensors(**arguments)


@pytest.mark.parametrize("value", [1, 2.0, True, torch.tensor(True), "3", None])
def test_integers(value: Any) -> None:
    rule = r"expected n to be an integer >= 2 or None, got "
    with pytest.raises(ValueError, match=rule):
        validation.integer("n", value, 2, " or None")
    assert validation.integer("n", torch.tensor(3), 2) == 3  # type: ignore[arg-type]


def test_ranges() -> None:
    a = torch.tensor([[0.0, 1.0], [math.nan, 3.0]])
    validation.require_in_range("a", a[:0], 5.0, rule=">= 5")
    validation.require_in_range("a", a[0], 0.0, 1.0, rule="in [0, 1]")
    cases: list[tuple[torch.Tensor, dict[str, Any], str]] = [
        (a, {}, r"expected a >= 0, got nan at index \(1, 0\)"),
        (a[0], {"open_low": True}, "expected a >= 0, got 0 at index 0"),
        (a[1, 1], {"high": 2.0, "remedy": "divide"}, r"expected a >= 0, got 3 \(divide\)"),
        (a[0] / 0, {}, "expected a >= 0, got nan at index 0"),
    ]
    for values, options, message in cases:
        with pytest.raises(ValueError, match=message):
            validation.require_in_range("a", values, 0.0, rule=">= 0", **options)


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


def test_values_are_checked_inside_transforms() -> None:
    """A batch under vmap is checked as a whole."""
    x = torch.tensor([1.0, -2.0])
    with pytest.raises(ValueError, match="expected x >= 0 and finite, got -2 at index 1"):
        torch.func.vmap(lambda v: bessel_ratio(3.0, v))(x)
    with pytest.raises(ValueError, match="expected x >= 0 and finite, got -2"):
        torch.func.grad(lambda v: bessel_ratio(3.0, v))(x[1])
