"""Sums of a stream: any batches in any order, forgotten rows and merged parts against one fit."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from sklearn import base
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss

from classifiers.labelled import correlated, sample
from resultant import CosinePrototypeClassifier, Metric, VMFClassifier
from resultant.classifiers import sums

clone: Any = base.clone
X, Y = sample(80)
Q, _ = sample(40, seed=1)
W = np.random.default_rng(5).uniform(0.1, 2, len(Y))

CLASSIFIERS: list[Any] = [
    VMFClassifier(),
    VMFClassifier(prior=1.0, realization="native", estimator="corrected"),
    VMFClassifier(whiten="within", shrinkage=0.3),
    VMFClassifier(center=True, scale=2.0),
    CosinePrototypeClassifier(whiten="within", shrinkage=0.1),
]


def alike(ours: Any, theirs: Any, rows: np.ndarray) -> None:
    """Equal to rounding; the steps of the fit of a scale may end at another number of them."""
    assert ours.classes_.tolist() == theirs.classes_.tolist()
    ours_scale, theirs_scale = ours._scale(), theirs._scale()
    assert ours_scale == pytest.approx(theirs_scale, rel=1e-3)
    np.testing.assert_allclose(
        np.asarray(ours.decision_function(rows)) / ours_scale,
        np.asarray(theirs.decision_function(rows)) / theirs_scale,
        rtol=1e-7,
        atol=1e-9,
    )


def streamed(model: Any, X: Any, y: Any, order: Any, cuts: Any, w: Any = None) -> Any:
    stream = clone(model)
    for rows in np.split(order, sorted(cuts)):
        if len(rows):
            stream.partial_fit(X[rows], y[rows], sample_weight=None if w is None else w[rows])
    return stream


@pytest.mark.parametrize("model", CLASSIFIERS, ids=str)
@settings(deadline=None, max_examples=10)
@given(data=st.data())
def test_any_batches_in_any_order_are_one_fit(model: Any, data: st.DataObject) -> None:
    """Labels come when they come; labels are words, rows are repeated and weighted. Fewer rows than
    dimensions, or equal ones alone, have a metric of rounding."""
    rows = data.draw(st.sets(st.integers(0, 79), min_size=16, max_size=60))
    rows = np.array([*rows, *data.draw(st.lists(st.sampled_from(sorted(rows)), max_size=9))])
    cuts = data.draw(st.lists(st.integers(0, len(rows)), max_size=6))
    w = data.draw(st.sampled_from([None, W]))
    names = np.array(["cat", "dog", "elephant", "an"])[Y]
    whole = clone(model).fit(X[rows], names[rows], None if w is None else w[rows])
    order = np.array(data.draw(st.permutations(rows.tolist())))
    alike(streamed(model, X, names, order, cuts, w), whole, Q)


@pytest.mark.parametrize("model", CLASSIFIERS[:3], ids=str)
@settings(deadline=None, max_examples=10)
@given(data=st.data())
def test_order_free_when_few_rows_are_kept(model: Any, data: st.DataObject) -> None:
    """The kept rows, and all that follows, are the same for any order and size of batches."""
    cuts = data.draw(st.lists(st.integers(0, len(Y)), max_size=8))
    order = np.array(data.draw(st.permutations(range(len(Y)))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sums, "KEPT_NUMBERS", 5 * 4 * X.shape[1])
        first, other = (
            streamed(model, X, Y, rows, where)
            for rows, where in ((np.arange(80), []), (order, cuts))
        )
        first.partial_fit(X[:1], Y[:1])
        other.partial_fit(X[:1], Y[:1])
        assert torch.bincount(first._sums.kept.y).max() == 5
        assert torch.equal(first._sums.kept.key, other._sums.kept.key)
        alike(other, first, Q)


@pytest.mark.parametrize("whiten", [None, "within"])
@pytest.mark.parametrize("kept", [20, 60])
def test_a_long_stream_is_about_one_fit(
    whiten: Any, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond the kept rows, which are here a ninth and a third of all rows, whichever they are."""
    X, y = load_digits(return_X_y=True)
    monkeypatch.setattr(sums, "KEPT_NUMBERS", kept * 10 * 64)
    model = VMFClassifier(whiten=whiten, shrinkage=0.3)
    whole = clone(model).fit(X[::2], y[::2])
    expected, same = whole.predict(X[1::2]), []
    theirs = log_loss(y[1::2], whole.predict_proba(X[1::2]))
    for seed in (sums._SEED, 1, 2, 3, 4, 5):
        monkeypatch.setattr(sums, "_SEED", seed)
        order = np.argsort(y[::2], kind="stable")
        stream = streamed(model, X[::2], y[::2], order, range(0, 899, 90))
        same.append(np.mean(stream.predict(X[1::2]) == expected))
        assert abs(log_loss(y[1::2], stream.predict_proba(X[1::2])) - theirs) < 0.01
    assert np.mean(same) > 0.995


def test_the_metric_is_that_of_all_rows() -> None:
    """And not that of the first batch, of two rows."""
    X, y = correlated()
    whole = VMFClassifier(whiten="within", shrinkage=0.2).fit(X, y)
    stream = streamed(whole, X, y, np.arange(len(y)), [2])
    np.testing.assert_allclose(stream.metric_.variance, whole.metric_.variance, rtol=1e-9)
    assert stream.score(X, y) == whole.score(X, y)


def test_dtypes_and_zeros_of_a_row_do_not_change_its_hash() -> None:
    rows = torch.tensor([[1.5, -0.0, 2.0], [1.5, 0.0, 2.0], [1.5, 1e-30, 2.0]])
    key = sums.row_keys(rows)
    assert key[0] == key[1] != key[2] and (key >= 0).all()
    assert torch.equal(key, sums.row_keys(rows.double()))
    # Stored in files: the same everywhere, for ever.
    assert key[0] == 4949176698426132345


def test_hashes_are_uniform() -> None:
    rows = torch.from_numpy(np.random.default_rng(0).integers(0, 4, (20_000, 9))).float()
    key, distinct = sums.row_keys(rows).unique(), rows.unique(dim=0)
    assert len(key) == len(distinct)
    share = torch.histc((key.double() / 2**63), 10, 0, 1) / len(key)
    assert (share - 0.1).abs().max() < 0.01


def test_a_fixed_metric_is_kept(tmp_path: Path) -> None:
    metric = VMFClassifier(whiten="within", shrinkage=0.2).fit(X, Y).metric_
    assert isinstance(metric, Metric)
    whole = VMFClassifier(whiten=metric).fit(X, Y)
    half = VMFClassifier(whiten=metric).partial_fit(X[:30], Y[:30])
    half.save(tmp_path / "a.safetensors", rows=True)
    again = VMFClassifier.load(tmp_path / "a.safetensors")
    for one in (half, again):
        alike(one.partial_fit(X[30:], Y[30:]), whole, Q)


@pytest.mark.parametrize("model", CLASSIFIERS[:3], ids=str)
def test_a_stream_continues_from_a_file(model: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    half = clone(model).fit(X[:40], Y[:40])
    half.save(path, rows=True)
    alike(type(model).load(path).partial_fit(X[40:], Y[40:]), clone(model).fit(X, Y), Q)
    # Without the kept rows it is said that they are missing.
    half.save(path)
    bare = type(model).load(path)
    with pytest.raises(ValueError, match="expected a classifier with kept rows"):
        bare.save(path, rows=True)
    if model.whiten is not None:
        with pytest.raises(ValueError, match=r"with kept rows, .* save\(rows=True\)"):
            bare.partial_fit(X[40:], Y[40:])
        return
    with pytest.warns(
        UserWarning, match=r"the scale stays as it is; write it by save\(rows=True\)"
    ):
        bare.partial_fit(X[40:], Y[40:])
    assert bare.scale_ == half.scale_
    assert (bare.predict(Q) == clone(model).fit(X, Y).predict(Q)).all()


@pytest.mark.parametrize("model", CLASSIFIERS, ids=str)
@settings(deadline=None, max_examples=10)
@given(data=st.data())
def test_forgotten_rows_were_never_there(model: Any, data: st.DataObject) -> None:
    """Also copies of a row, in weights, and in two calls."""
    rest = np.array(sorted(data.draw(st.sets(st.integers(0, 79), min_size=16, max_size=60))))
    gone = np.array(data.draw(st.lists(st.integers(0, 79), min_size=1, max_size=30)))
    gone = gone[np.isin(Y[gone], Y[rest])]
    w = data.draw(st.sampled_from([None, W]))
    every = np.concatenate([rest, gone])

    def of(rows: Any) -> Any:
        return X[rows], Y[rows], None if w is None else w[rows]

    fitted = clone(model).fit(*of(every))
    for part in np.array_split(data.draw(st.permutations(gone.tolist())), 2):
        if len(part):
            fitted.forget(*of(np.asarray(part, int)))
    alike(fitted, clone(model).fit(*of(rest)), Q)


@pytest.mark.parametrize("model", CLASSIFIERS, ids=str)
@pytest.mark.parametrize("label", ["cat", "an"])
def test_a_dropped_class_was_never_there(model: Any, label: str) -> None:
    names = np.array(["cat", "dog", "elephant", "an"])[Y]
    others = names != label
    dropped = clone(model).fit(X, names).drop(label)
    alike(dropped, clone(model).fit(X[others], names[others]), Q)
    # And comes back.
    dropped.partial_fit(X[~others], names[~others])
    alike(dropped, clone(model).fit(X, names), Q)


@pytest.mark.parametrize("model", CLASSIFIERS, ids=str)
@settings(deadline=None, max_examples=10)
@given(owner=st.lists(st.integers(0, 2), min_size=80, max_size=80))
def test_merged_parts_are_one_fit(model: Any, owner: list[int]) -> None:
    """In either order, of parts with other classes; the parts themselves do not change."""
    part = np.where(Y == 3, 1, owner)
    owned = [clone(model).fit(X[part == k], Y[part == k]) for k in range(3) if (part == k).any()]
    before = [np.asarray(one.predict_proba(Q)) for one in owned[1:]]
    whole = clone(model).fit(X, Y)
    for one in owned[1:]:
        owned[0].merge(one)
    alike(owned[0], whole, Q)
    for one, p in zip(owned[1:], before, strict=True):
        np.testing.assert_array_equal(np.asarray(one.predict_proba(Q)), p)


def test_kept_rows_of_a_part_that_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the kept rows: sums are exact, the scale is near that of a refit."""
    monkeypatch.setattr(sums, "KEPT_NUMBERS", 30 * 10 * 64)
    X, y = load_digits(return_X_y=True)
    fitted = VMFClassifier().fit(X, y).forget(X[1200:], y[1200:])
    refit = VMFClassifier().fit(X[:1200], y[:1200])
    np.testing.assert_allclose(fitted.statistics_.total, refit.statistics_.total, atol=1e-10)
    assert fitted.scale_ == pytest.approx(refit.scale_, rel=0.1)
    assert (fitted.predict(X) == refit.predict(X)).all()
    whitened = VMFClassifier(whiten="within", shrinkage=0.3).fit(X, y)
    with pytest.raises(
        ValueError, match=r"know all rows of 3, got 30 kept rows of 183; use forget"
    ):
        whitened.drop(3)
    few = VMFClassifier(whiten="within", shrinkage=0.3).fit(X[:1200], y[:1200])
    whitened.forget(X[1200:], y[1200:])
    assert np.mean(whitened.predict(X) == few.predict(X)) > 0.99


WRONG: list[Any] = [
    (lambda c: c.forget(X[:1] + 1e-9, Y[:1]), r"were added, .* got row 0 of \d, which is another"),
    (lambda c: c.forget(X[[0, 1, 0]], Y[[0, 1, 0]]), "were added, with their weights, got row 0"),
    (lambda c: c.forget(X[:2], Y[:2], [1, 0.5]), "were added, with their weights, got row 1"),
    (lambda c: c.forget(X[:1], [7]), r"among the classes \[0, 1, 2, 3\], got 7"),
    (
        lambda c: c.forget(np.repeat(X[:1], 99, 0), np.repeat(Y[:1], 99)),
        r"got 99 rows of \d, which",
    ),
    (lambda c: c.forget(X, Y), "expected rows that remain, got none"),
    (lambda c: c.drop(9), r"a label among \[0, 1, 2, 3\], got 9"),
    (lambda c: VMFClassifier().fit(X, Y * 0).drop(0), "expected rows that remain, got none"),
    (lambda c: c.merge(X), "expected a fitted classifier, got ndarray"),
    (lambda c: c.merge(VMFClassifier().fit(X[:, 1:], Y)), r"expected sums of the kind of .*dim=6"),
    (
        lambda c: c.merge(VMFClassifier(whiten="within", shrinkage=0.2).fit(X, Y)),
        "expected sums of the kind of .* and whiten=None, got .*scatter",
    ),
    (lambda c: c.merge(VMFClassifier().fit(X, Y.astype(str))), "labels of the kind of 0, got '0'"),
]


@pytest.mark.parametrize(("call", "message"), WRONG)
def test_rows_that_were_never_added_are_refused(call: Any, message: str) -> None:
    fitted = VMFClassifier().fit(X, Y)
    before = np.asarray(fitted.predict_proba(Q))
    with pytest.raises((ValueError, AttributeError), match=message):
        call(fitted)
    np.testing.assert_array_equal(np.asarray(fitted.predict_proba(Q)), before)


def test_a_sum_longer_than_its_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The row itself would not have been kept."""
    monkeypatch.setattr(sums, "KEPT_NUMBERS", 1)
    one = np.eye(6)[:1] + 1e-3 * np.random.default_rng(0).normal(size=(9, 6))
    fitted: Any = VMFClassifier().fit(np.concatenate([one, X]), [9] * 9 + Y.tolist())
    other = -np.eye(6)[:1] * np.arange(1, 60)[:, None]
    limit = fitted._sums.kept.limit[-1]
    unkept = other[(sums.row_keys(torch.from_numpy(other)) >= limit).numpy()][:3]
    with pytest.raises(ValueError, match="got rows of 9 with another sum"):
        fitted.forget(unkept, [9] * len(unkept))
