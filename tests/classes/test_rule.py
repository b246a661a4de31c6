"""Rules as values, and groups of classes by training count and by rank."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import pytest
import torch

from resultant import ClassState, Rule, realize
from resultant.classes.groups import HEAD, MEDIUM, TAIL, group_masks, shot_groups


def test_rules_compare_by_value() -> None:
    rule = Rule(0.1, "angular", 1)
    assert rule == Rule(0.1, "angular", beta=1.0) and isinstance(rule.beta, float)
    assert {rule: 1}[Rule(0.1, "angular", 1.0)] == 1
    assert len({rule, replace(rule, beta=0.5), replace(rule, family="power"), Rule(0.1)}) == 4
    with pytest.raises(FrozenInstanceError):
        rule.beta = 0.0  # type: ignore[misc]
    tau, offset = torch.tensor([0.1, 0.2]), torch.tensor([0.0, -1.0])
    rule = Rule(tau, offset=offset)
    for other in (Rule(tau), Rule(0.1, offset=offset), Rule(tau, offset=2 * offset), 1):
        assert rule != other
    assert {rule: 1}[Rule(tau.clone(), offset=offset.clone())] == 1
    state = ClassState(torch.eye(2), torch.ones(2), torch.ones(2))
    assert realize(state, rule) != realize(state, rule)  # by identity, as ClassState


@pytest.mark.parametrize(
    ("counts", "groups"),
    [
        ([500, 101, 100, 50, 20, 19, 0], [HEAD] * 2 + [MEDIUM] * 3 + [TAIL] * 2),
        ([50, 5000, 83, 2997, 1796, 1077, 645, 387, 232, 139], [2, 0, 2, 0, 0, 1, 1, 1, 1, 2]),
        # Classes of equal count stay together.
        ([30] * 10, [MEDIUM] * 10),
        ([9, 9, 9, 9, 5, 4, 3, 2, 1, 1], [MEDIUM] * 7 + [TAIL] * 3),
    ],
)
def test_shot_groups(counts: list[int], groups: list[int]) -> None:
    assert shot_groups(torch.tensor(counts)).tolist() == groups
    masks = {name: mask.tolist() for name, mask in group_masks(counts).items()}
    expected = {name: [g == k for g in groups] for k, name in enumerate(("head", "medium", "tail"))}
    assert masks == ({} if len(set(counts)) == 1 else expected)
