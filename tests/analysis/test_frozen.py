"""Frozen spaces, their decisions and recommendations, beside naive recomputation."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from frozen_data import (
    COUNTS,
    PER_CLASS,
    TAU,
    C,
    P,
    features,
    fitted,
    log_softmax,
    noisy_space,
    rows,
    scores,
)
from frozen_data import small_space as make_space
from resultant._core import chunks
from resultant.analysis import (
    QUESTIONS,
    FrozenSpace,
    Policy,
    analyze_space,
    decide,
    gain_distribution,
    load_space,
    realization_grid,
    recommend,
)
from resultant.analysis.decisions import grid_policies
from resultant.analysis.metrics import calibration_error, confidence_bins, paired_gain
from resultant.classes.groups import GROUPS, group_masks
from resultant.classes.rule import REALIZATIONS
from resultant.classes.statistics import MAX_KAPPA
from resultant.classifiers.calibration import expected_calibration_error
from resultant.features.store import FeatureStore, write_store


@pytest.fixture(scope="module")
def small() -> FrozenSpace:
    return make_space()


@pytest.fixture(scope="module")
def noisy() -> FrozenSpace:
    return noisy_space()


def same(a: object, b: object) -> None:
    assert json.dumps(a) == json.dumps(b)


# The space


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


def test_chunks_and_dtypes_do_not_matter(
    small: FrozenSpace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(chunks, "ROW_BYTES", 7 * 8 * P)
    again = make_space()
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
    policies = grid_policies()
    whole, pieces = decide(small, policies), decide(small, policies, chunk=50)
    for policy in policies:
        assert torch.equal(whole.prediction[policy], pieces.prediction[policy])
        torch.testing.assert_close(whole.nll[policy], pieces.nll[policy], rtol=1e-11, atol=1e-12)
    some = torch.tensor([3, 50, 2])
    part = decide(small, policies[:1], some)
    assert torch.equal(part.prediction[policies[0]], whole.prediction[policies[0]][some])


def test_split_by_identity() -> None:
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


def test_class_of_one_row_is_capped() -> None:
    x, y = features(torch.tensor([30, 30, 1]))
    space = FrozenSpace.fit(x, y, *features(torch.tensor([5, 5, 5]), seed=1))
    assert space.summary().single == (2,) and gain_distribution(space).capped == (2,)
    assert float(space.state.kappa[2]) == MAX_KAPPA
    analysis = analyze_space(space)
    assert analysis.self_inclusion is not None
    assert analysis.self_inclusion.classes.tolist() == [0, 1]


def test_refusals(small: FrozenSpace) -> None:
    x, y = features(torch.tensor([4, 4, 4]))
    q, w = features(torch.tensor([2, 2, 2]), seed=1)
    fit = FrozenSpace.fit
    with pytest.raises(ValueError, match=r"classes seen in training, got classes 3, 9 of 3"):
        fit(x, y, q, torch.tensor([0, 1, 9, 3, 3, 2]))
    with pytest.raises(ValueError, match=r"got none of 2: 1, 3 \(queries ask for 1\)"):
        fit(x, 2 * y, q, torch.tensor([0, 0, 1, 2, 2, 4]))
    with pytest.raises(ValueError, match=r"train and test of one dimension, got 12 and 3"):
        fit(x, y, q[:, :3], w)
    with pytest.raises(ValueError, match=r"expected labels \[12\]"):
        fit(x, y[:5], q, w)
    with pytest.raises(ValueError, match="a row or more in test, got none"):
        fit(x, y, q[:0], w[:0])
    with pytest.raises(ValueError, match=r"fitting_share in \(0, 1\), got 1.5"):
        fit(x, y, q, w, fitting_share=1.5)
    with pytest.raises(ValueError, match="tau > 0"):
        fit(x, y, q, w, tau=0.0)
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
    monkeypatch.setattr(chunks, "ROW_BYTES", 2 * 8 * P)
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
def test_rows_of_any_length(small: FrozenSpace, scale: float) -> None:
    x, y = features(COUNTS)
    other = FrozenSpace.fit(x.double() * scale, y, small.test, small.test_labels)
    torch.testing.assert_close(other.state.mu, small.state.mu, rtol=0, atol=1e-14)


# Decisions


def test_grid_against_definition(small: FrozenSpace) -> None:
    grid = realization_grid(small)
    y = small.test_labels.numpy()
    masks = {name: m.numpy() for name, m in group_masks(COUNTS).items()}
    for point in grid.points:
        s = scores(small, point.realization, point.beta, point.gamma, small.test[:])
        log_p = log_softmax(s)
        guess = s.argmax(1)
        right = guess == y
        assert point.accuracy == pytest.approx(right.mean())
        assert point.nll == pytest.approx(-log_p[np.arange(len(y)), y].mean(), rel=1e-9)
        per_class = np.array([right[y == c].mean() for c in range(C)])
        assert point.per_class is not None and point.groups is not None
        np.testing.assert_allclose(point.per_class.numpy(), per_class)
        assert point.balanced == pytest.approx(per_class.mean())
        for name in GROUPS:
            assert point.groups[name] == pytest.approx(per_class[masks[name]].mean())
        top, error = np.exp(log_p.max(1)), 0.0
        for k in range(15):
            inside = (np.floor(top * 15) == k) | ((k == 14) & (top == 1))
            if inside.any():
                error += inside.mean() * abs(right[inside].mean() - top[inside].mean())
        assert point.ece == pytest.approx(error, abs=1e-9)
        cosine = scores(small, "cosine", 0, point.gamma, small.test[:]).argmax(1)
        native = scores(small, "native", 1, point.gamma, small.test[:]).argmax(1)
        assert point.agreement == pytest.approx((guess == cosine).mean())
        assert point.change == pytest.approx(right.mean() - (native == y).mean())
    assert len(grid.points) == 3 * (2 + 3 * 4)
    assert grid.point("native", 0.3, 1.0) is grid.point("native", 1.0, 1.0)
    assert {p.accuracy for p in grid.points if p.gamma == 0 and p.beta == 1} == {
        grid.point("native").accuracy
    }
    assert len({p.accuracy for p in grid.points}) > 3, "the policies must differ on this space"


def test_undefined_temperatures(noisy: FrozenSpace) -> None:
    grid = realization_grid(noisy, (0.0, 1.5), (0.0,))
    for name in ("temperature", "preserve"):
        point = grid.point(name, 1.5)
        assert point.undefined == (3,) and point.accuracy is None
        assert grid.point(name, 0.0).undefined == ()
    assert grid.point("angular", 1.5).accuracy is not None
    assert point.to_dict()["undefined"] == [3]
    assert recommend(noisy).candidate in REALIZATIONS


def test_float32_is_close(small: FrozenSpace) -> None:
    policies = [Policy(name) for name in REALIZATIONS]
    wide, narrow = decide(small, policies), decide(make_space(torch.float32), policies)
    for policy in (p.canonical for p in policies):
        assert narrow.nll[policy].dtype == torch.float32
        torch.testing.assert_close(narrow.nll[policy].double(), wide.nll[policy], atol=2e-4, rtol=0)


def test_calibration_of_known_bins() -> None:
    confidence = torch.tensor([0.0, 0.05, 0.5, 0.52, 1.0, 1.0])
    right = torch.tensor([False, True, True, False, True, False])
    bins = confidence_bins(confidence, right)
    assert bins[0].tolist() == [2, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 2]
    expected = (2 * abs(0.5 - 0.025) + 2 * abs(0.5 - 0.51) + 2 * abs(0.5 - 1)) / 6
    assert calibration_error(*bins) == pytest.approx(expected)


def test_calibration_is_that_of_probabilities() -> None:
    """Also where bins meet: confidences of fifteenths, rounded and not."""
    confidence = (torch.arange(8, 16, dtype=torch.float64) / 15).repeat(2)
    confidence[8:] += 1e-3 * torch.linspace(-1, 0, 8)
    right = torch.arange(16) % 3 == 0
    p = torch.stack([confidence, 1 - confidence], 1)
    expected = expected_calibration_error(p, (~right).long())
    assert expected > 0.1
    assert calibration_error(*confidence_bins(confidence, right)) == pytest.approx(expected)


# Recommendation


def test_paired_gain_by_hand() -> None:
    before = torch.tensor([True] * 60 + [False] * 40)
    after = torch.tensor([True] * 55 + [False] * 5 + [True] * 14 + [False] * 26)
    found = paired_gain(before, after)
    assert (found.better, found.worse) == (14, 5)
    assert found.gain == pytest.approx(0.09)
    deviation = (after.double() - before.double()).std(correction=0) / 10
    assert found.high - found.gain == pytest.approx(1.959964 * float(deviation), rel=1e-6)
    tail = sum(math.comb(19, k) for k in range(6)) / 2**19
    assert found.p_value == pytest.approx(2 * tail)
    assert paired_gain(before, before).p_value == 1.0


def test_paired_intervals_end_where_differences_do() -> None:
    """Of eighteen queries, sixteen of them better and none worse."""
    wrong, right = torch.zeros(18, dtype=torch.bool), torch.arange(18) < 16
    found, turned = paired_gain(wrong, right), paired_gain(right, wrong)
    assert (found.gain, found.high) == (pytest.approx(16 / 18), 1.0)
    assert found.low == pytest.approx(16 / 18 - 1.959964 * math.sqrt(16 / 18 * 2 / 18 / 18))
    assert (turned.gain, turned.low, turned.high) == (-found.gain, -1.0, -found.low)


def test_recommendation(small: FrozenSpace) -> None:
    decisions = decide(small, grid_policies())
    found = recommend(small, decisions=decisions, seed=3)
    same(found.to_dict(), recommend(small, seed=3).to_dict())
    N = len(small.test)
    order = torch.randperm(N, generator=torch.Generator().manual_seed(3))
    choose, judge = order[: N // 2], order[N // 2 :]
    able = [p for p in decisions.prediction if p.gamma == 0]
    most = max(int(decisions.right(p)[choose].sum()) for p in able)
    best = Policy(found.candidate, found.candidate_beta)
    assert int(decisions.right(best)[choose].sum()) == most
    after, before = (decisions.right(p)[judge].double() for p in (best, Policy("native")))
    assert found.gain == pytest.approx(float((after - before).mean()))
    assert found.queries == len(judge)
    significant = found.p_value < 0.05 and found.gain > 0
    assert found.realization == (found.candidate if significant else "native")
    grid = realization_grid(small, decisions=decisions)
    assert found.accuracy_before == grid.point("native").accuracy
    assert found.nll_after == grid.point(*best).nll and found.ece_after == grid.point(*best).ece
    for effect in (*found.gained, *found.lost):
        per_class = grid.point(*best).per_class
        assert per_class is not None and effect.after == float(per_class[effect.index])
        assert effect.count == int(COUNTS[effect.index])
    assert all(e.after > e.before for e in found.gained)
    assert all(e.after < e.before for e in found.lost)


def test_recommendation_leaves_native_for_a_clear_gain() -> None:
    """Two classes of one geometry, but the head's queries are spread: its gain misleads native."""
    torch.manual_seed(0)
    p, n = 16, 400
    a, b = torch.eye(p)[0], torch.eye(p)[1]
    train = torch.cat([a + 0.02 * torch.randn(n, p), b + 0.5 * torch.randn(n, p)])
    test = torch.cat([a + 0.5 * torch.randn(n, p), b + 0.5 * torch.randn(n, p)])
    y = torch.arange(2).repeat_interleave(n)
    found = recommend(FrozenSpace.fit(train, y, test, y))
    assert found.realization != "native" and found.low > 0
    assert found.reason.startswith("Use ")
    assert found.accuracy_after > found.accuracy_before


# All of it


def test_analysis_is_json(small: FrozenSpace) -> None:
    seen: set[str] = set()
    analysis = analyze_space(small, progress=lambda name, share: seen.add(name))
    assert analysis.notes == {} and set(QUESTIONS) <= seen
    plain = json.loads(json.dumps(analysis.to_dict(), allow_nan=False))
    assert all(plain[name] is not None for name in QUESTIONS)
    assert plain["gains"]["gain"] == small.gain.tolist()
    assert plain["space"]["tau"] == TAU
    one = analyze_space(small, ["gains"])
    assert one.grid is None and one.gains is not None


def test_only_what_cannot_be_answered_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mistake of the code is no note."""

    def wrong(space: FrozenSpace) -> None:
        raise ValueError("a mistake")

    monkeypatch.setattr("resultant.analysis.run.gain_distribution", wrong)
    with pytest.raises(ValueError, match="a mistake"):
        analyze_space(make_space(), ["gains"])


def test_plane_has_notes() -> None:
    counts = torch.tensor([40, 30, 20])
    test = features(torch.tensor([6, 6, 6]), 2, seed=1)
    analysis = analyze_space(FrozenSpace.fit(*features(counts, 2), *test))
    assert analysis.notes is not None and set(analysis.notes) == {"fit"}
    assert "expected p >= 3" in analysis.notes["fit"]
    assert analysis.gradients is not None and analysis.gradients.joint_error is None
    json.dumps(analysis.to_dict(), allow_nan=False)


def test_gain_distribution(small: FrozenSpace) -> None:
    found = gain_distribution(small)
    g = found.gain.numpy()
    assert found.mean == pytest.approx(g.mean()) and found.spread == pytest.approx(
        g.std() / g.mean()
    )
    assert found.ratio == pytest.approx(g.max() / g.min())
    # Spearman's is Pearson's of the mean ranks.
    ranks = [[np.mean((a < v).sum() + (a <= v).sum()) for v in a] for a in (g, COUNTS.numpy())]
    assert found.rank_correlation == pytest.approx(np.corrcoef(ranks)[0, 1])
    assert found.groups["tail"] == pytest.approx(g[16:].mean())
