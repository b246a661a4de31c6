"""All questions about one space: in chunks, in JSON and on a GPU."""

import json
import math
from itertools import product
from typing import Any

import pytest
import torch

from frozen_data import COUNTS, TAU, C, features, small_space
from resultant._core import memory
from resultant.analysis.metrics import plain
from resultant.classes.rule import REALIZATIONS
from resultant_reproduction.frozen.boundaries import boundary_displacement, choose_pairs
from resultant_reproduction.frozen.decisions import BETAS, GAMMAS, Policy, compare_gradients, decide
from resultant_reproduction.frozen.finite_sample import self_inclusion
from resultant_reproduction.frozen.pairs import margin_directions
from resultant_reproduction.frozen.questions import QUESTIONS, Analysis, analyze_space
from resultant_reproduction.frozen.same_state import same_state
from resultant_reproduction.frozen.space import FrozenSpace
from small_features import alike


@pytest.fixture(scope="session")
def small_analysis(small: FrozenSpace) -> Analysis:
    """All questions about the small space."""
    return analyze_space(small)


@pytest.mark.slow
def test_decisions_do_not_depend_on_chunks(
    small: FrozenSpace, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = product(REALIZATIONS, BETAS, GAMMAS)
    policies = list(dict.fromkeys(Policy(*point).canonical for point in points))
    assert len(policies) == 42
    whole = decide(small, policies)
    monkeypatch.setattr(memory, "MATRIX_BYTES", 50 * 4 * C)
    pieces = decide(small, policies)
    for policy in policies:
        assert torch.equal(whole.prediction[policy], pieces.prediction[policy])
        torch.testing.assert_close(whole.nll[policy], pieces.nll[policy], rtol=1e-11, atol=1e-12)
    some = torch.tensor([3, 50, 2])
    part = decide(small, policies[:1], some)
    assert torch.equal(part.prediction[policies[0]], whole.prediction[policies[0]][some])


@pytest.mark.slow
def test_questions_that_a_class_of_one_row_or_a_plane_cannot_answer() -> None:
    """One row has the largest kappa; questions about a plane without answer are notes."""
    x, y = features(torch.tensor([30, 30, 1]))
    space = FrozenSpace.fit(x, y, *features(torch.tensor([5, 5, 5]), seed=1))
    assert space.summary().single == (2,) and space.gains().capped == (2,)
    assert float(space.state.kappa[2]) == pytest.approx((x.shape[1] - 1) * 2.0**45, rel=1e-3)
    included = analyze_space(space).self_inclusion
    assert included is not None and included.classes.tolist() == [0, 1]
    test = features(torch.tensor([6, 6, 6]), 2, seed=1)
    flat = analyze_space(FrozenSpace.fit(*features(torch.tensor([40, 30, 20]), 2), *test))
    assert flat.notes is not None and set(flat.notes) == {"fit"}
    assert "expected p >= 3" in flat.notes["fit"]
    assert flat.gradients is not None and flat.gradients.joint_error is None
    json.dumps(flat.to_dict(), allow_nan=False)


@pytest.mark.slow
def test_all_questions_have_json_answers(small: FrozenSpace, small_analysis: Analysis) -> None:
    assert small_analysis.notes == {}
    answers = json.loads(json.dumps(small_analysis.to_dict(), allow_nan=False))
    assert all(answers[name] is not None for name in QUESTIONS)
    assert answers["gains"]["gain"] == small.gain.tolist()
    assert answers["space"]["tau"] == TAU
    one = analyze_space(small, ["gains"])
    assert one.grid is None and one.gains is not None
    values = {"a": (1, None), "b": torch.tensor([1.0, math.nan]), "c": math.inf}
    assert plain(values) == {"a": [1, None], "b": [1.0, None], "c": None}


@pytest.mark.gpu
def test_answers_on_a_gpu(small_analysis: Analysis, monkeypatch: pytest.MonkeyPatch) -> None:
    """In several chunks: every question, and questions about splits with identities."""
    monkeypatch.setattr(memory, "DEVICE_BYTES", 1 << 16)
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
    for column in (decisions.prediction, decisions.nll):
        assert all(not a.is_cuda and len(a) == 3 for a in column.values())
    single, double = (
        decide(s, [angular]) for s in (small_space(torch.float32, device="cuda"), space)
    )
    torch.testing.assert_close(single.nll[angular].double(), double.nll[angular], rtol=0, atol=2e-4)
    identities = torch.arange(int(COUNTS.sum())) // 3 % 200
    options: dict[str, Any] = {"fitting_share": 0.8, "identities": identities}
    there: list[Any] = []
    for device in ("cpu", "cuda"):
        s = small_space(estimator="banerjee", device=device, **options)
        pairs = choose_pairs(s, 1, 1)
        answers = (
            compare_gradients(s, 50, seed=1),
            self_inclusion(s, 60),
            same_state(s, 0.5, gamma=-1.0, per_class=2),
            boundary_displacement(s, pairs, beta=0.5),
            margin_directions(s, pairs),
        )
        there.append([answer.to_dict() for answer in answers])
    assert there[1][1]["history"] is not None
    alike(there[1], there[0], 1e-9, 1e-9)
