"""Rules as values: comparison and hashing."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import pytest
import torch

from resultant import ClassState, Rule, realize


def test_rules_of_numbers_compare_by_value() -> None:
    rule = Rule(0.1, "angular", 1)
    assert rule == Rule(0.1, "angular", beta=1.0) and isinstance(rule.beta, float)
    assert {rule: 1}[Rule(0.1, "angular", 1.0)] == 1
    assert len({rule, replace(rule, beta=0.5), replace(rule, family="power"), Rule(0.1)}) == 4
    with pytest.raises(FrozenInstanceError):
        rule.beta = 0.0  # type: ignore[misc]


def test_rules_of_tensors_compare_by_value() -> None:
    tau, offset = torch.tensor([0.1, 0.2]), torch.tensor([0.0, -1.0])
    rule = Rule(tau, offset=offset)
    assert rule == Rule(tau.clone(), offset=offset.clone()) and hash(rule) == hash(Rule(tau))
    for other in (Rule(tau), Rule(0.1, offset=offset), Rule(tau, offset=2 * offset), 1):
        assert rule != other
    assert {rule: 1}[Rule(tau.clone(), offset=offset.clone())] == 1
    state = ClassState(torch.eye(2), torch.ones(2), torch.ones(2))
    assert realize(state, rule) != realize(state, rule)  # by identity, as ClassState
