"""Programs of torch.jit.trace: the compiled kernel, which a trace cannot see, is not used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from resultant import (
    ClassState,
    VonMisesFisher,
    bessel_ratio,
    bessel_ratio_inverse,
    class_scores,
    log_bessel_i,
    vmf_score,
    vmf_score_and_slope,
)

AXIS = torch.eye(5, dtype=torch.float64)[0]
KAPPA = torch.tensor([1.0, 10.0, 100.0]).double()
STATE = ClassState(torch.eye(3, 5).double(), KAPPA, torch.ones(3))
FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "bessel_ratio": lambda x: bessel_ratio(15.0, x),
    "bessel_ratio_inverse": lambda x: bessel_ratio_inverse(15.0, x),
    "log_bessel_i": lambda x: log_bessel_i(0.5, x),
    "vmf_score": lambda x: vmf_score(x, 10.0, 0.1, 32),
    "slope": lambda x: vmf_score_and_slope(x, 1.0, 0.1, 100)[1],
    "entropy": lambda x: VonMisesFisher(AXIS, x).entropy(),
    "log_prob": lambda x: VonMisesFisher(AXIS, x).log_prob(AXIS),
    "class_scores": lambda x: class_scores(
        torch.nn.functional.normalize(torch.stack([x] * 5, -1) + AXIS, dim=-1), STATE, 0.1
    ),
}


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_traced_function_computes_anew(name: str) -> None:
    function = FUNCTIONS[name]
    x = torch.linspace(0.1, 0.9, 7, dtype=torch.float64)
    traced: Any = torch.jit.trace(function, x)
    for at in (x, x * 0.7):
        torch.testing.assert_close(traced(at), function(at), rtol=1e-12, atol=1e-14)
