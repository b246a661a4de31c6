"""The fitted space: statistics, divisions of rows, refusals; and all questions about one, in
chunks, in JSON and on a GPU."""

import json
import math
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from frozen_data import COUNTS, TAU, C, P, features, fitted, rows, small_space, unbiased_length
from resultant._core import memory
from resultant.analysis.metrics import plain
from resultant.classes.groups import GROUPS
from resultant.classes.rule import REALIZATIONS
from resultant.features.store import FeatureStore, write_store
from resultant.vmf.estimators import concentration, mean_resultant
from resultant_reproduction.frozen.boundaries import boundary_displacement, choose_pairs
from resultant_reproduction.frozen.decisions import BETAS, GAMMAS, Policy, compare_gradients, decide
from resultant_reproduction.frozen.finite_sample import self_inclusion
from resultant_reproduction.frozen.pairs import margin_directions
from resultant_reproduction.frozen.questions import QUESTIONS, Analysis, analyze_space
from resultant_reproduction.frozen.same_state import same_state
from resultant_reproduction.frozen.space import FrozenSpace, load_space
from small_features import alike


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


def test_gains_against_definition(small: FrozenSpace) -> None:
    result = small.gains()
    g = result.gain.numpy()
    assert result.mean == pytest.approx(g.mean())
    assert result.spread == pytest.approx(g.std() / g.mean())
    assert result.ratio == pytest.approx(g.max() / g.min())
    ranks: Any = spearmanr(g, COUNTS)
    assert result.rank_correlation == pytest.approx(ranks.statistic)
    assert result.groups["tail"] == pytest.approx(g[16:].mean())
    x, y = small.test[:1], torch.zeros(1, dtype=torch.int64)
    alone = FrozenSpace.fit(x, y, x, y).gains()
    assert alone.uncorrected == (0,) and alone.corrected_spread is None


@pytest.mark.parametrize(("estimator", "share"), [("mle", None), ("proco", None), ("mle", 0.5)])
def test_corrected_gains_against_definition(estimator: str, share: float | None) -> None:
    """U is the mean cosine of two different fitted rows; a class of one row has none."""
    counts = torch.tensor([40, 12, 5, 2, 1, 7, 1])
    (x, y), test = features(counts), features(torch.full((7,), 2), seed=1)
    # Two rows that point apart have a negative U.
    x[y == 3] = torch.stack([x[y == 3][0], -x[y == 3][0] + 0.1])
    space = FrozenSpace.fit(x, y, *test, estimator=estimator, fitting_share=share)
    result, A = space.gains(), np.full(7, np.nan)
    if space.fitting is not None:
        x, y = x[space.fitting], y[space.fitting]
    for c in counts.gt(1).nonzero()[:, 0].tolist():
        A[c], _ = unbiased_length(rows(x[y == c]))
        assert (A[c] == 0) == (c == 3)
    if estimator == "proco":
        A = mean_resultant(P, concentration(P, torch.as_tensor(A).nan_to_num(), "proco")).numpy()
        A[[4, 6]] = np.nan
    g = A / TAU
    np.testing.assert_allclose(result.corrected_gain.numpy(), g, rtol=1e-9, atol=1e-9)
    known = g[~np.isnan(g)]
    assert result.uncorrected == (4, 6)
    assert result.corrected_spread == pytest.approx(known.std() / known.mean())
    ranks: Any = spearmanr(known, counts[counts > 1])
    assert result.corrected_rank_correlation == pytest.approx(ranks.statistic)


@pytest.mark.slow
def test_fit_does_not_depend_on_chunks(
    small: FrozenSpace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(memory, "ROW_BYTES", 7 * 8 * P)
    again = small_space()
    torch.testing.assert_close(again.state.kappa, small.state.kappa, rtol=1e-11, atol=0)
    arrays = {"train/x": small.train[:].half(), "train/labels": small.labels}
    arrays |= {"test/x": small.test[:].half(), "test/labels": small.test_labels}
    write_store(tmp_path / "f.safetensors", arrays)
    stored = load_space(FeatureStore.open(tmp_path / "f.safetensors"), "x")
    assert stored.name == "x" and stored.train[:].dtype == torch.float16
    torch.testing.assert_close(stored.state.kappa, small.state.kappa, rtol=3e-3, atol=0)


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


def test_classes_of_one_size_or_group_have_no_groups() -> None:
    """Two classes may both be head; ten classes are grouped by rank."""
    ten, two = ([12] * 10, [199, *[100] * 9], [200, *[100] * 9]), ([130, 300], [30, 300])
    for counts, names in zip((*ten, *two), ((), (), GROUPS, (), GROUPS), strict=True):
        eye = torch.eye(len(counts))
        y = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
        space = FrozenSpace.fit(eye[y] + 0.1, y, eye, y.unique())
        assert space.group_names == names and tuple(space.summary().groups) == names
        gains = space.gains()
        assert tuple(gains.groups) == names and (gains.group is None) == (not names)


X, Y = features(torch.tensor([4, 4, 4]))
Q, W = features(torch.tensor([2, 2, 2]), seed=1)


def fit(x: Any = X, y: Any = Y, q: Any = Q, w: Any = W, **options: Any) -> FrozenSpace:
    return FrozenSpace.fit(x, y, q, w, **options)


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: fit(w=torch.tensor([0, 1, 9, 3, 3, 2])), "classes seen .*, got classes 3, 9 of 3"),
    (lambda: fit(y=2 * Y, w=W + (W > 1)), r"got none of 2: 1, 3 \(queries ask for 1, 3\)"),
    (lambda: fit(q=Q[:, :3]), "train and test of one dimension, got 12 and 3"),
    (lambda: fit(y=Y[:5]), r"expected labels \[12\]"),
    (lambda: fit(device="gpu"), "expected a device to compute on, got 'gpu'"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_refused(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
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
