"""Arguments that classes, rules and gains refuse, and the fact that each error states."""

# pyright: reportArgumentType=false
# Bad input is passed on purpose.

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from class_samples import axis, fitted, sample
from resultant import (
    Rule,
    class_scores,
    expected_square_resultant,
    held_out_state,
    leave_one_out_scores,
    self_inclusion,
    target_gain,
    target_temperature,
    unbiased_square_resultant,
)
from resultant.classes.groups import group_masks, shot_groups
from small_classes import TAU, C, classes, queries

STATE = classes()
Z = queries(STATE)
X, Y = sample(20)
SUMS = fitted(X, Y)
FLAT = classes(torch.tensor([0.0] * 7 + [5.0], dtype=torch.float64))


@pytest.mark.parametrize(
    ("call", "fact"),
    [
        (lambda: Rule(TAU, "cold"), r"realization to be one of \('native', .* got 'cold'"),
        (lambda: Rule(TAU, beta=math.nan), "beta to be a finite number, got nan"),
        (lambda: Rule(TAU, beta="1"), "beta to be a finite number, got '1'"),
        (lambda: Rule(TAU, beta=True), "beta to be a finite number, got True"),
        (lambda: Rule(TAU, family="cubic"), r"family to be one of .* got 'cubic'"),
        (lambda: class_scores(Z, STATE, TAU, chunk=0), "chunk .* integer >= 1 or None, got 0"),
        (lambda: class_scores(Z, STATE, TAU, offset=1.0), r"offset \[6\], .* got float"),
        (lambda: class_scores(Z, STATE, TAU, offset=torch.ones(2)), r"offset \[6\], .* \(2,\)"),
        (lambda: class_scores(Z, STATE, TAU, offset=torch.ones(C).long()), "a floating dtype"),
        (lambda: class_scores(Z, STATE, TAU, offset=torch.ones(C).to("meta")), "offset on meta"),
        (lambda: class_scores(Z, STATE, TAU, offset=torch.ones(C) * math.inf), "inf at index 0"),
        (lambda: class_scores(Z, STATE, TAU, offset=torch.ones(C) * math.nan), "nan at index 0"),
        (lambda: class_scores(Z, STATE, 0.0), "tau > 0 and finite, got 0"),
        (lambda: class_scores(Z, STATE, torch.ones(2)), r"a number or \[6\], got shape \(2,\)"),
        (lambda: class_scores(Z, STATE, "0.1"), "tau to be a tensor or number, got str"),
        (lambda: class_scores(Z[:, :3], STATE, TAU), r"z \[N, 64\], got shape \(7, 3\)"),
        (lambda: class_scores(2 * Z, STATE, TAU), r"\|z\| - 1 within .* got 1 at index 0"),
        (lambda: class_scores(Z.to("meta"), STATE, TAU), "z on cpu, got z on meta"),
        (lambda: class_scores(Z, FLAT, TAU, "preserve"), r"A > 0 .*7 of 8 .*class 4 \(0\), \."),
        (lambda: class_scores(Z, FLAT, TAU, "temperature", family="power"), "7 of 8"),
        (lambda: target_temperature(classes(torch.zeros(3).double()), TAU), "gains > 0"),
        (lambda: target_gain(-torch.ones(3), 0.5), "g >= 0 and finite, got -1 at index 0"),
        (lambda: target_gain(torch.zeros(3), -0.5, "power"), r"> 0 .*\(a negative power\), got 0"),
        (lambda: target_gain(torch.ones(()), 0.5), r"g \[C\] of one class or more, .* \(\)"),
        (lambda: target_gain(1.0, 0.5), r"g \[C\] of one class or more, got float"),
        (lambda: shot_groups([1, 2]), r"counts \[C\], got list"),
        (lambda: shot_groups(torch.ones(2, 2)), r"counts \[C\], got shape \(2, 2\)"),
        (lambda: shot_groups(torch.tensor([3, -1])), "counts >= 0 and finite, got -1 at index 1"),
        (lambda: group_masks(torch.ones(3)), r"counts \[C\] of integers, got shape"),
        (lambda: group_masks(torch.ones(0).long()), r"counts \[C\] of integers, got shape"),
        (lambda: group_masks([3, -2]), "counts >= 0 and finite, got -2 at index 1"),
        (lambda: unbiased_square_resultant(0.5, torch.tensor([2, 1])), "n >= 2 .* 1 at index 1"),
        (lambda: expected_square_resultant(0.5, 0), "n >= 1 and finite, got 0"),
        (lambda: self_inclusion(1.5, 0.1, 3), r"A between 0 and 1, got 1\.5"),
        (lambda: unbiased_square_resultant(-0.5, 3), r"R between 0 and 1, got -0\.5"),
        (lambda: self_inclusion(0.5, 0.0, 3), "tau > 0 and finite, got 0"),
        (
            lambda: leave_one_out_scores(X, Y, SUMS, 0.1, weights=torch.ones(30)),
            r"weights \[20\] on cpu, got \(30,\)",
        ),
        (lambda: leave_one_out_scores(X, Y, SUMS, torch.ones(2)), r"a number or \[5\], got shape"),
        (lambda: leave_one_out_scores(X, Y, SUMS, 0.0), "tau > 0 and finite, got 0"),
        (
            lambda: held_out_state(SUMS, axis()[None], torch.tensor([5])),
            r"y in \[0, 5\), got 5 at index 0",
        ),
    ],
)
def test_refused(call: Callable[[], object], fact: str) -> None:
    with pytest.raises(ValueError, match=f"expected .*{fact}"):
        call()
