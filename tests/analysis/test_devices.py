"""Questions about a space on a GPU have the answers of the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from frozen_data import COUNTS, small_space
from resultant._core import memory
from resultant.analysis import (
    QUESTIONS,
    Analysis,
    FrozenSpace,
    Policy,
    analyze_space,
    boundary_displacement,
    compare_gradients,
    decide,
    margin_directions,
    same_state,
    self_inclusion,
)
from resultant.analysis.pairs import choose_pairs
from small_features import alike


@pytest.fixture(autouse=True)
def several_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "DEVICE_BYTES", 1 << 16)


@pytest.mark.gpu
def test_every_question(small_analysis: Analysis) -> None:
    space = small_space(device="cuda")
    assert space.device.type == "cuda" and space.units("test", torch.arange(3)).is_cuda
    result = analyze_space(space)
    assert result.notes == {}
    # Results and classes are on the CPU.
    assert result.gains is not None and not result.gains.gain.is_cuda
    assert not space.state.mu.is_cuda and not space.statistics.total.is_cuda
    for name in ("space", *QUESTIONS):
        expected, actual = (getattr(a, name).to_dict() for a in (small_analysis, result))
        alike(actual, expected, 1e-9, 1e-9, name)
    angular = Policy("angular")
    decisions = decide(space, [angular], torch.tensor([3, 50, 2]))
    for column in (decisions.prediction, decisions.nll, decisions.confidence):
        assert all(not a.is_cuda and len(a) == 3 for a in column.values())
    single, double = (
        decide(s, [angular]) for s in (small_space(torch.float32, device="cuda"), space)
    )
    torch.testing.assert_close(single.nll[angular].double(), double.nll[angular], rtol=0, atol=2e-4)


@pytest.mark.gpu
def test_splits_and_identities() -> None:
    identities = torch.arange(int(COUNTS.sum())) // 3 % 200
    options: dict[str, Any] = {"fitting_share": 0.8, "identities": identities}
    questions: dict[str, Callable[[FrozenSpace], Any]] = {
        "gradients": lambda s: compare_gradients(s, 50, gamma=1.0, seed=1),
        "inclusion": lambda s: self_inclusion(s, 60),
        "same": lambda s: same_state(s, 0.5, gamma=-1.0, per_class=2),
        "boundaries": lambda s: boundary_displacement(s, choose_pairs(s, 1, 1), beta=0.5),
        "margins": lambda s: margin_directions(s, choose_pairs(s, 1, 1), realization="angular"),
    }
    expected, results = (
        {name: ask(space).to_dict() for name, ask in questions.items()}
        for space in (
            small_space(estimator="banerjee", device=device, **options)
            for device in ("cpu", "cuda")
        )
    )
    assert results["inclusion"]["history"] is not None
    alike(results, expected, 1e-9, 1e-9)
