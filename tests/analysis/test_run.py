"""All questions about one space."""

from __future__ import annotations

import json

import pytest
import torch

from frozen_data import TAU, features
from resultant.analysis import QUESTIONS, Analysis, FrozenSpace, analyze_space


@pytest.mark.slow
def test_all_questions_have_json_answers(small: FrozenSpace, small_analysis: Analysis) -> None:
    assert small_analysis.notes == {}
    plain = json.loads(json.dumps(small_analysis.to_dict(), allow_nan=False))
    assert all(plain[name] is not None for name in QUESTIONS)
    assert plain["gains"]["gain"] == small.gain.tolist()
    assert plain["space"]["tau"] == TAU
    steps: list[str] = []
    one = analyze_space(small, ["gains"], progress=steps.append)
    assert one.grid is None and one.gains is not None and steps == ["gains"]


@pytest.mark.slow
def test_questions_that_a_plane_cannot_answer_are_notes() -> None:
    counts = torch.tensor([40, 30, 20])
    test = features(torch.tensor([6, 6, 6]), 2, seed=1)
    analysis = analyze_space(FrozenSpace.fit(*features(counts, 2), *test))
    assert analysis.notes is not None and set(analysis.notes) == {"fit"}
    assert "expected p >= 3" in analysis.notes["fit"]
    assert analysis.gradients is not None and analysis.gradients.joint_error is None
    json.dumps(analysis.to_dict(), allow_nan=False)
