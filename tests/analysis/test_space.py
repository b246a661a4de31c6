"""The fitted space: statistics, divisions of rows, checks of arguments, all questions."""

from __future__ import annotations

import json
import math
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from frozen_data import COUNTS, PER_CLASS, TAU, C, P, features, fitted, rows, small_space
from resultant._core import memory
from resultant.analysis import (
    QUESTIONS,
    Analysis,
    FrozenSpace,
    Policy,
    analyze_space,
    decide,
    gain_distribution,
    load_space,
    realization_grid,
)
from resultant.analysis.decisions import BETAS, GAMMAS
from resultant.classes.groups import GROUPS
from resultant.classes.rule import REALIZATIONS
from resultant.classes.statistics import MAX_KAPPA
from resultant.features.store import FeatureStore, write_store


def test_state_is_that_of_unit_rows(small: FrozenSpace) -> None:
    x, y = rows(small.train[:]), small.labels.numpy()
    for c in (0, 9, C - 1):
        mu, kappa = fitted(x[y == c])
        np.testing.assert_allclose(small.state.mu[c].numpy(), mu, atol=1e-13)
        assert float(small.state.kappa[c]) == pytest.approx(kappa, rel=1e-8)
    assert torch.equal(small.counts, COUNTS)
    assert small.summary().groups == {"head": 8, "medium": 8, "tail": 8}
    prior = COUNTS.double() / COUNTS.sum()
    torch.testing.assert_close(small.log_prior, prior.log())


@pytest.mark.slow
def test_fit_and_decisions_do_not_depend_on_chunks(
    small: FrozenSpace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(memory, "ROW_BYTES", 7 * 8 * P)
    again = small_space()
    torch.testing.assert_close(again.state.kappa, small.state.kappa, rtol=1e-11, atol=0)
    arrays = {
        "train/x": small.train[:].half(),
        "train/labels": small.labels,
        "test/x": small.test[:].half(),
        "test/labels": small.test_labels,
    }
    write_store(tmp_path / "f.safetensors", arrays)
    stored = load_space(FeatureStore.open(tmp_path / "f.safetensors"), "x")
    assert stored.name == "x" and stored.train[:].dtype == torch.float16
    torch.testing.assert_close(stored.state.kappa, small.state.kappa, rtol=3e-3, atol=0)
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


def test_rows_of_one_identity_stay_together() -> None:
    x, y = features(COUNTS)
    test = features(torch.full((C,), PER_CLASS), seed=1)
    identities = torch.arange(len(y)) // 2 % 300
    split = FrozenSpace.fit(x, y, *test, fitting_share=0.8, identities=identities)
    fitting = split.fitting
    assert fitting is not None and split.calibration is not None
    assert len(split.calibration) == int((~fitting).sum()) == split.summary().calibration
    for c in range(C):
        names = identities[y == c]
        inside = set(names[fitting[y == c]].tolist())
        assert not inside & set(names[~fitting[y == c]].tolist())
        assert len(inside) == math.ceil(0.8 * len(names.unique()))
    _, kappa = fitted(rows(x[fitting & (y == 2)]))
    assert float(split.state.kappa[2]) == pytest.approx(kappa, rel=1e-8)
    assert torch.equal(split.counts, COUNTS), "the prior is that of all training rows"
    # Of one row a class would have a resultant of one.
    least = FrozenSpace.fit(x, y, *test, fitting_share=1e-6).fitting
    assert least is not None and torch.bincount(y[least]).eq(2).all()
    other = FrozenSpace.fit(x, y, *test, fitting_share=0.8, seed=1).fitting
    again = FrozenSpace.fit(x, y, *test, fitting_share=0.8, seed=1).fitting
    assert other is not None and again is not None
    assert torch.equal(other, again) and not torch.equal(other, fitting)


@pytest.mark.slow
def test_class_of_one_row_has_the_largest_kappa() -> None:
    x, y = features(torch.tensor([30, 30, 1]))
    space = FrozenSpace.fit(x, y, *features(torch.tensor([5, 5, 5]), seed=1))
    assert space.summary().single == (2,) and gain_distribution(space).capped == (2,)
    assert float(space.state.kappa[2]) == MAX_KAPPA
    analysis = analyze_space(space)
    assert analysis.self_inclusion is not None
    assert analysis.self_inclusion.classes.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("counts", "names"),
    [
        ([12] * 10, ()),
        ([130, 300], ()),  # both are head
        ([30, 300], GROUPS),
        ([199, *[100] * 9], ()),  # ten classes are grouped by rank
        ([200, *[100] * 9], GROUPS),
    ],
)
def test_classes_of_one_size_or_group_have_no_groups(
    counts: list[int], names: tuple[str, ...]
) -> None:
    y = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    space = FrozenSpace.fit(torch.eye(len(counts))[y] + 0.1, y, torch.eye(len(counts)), y.unique())
    assert space.group_names == names and tuple(space.summary().groups) == names
    gains = gain_distribution(space)
    assert tuple(gains.groups) == names and (gains.group is None) == (not names)


X, Y = features(torch.tensor([4, 4, 4]))
Q, W = features(torch.tensor([2, 2, 2]), seed=1)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((X, Y, Q, torch.tensor([0, 1, 9, 3, 3, 2])), {}, "classes seen .*, got classes 3, 9 of 3"),
        ((X, 2 * Y, Q, W + (W > 1)), {}, r"got none of 2: 1, 3 \(queries ask for 1, 3\)"),
        ((X, Y, Q[:, :3], W), {}, "train and test of one dimension, got 12 and 3"),
        ((X, Y[:5], Q, W), {}, r"expected labels \[12\]"),
        ((X, Y, Q[:0], W[:0]), {}, "a row or more in test, got none"),
        ((X, Y, Q[0], W), {}, r"expected test \[N, p\] of a floating dtype, got shape"),
        ((X, Y, Q, W[:, None]), {}, r"expected test_labels \[N\], one per row, got shape"),
        ((X, Y, Q, W), {"dtype": torch.float16}, "torch.float64, got torch.float16"),
        (
            (X, Y, Q, W),
            {"fitting_share": 0.5, "identities": torch.arange(3)},
            r"expected identities \[12\], got shape \(3,\)",
        ),
        ((X, Y, Q, W), {"fitting_share": 1.5}, r"fitting_share in \(0, 1\), got 1.5"),
        ((X, Y, Q, W), {"tau": 0.0}, "tau > 0"),
        ((X, Y, Q, W), {"device": "gpu"}, "expected a device to compute on, got 'gpu'"),
    ],
)
def test_arguments_are_checked(arguments: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FrozenSpace.fit(*arguments, **options)


def test_questions_are_checked(small: FrozenSpace) -> None:
    with pytest.raises(ValueError, match="expected questions among gains"):
        analyze_space(small, ["gain"])
    with pytest.raises(KeyError, match="got 'angular' at beta = 2"):
        realization_grid(small, (0.0,), (0.0,)).point("angular", 2.0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["train", "test"])
def test_rows_without_direction_are_refused(
    name: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the fit, whatever the column: none is the first row of a piece."""
    monkeypatch.setattr(memory, "ROW_BYTES", 2 * 8 * P)
    arrays = {"train": features(torch.tensor([4, 4, 4])), "test": features(torch.full((3,), 2))}
    clean = {key: (x.to(dtype), y) for key, (x, y) in arrays.items()}
    FrozenSpace.fit(*clean["train"], *clean["test"])
    bad, y = clean[name]
    for at, value in (((3, 0), math.nan), ((3, 5), math.inf), ((3, 5), -math.inf), ((3,), 0.0)):
        x = bad.clone()
        x[at] = value
        what = "a zero vector" if value == 0 else str(value)
        with pytest.raises(
            ValueError, match=f"expected {name} finite and not zero, got {what} in row 3$"
        ):
            FrozenSpace.fit(*(clean | {name: (x, y)})["train"], *(clean | {name: (x, y)})["test"])


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_length_of_rows_does_not_matter(small: FrozenSpace, scale: float) -> None:
    x, y = features(COUNTS)
    other = FrozenSpace.fit(x.double() * scale, y, small.test, small.test_labels)
    torch.testing.assert_close(other.state.mu, small.state.mu, rtol=0, atol=1e-14)


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
