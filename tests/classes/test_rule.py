"""Rules as values: comparison, hashing, and the temperature as a tensor."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import pytest
import torch

from resultant import Rule


def test_rules_of_numbers_compare_by_value() -> None:
    rule = Rule(0.1, "angular", 1)
    assert rule == Rule(0.1, "angular", beta=1.0) and isinstance(rule.beta, float)
    assert {rule: 1}[Rule(0.1, "angular", 1.0)] == 1
    assert len({rule, replace(rule, beta=0.5), replace(rule, family="power"), Rule(0.1)}) == 4
    with pytest.raises(FrozenInstanceError):
        rule.beta = 0.0  # type: ignore[misc]


def test_temperature_is_float64_without_gradient() -> None:
    cpu = torch.device("cpu")
    tau = torch.tensor([0.1, 0.2], requires_grad=True)
    one, several = Rule(0.1).temperature(cpu), Rule(tau).temperature(cpu)
    assert one.dtype == several.dtype == torch.float64
    assert one.shape == () and several.shape == (2,) and not several.requires_grad


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"realization": "hot"}, "expected realization to be one of .*, got 'hot'"),
        ({"family": "cubic"}, "expected family to be one of .*, got 'cubic'"),
        ({"beta": float("nan")}, "expected beta to be a finite number, got nan"),
        ({"beta": "1"}, "expected beta to be a finite number, got '1'"),
    ],
)
def test_fields_are_checked_once(change: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Rule(0.1, **change)
