"""The fitted space: statistics, divisions of rows, all questions, also on a GPU; and refusals."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import resultant
from frozen_data import COUNTS, TAU, C, P, features, fitted, rows, small_space
from resultant import analysis
from resultant._core import memory
from resultant.analysis import FrozenSpace, Policy, analyze_space, decide
from resultant.analysis.data import Split, plan
from resultant.analysis.decisions import BETAS, GAMMAS, realization_grid
from resultant.analysis.finite_sample import support_curve
from resultant.analysis.fits import compare_fits
from resultant.analysis.methods import references
from resultant.analysis.metrics import UnansweredError, plain
from resultant.analysis.pairs import choose_pairs
from resultant.classes.groups import GROUPS
from resultant.classes.rule import REALIZATIONS
from resultant.classes.statistics import MAX_KAPPA
from resultant.features.store import FeatureStore, write_store
from small_features import alike, small_set


def test_state_is_that_of_unit_rows(small: FrozenSpace) -> None:
    """Their length does not matter."""
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
    arrays = {"train/x": small.train[:].half(), "train/labels": small.labels}
    arrays |= {"test/x": small.test[:].half(), "test/labels": small.test_labels}
    write_store(tmp_path / "f.safetensors", arrays)
    stored = analysis.load_space(FeatureStore.open(tmp_path / "f.safetensors"), "x")
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
    identities = torch.arange(int(COUNTS.sum())) // 2 % 300
    split = small_space(fitting_share=0.8, identities=identities)
    x, y, fitting = split.train, split.labels, split.fitting
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
    least = small_space(fitting_share=1e-6).fitting
    assert least is not None and torch.bincount(y[least]).eq(2).all()
    other, again = (small_space(fitting_share=0.8, seed=1).fitting for _ in "ab")
    assert other is not None and again is not None
    assert torch.equal(other, again) and not torch.equal(other, fitting)


@pytest.mark.slow
def test_questions_that_a_class_of_one_row_or_a_plane_cannot_answer() -> None:
    """One row has the largest kappa; questions about a plane without answer are notes."""
    x, y = features(torch.tensor([30, 30, 1]))
    space = FrozenSpace.fit(x, y, *features(torch.tensor([5, 5, 5]), seed=1))
    assert space.summary().single == (2,) and analysis.gain_distribution(space).capped == (2,)
    assert float(space.state.kappa[2]) == MAX_KAPPA
    included = analyze_space(space).self_inclusion
    assert included is not None and included.classes.tolist() == [0, 1]
    test = features(torch.tensor([6, 6, 6]), 2, seed=1)
    flat = analyze_space(FrozenSpace.fit(*features(torch.tensor([40, 30, 20]), 2), *test))
    assert flat.notes is not None and set(flat.notes) == {"fit"}
    assert "expected p >= 3" in flat.notes["fit"]
    assert flat.gradients is not None and flat.gradients.joint_error is None
    json.dumps(flat.to_dict(), allow_nan=False)


def test_classes_of_one_size_or_group_have_no_groups() -> None:
    """Two classes may both be head; ten classes are grouped by rank."""
    ten, two = ([12] * 10, [199, *[100] * 9], [200, *[100] * 9]), ([130, 300], [30, 300])
    for counts, names in zip((*ten, *two), ((), (), GROUPS, (), GROUPS), strict=True):
        eye = torch.eye(len(counts))
        y = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
        space = FrozenSpace.fit(eye[y] + 0.1, y, eye, y.unique())
        assert space.group_names == names and tuple(space.summary().groups) == names
        gains = analysis.gain_distribution(space)
        assert tuple(gains.groups) == names and (gains.group is None) == (not names)


@pytest.mark.slow
def test_all_questions_have_json_answers(
    small: FrozenSpace, small_analysis: analysis.Analysis
) -> None:
    assert small_analysis.notes == {}
    answers = json.loads(json.dumps(small_analysis.to_dict(), allow_nan=False))
    assert all(answers[name] is not None for name in analysis.QUESTIONS)
    assert answers["gains"]["gain"] == small.gain.tolist()
    assert answers["space"]["tau"] == TAU
    steps: list[str] = []
    one = analyze_space(small, ["gains"], progress=steps.append)
    assert one.grid is None and one.gains is not None and steps == ["gains"]
    values = {"a": (1, None), "b": torch.tensor([1.0, math.nan]), "c": math.inf}
    assert plain(values) == {"a": [1, None], "b": [1.0, None], "c": None}


@pytest.mark.gpu
def test_answers_on_a_gpu(
    small_analysis: analysis.Analysis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In several chunks: every question, and questions about splits with identities."""
    monkeypatch.setattr(memory, "DEVICE_BYTES", 1 << 16)
    space = small_space(device="cuda")
    assert space.device.type == "cuda" and space.units("test", torch.arange(3)).is_cuda
    result = analyze_space(space)
    assert result.notes == {}
    # Results and classes are on the CPU.
    assert result.gains is not None and not result.gains.gain.is_cuda
    assert not space.state.mu.is_cuda and not space.statistics.total.is_cuda
    for name in ("space", *analysis.QUESTIONS):
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
    identities = torch.arange(int(COUNTS.sum())) // 3 % 200
    options: dict[str, Any] = {"fitting_share": 0.8, "identities": identities}
    there: list[Any] = []
    for device in ("cpu", "cuda"):
        s = small_space(estimator="banerjee", device=device, **options)
        pairs = choose_pairs(s, 1, 1)
        answers = (
            analysis.compare_gradients(s, 50, gamma=1.0, seed=1),
            analysis.self_inclusion(s, 60),
            analysis.same_state(s, 0.5, gamma=-1.0, per_class=2),
            analysis.boundary_displacement(s, pairs, beta=0.5),
            analysis.margin_directions(s, pairs, realization="angular"),
        )
        there.append([answer.to_dict() for answer in answers])
    assert there[1][1]["history"] is not None
    alike(there[1], there[0], 1e-9, 1e-9)


X, Y = features(torch.tensor([4, 4, 4]))
Q, W = features(torch.tensor([2, 2, 2]), seed=1)
FIRST = torch.tensor([Y.tolist().index(c) for c in range(3)])
SET = small_set()
ONE = replace(SET, test=Split("test", SET.test.x[:1], SET.test.y[:1]))


def fit(x: Any = X, y: Any = Y, q: Any = Q, w: Any = W, **options: Any) -> FrozenSpace:
    return FrozenSpace.fit(x, y, q, w, **options)


REFUSED: dict[type[Exception], list[tuple[Callable[[], Any], str]]] = {
    ValueError: [
        (lambda: fit(w=torch.tensor([0, 1, 9, 3, 3, 2])), "classes seen .*, got classes 3, 9 of 3"),
        (lambda: fit(y=2 * Y, w=W + (W > 1)), r"got none of 2: 1, 3 \(queries ask for 1, 3\)"),
        (lambda: fit(q=Q[:, :3]), "train and test of one dimension, got 12 and 3"),
        (lambda: fit(y=Y[:5]), r"expected labels \[12\]"),
        (lambda: fit(q=Q[:0], w=W[:0]), "a row or more in test, got none"),
        (lambda: fit(q=Q[0]), r"expected test \[N, p\] of a floating dtype, got shape"),
        (lambda: fit(w=W[:, None]), r"expected test_labels \[N\], one per row, got shape"),
        (lambda: fit(dtype=torch.float16), "torch.float64, got torch.float16"),
        (lambda: fit(fitting_share=0.5, identities=Y[:3]), r"identities \[12\], got shape \(3,\)"),
        (lambda: fit(fitting_share=1.5), r"fitting_share in \(0, 1\), got 1.5"),
        (lambda: fit(tau=0.0), "tau > 0"),
        (lambda: fit(device="gpu"), "expected a device to compute on, got 'gpu'"),
        (lambda: analyze_space(fit(), ["gain"]), "expected questions among gains"),
        (lambda: support_curve(fit(), (1, 2)), "expected sizes >= 2 and draws >= 1, got"),
        (lambda: support_curve(fit(), ()), "expected sizes >= 2 and draws >= 1, got"),
        (lambda: support_curve(fit(), (2,), draws=0), "expected sizes >= 2 and draws >= 1, got"),
        (lambda: list(references(SET, plan(SET), "some")), "references among"),
        (lambda: resultant.analyze(np.eye(3), None), "expected labels y"),
        (lambda: resultant.analyze(np.eye(3), [0, 1]), "features .N, p. and labels"),
        (lambda: resultant.analyze("a.npz", [0, 1]), "expected a path alone"),
    ],
    UnansweredError: [
        (lambda: plan(ONE), "two test rows"),
        (lambda: compare_fits(fit(q=Q[:1], w=W[:1])), "two held-out rows of some class, got none"),
        (lambda: analysis.self_inclusion(fit(X[FIRST], Y[FIRST])), "two fitting rows or more"),
        (lambda: support_curve(fit(), (5, 3)), "expected two classes of 6 training rows or more"),
    ],
    KeyError: [
        (lambda: realization_grid(fit(), (0,), (0,)).point("angular", 2), "'angular' at beta = 2")
    ],
    TypeError: [(lambda: plain({1}), "expected a result of numbers, names and arrays, got set")],
}


@pytest.mark.parametrize(
    ("kind", "call", "message"), [(kind, *row) for kind, rows in REFUSED.items() for row in rows]
)
def test_refused(kind: type[Exception], call: Callable[[], Any], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["train", "test"])
def test_rows_without_direction_are_refused(
    name: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the fit, whatever the column: none is the first row of a piece."""
    monkeypatch.setattr(memory, "ROW_BYTES", 2 * 8 * P)
    clean = {"train": X.to(dtype), "test": Q.to(dtype)}
    fit(clean["train"], q=clean["test"])
    for at, value in (((3, 0), math.nan), ((3, 5), math.inf), ((3, 5), -math.inf), ((3,), 0.0)):
        bad = clean[name].clone()
        bad[at] = value
        both = clean | {name: bad}
        what = "a zero vector" if value == 0 else str(value)
        message = f"expected {name} finite and not zero, got {what} in row 3$"
        with pytest.raises(ValueError, match=message):
            fit(both["train"], q=both["test"])
