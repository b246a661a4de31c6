"""Settings chosen on rows that neither fit nor judge."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from frozen_data import COUNTS, PER_CLASS, C, features, log_softmax, scores, small_space
from resultant.analysis import FrozenSpace
from resultant.analysis.choice import (
    FOLDS,
    choose_settings,
    choosing_part,
    choosing_rows,
    foremost_features,
    metric_of,
    remaining_sums,
)
from resultant.classifiers.choice import MARGIN, Point, Search, choose, departures, simplified


def test_metric_follows_the_class_counts_of_the_held_out_rows(small: FrozenSpace) -> None:
    assert metric_of(small) == "balanced"
    alike = FrozenSpace.fit(*features(COUNTS), *features(COUNTS, seed=1))
    assert metric_of(alike) == "accuracy"


def test_rows_are_stratified_and_weighted(small: FrozenSpace) -> None:
    rows = choosing_rows(small, "balanced")
    assert rows.split == "train" and rows.folds is not None
    per_class = torch.zeros(C).double().index_add_(0, rows.labels, rows.weights)
    torch.testing.assert_close(per_class, torch.full((C,), 1 / C).double())
    for c in range(C):
        folds = rows.folds[small.labels == c].bincount(minlength=FOLDS)
        assert folds.max() - folds.min() <= 1
    plain = choosing_rows(small, "accuracy")
    shares = torch.zeros(C).double().index_add_(0, plain.labels, plain.weights)
    torch.testing.assert_close(shares, COUNTS / COUNTS.sum().double())


def test_thousands_of_classes_choose_with_few_rows(
    small: FrozenSpace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One row per class would be as many scores as the square of the classes."""
    monkeypatch.setattr("resultant.classifiers.left_out.CHOICE_ROWS", 2)
    monkeypatch.setattr("resultant.classifiers.left_out.CHOICE_CELLS", 0)
    rows = choosing_rows(small, "balanced")
    assert len(rows.index) == 4 < C
    torch.testing.assert_close(rows.weights, torch.full((4,), 0.25).double())
    assert (rows.labels == small.labels[rows.index]).all()


def test_rows_of_one_identity_share_a_fold() -> None:
    x, y = features(COUNTS)
    test = features(torch.full((C,), PER_CLASS), seed=1)
    identities = torch.arange(len(y)) // 2
    # Two rows of one identity have one class.
    y = y[identities * 2 - (identities * 2 >= len(y)).long()]
    y[:C] = torch.arange(C)[torch.arange(C) // 2 * 2]
    y[C : 3 * C] = torch.arange(C).repeat_interleave(2)
    space = FrozenSpace.fit(x, y, *test, identities=identities)
    folds = choosing_rows(space, "accuracy").folds
    assert folds is not None and (folds[0:-1:2] == folds[1::2]).all()


def test_folds_are_scored_by_the_other_folds(small: FrozenSpace) -> None:
    """Cosines, concentrations and scores equal those of a space that is fitted to other rows."""
    rows = choosing_rows(small, "accuracy")
    part = choosing_part(small, rows, remaining_sums(small, rows))
    search = Search(part, rows.weights)
    assert rows.folds is not None
    fold = 2
    kept, at = rows.folds != fold, (rows.fold == fold).nonzero().squeeze(1)
    other = FrozenSpace.fit(
        small.train[kept], small.labels[kept], small.test, small.test_labels, num_classes=C
    )
    z = small.train[rows.index[at]]
    for realization, beta in (("native", 1.0), ("preserve", 0.5), ("angular", 0.0)):
        (s,) = part.realized(0.1, [(realization, beta)])
        expected = torch.from_numpy(scores(other, realization, beta, 0.0, z))
        torch.testing.assert_close(s[at], expected, rtol=1e-9, atol=1e-9)
    choice = search.at(Point("native", 0.1, 1.0, 0.0))
    assert choice is not None
    (s,) = part.realized(0.1, [("native", 1.0)])
    own = log_softmax(choice.scale * s.numpy())[range(len(s)), rows.labels]
    assert choice.loss == pytest.approx(float(-(own * rows.weights.numpy()).sum()), rel=1e-9)


def test_val_chooses_where_there_is_one(small: FrozenSpace) -> None:
    val, labels = features(torch.full((C,), 5), seed=7)
    space = replace(small, val=val, val_labels=labels)
    rows = choosing_rows(space, "balanced")
    assert rows.split == "val" and len(rows.index) == 5 * C and rows.folds is None
    part = choosing_part(space, rows, remaining_sums(space, rows))
    expected = torch.nn.functional.normalize(val.double(), dim=1) @ space.state.mu.T
    torch.testing.assert_close(part.rho, expected[rows.index], rtol=1e-9, atol=1e-9)


def test_rows_that_are_not_fitted_choose() -> None:
    space = small_space(fitting_share=0.8)
    rows = choosing_rows(space, "accuracy")
    assert rows.split == "calibration" and space.fitting is not None
    assert not space.fitting[rows.index].any()


@pytest.mark.slow
def test_given_temperature_is_kept(small: FrozenSpace) -> None:
    rows = choosing_rows(small, "balanced")
    part = choosing_part(small, rows, remaining_sums(small, rows))
    choices, *_ = choose_settings(small, rows, part, temperature=0.07)
    assert {choice.point.temperature for choice in choices.values()} == {0.07}


@pytest.mark.slow
def test_choice_is_the_plainest_tie_with_the_best_of_a_fine_grid(small: FrozenSpace) -> None:
    """No point of a grid about the choice is better by more than the least improvement."""
    rows = choosing_rows(small, "balanced")
    search = Search(choosing_part(small, rows, remaining_sums(small, rows)), rows.weights)
    choices = choose(search)
    for name, choice in choices.items():
        p = choice.point
        for tau in (p.temperature / 2, p.temperature * 2):
            for prior in (p.prior - 0.5, p.prior, p.prior + 0.5):
                other = search.at(p._replace(temperature=tau, prior=prior))
                assert other is None or other.loss >= choice.loss * (1 - 0.02), name
    plain, advised, best = simplified(search, choices)
    assert best.loss == min(choice.loss for choice in choices.values())
    assert plain[advised.point.realization] is advised
    lost = best.hits - advised.hits
    error = (search.weights * (lost - lost @ search.weights)).square().sum().sqrt()
    assert best.accuracy - advised.accuracy <= max(MARGIN, 2 * float(error))
    for name, choice in plain.items():
        assert choice.point.realization == name
        assert departures(choice.point) <= departures(choices[name].point)


def test_training_rows_do_not_choose_a_projection() -> None:
    nearest = {"encoder": 0.5, "projection": 0.7, "other": 0.6}
    assert foremost_features(nearest, "train") == "other"
    assert foremost_features(nearest, "val") == "projection"
    assert foremost_features({"projection": 0.7}, "train") == "projection"
