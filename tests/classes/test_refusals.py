"""Arguments that classes, rules and gains refuse, and the fact that each error states."""

# pyright: reportArgumentType=false
# Bad input is passed on purpose.

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

import resultant as rs
from class_samples import C as FIVE, P, changed, fitted, sample, unit
from resultant.classes.groups import group_masks, shot_groups
from resultant.classes.statistics import FORMAT
from small_classes import TAU, C, classes, queries

STATE = classes()
Z = queries(STATE)
X, Y = sample(20)
SUMS, EMPTY = fitted(X, Y), rs.ClassStatistics(FIVE, P)
SCATTER = rs.ClassStatistics(FIVE, P, scatter=True)
MU, KAPPA, COUNT = unit(FIVE, P), torch.ones(FIVE).double(), torch.ones(FIVE).long()
FLAT = classes(torch.tensor([0.0] * 7 + [5.0], dtype=torch.float64))


@pytest.mark.parametrize(
    ("call", "fact"),
    [
        (lambda: rs.Rule(TAU, "cold"), r"realization to be one of \('native', .* got 'cold'"),
        (lambda: rs.Rule(TAU, family="cubic"), r"family to be one of .* got 'cubic'"),
        (lambda: rs.class_scores(Z, STATE, TAU, offset=torch.ones(2)), r"offset \[6\], .* \(2,\)"),
        (lambda: rs.class_scores(Z, STATE, TAU, offset=torch.ones(C).long()), "a floating dtype"),
        (lambda: rs.class_scores(Z, STATE, TAU, offset=torch.ones(C) * math.inf), "inf at index 0"),
        (lambda: rs.class_scores(Z, STATE, torch.ones(2)), r"a number or \[6\], got shape \(2,\)"),
        (lambda: rs.class_scores(2 * Z, STATE, TAU), r"z of length 1 within .* got 2 at index 0"),
        (lambda: rs.class_scores(Z, FLAT, TAU, "preserve"), r"A > 0 .*7 of 8 .*class 4 \(0\), \."),
        (lambda: rs.target_gain(-torch.ones(3), 0.5), "g >= 0 and finite, got -1 at index 0"),
        (lambda: rs.target_gain(0.0 * Y, -0.5, "power"), r"> 0 .*\(a negative power\), got 0"),
        (lambda: rs.target_gain(torch.ones(()), 0.5), r"g \[C\] of one class or more, .* \(\)"),
        (lambda: shot_groups(torch.tensor([3, -1])), "counts >= 0 and finite, got -1 at index 1"),
        (lambda: group_masks(torch.ones(3)), r"counts \[C\] of integers, got shape"),
        (lambda: rs.unbiased_square_resultant(0.5, torch.tensor([2, 1])), "n >= 2 .* 1 at index 1"),
        (lambda: rs.self_inclusion(0.5, 0.0, 3), "tau > 0 and finite, got 0"),
        (lambda: rs.ClassState([1.0], KAPPA, COUNT), "mu to be a tensor, got list"),
        (lambda: rs.ClassState(MU[:, :1], KAPPA, COUNT), r"with p >= 2, .* got \(5, 1\)"),
        (lambda: rs.ClassState(MU, KAPPA[:2], COUNT), r"got \(5, 6\), \(2,\) and \(5,\)"),
        (lambda: rs.ClassState(MU, KAPPA.float(), COUNT), "got torch.float64 and torch.float32"),
        (lambda: rs.ClassState(MU * 1.1, KAPPA, COUNT), r"mu of length 1 within .* 1.1 at index 0"),
        (lambda: rs.ClassState(MU, -KAPPA, COUNT), "kappa >= 0 and finite, got -1 at index 0"),
        (lambda: rs.ClassState(MU, KAPPA * 1e20, COUNT), r"kappa <= 1.15292e\+18 .*, got 1e\+20"),
        (lambda: rs.ClassState(MU, KAPPA, -COUNT), "count >= 0 and finite, got -1 at index 0"),
        (lambda: EMPTY.update(changed(X, 3, math.nan), Y), r"z of length 1 .* got nan at index 3"),
        (lambda: EMPTY.update(X, changed(Y, 7, 5)), r"y in \[0, 5\), got 5 at index 7"),
        (
            lambda: EMPTY.update(X, Y, torch.ones(3)),
            r"weights .20., one per vector, got shape \(3,\)",
        ),
        (lambda: EMPTY.leave_one_out(X, Y), "one of class 0, which has no sample, at index 0"),
        (lambda: EMPTY.without(SUMS), r"a part of these, got \d+ samples of 0 in class 0"),
        (lambda: rs.ClassStatistics(0, P), "num_classes to be an integer >= 1, got 0"),
        (lambda: SUMS.merge(rs.ClassStatistics(FIVE, 3)), r"=5, dim=6\), got .*dim=3\)"),
        (lambda: SUMS.merge(SCATTER), r"dim=6\), got .*dim=6, scatter=True\)"),
        (lambda: rs.Metric.fit(SUMS), "with scatter .* use .*scatter=True"),
        (lambda: rs.Metric.fit(SCATTER), "one sample or more"),
        (lambda: rs.Metric.fit(SUMS, whiten=False).with_shrinkage(-0.1), "from 0 to 1, got -0.1"),
    ],
)
def test_refused(call: Callable[[], object], fact: str) -> None:
    with pytest.raises(ValueError, match=f"expected .*{fact}"):
        call()
    assert not EMPTY.count.any() and not EMPTY.total.any()


def test_bad_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "bank.safetensors"
    SUMS.save(path)
    whole = path.read_bytes()
    rule = r"expected .*bank\.safetensors to be a whole safetensors file of ClassStatistics"
    for content in (b"", whole[:7], whole[:60], whole[:-1], whole + b"x", b"\xff" * 64):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=rule + ", got a file that cannot be read"):
            rs.ClassStatistics.load(path)
    good: dict[str, Tensor] = {n: getattr(SUMS, n) for n in ("count", "weight", "total")}
    mark = {"format": FORMAT}
    others: list[tuple[dict[str, Tensor], dict[str, str] | None, str]] = [
        (good, None, "got format None with count"),
        ({"count": good["count"]}, mark, r"with count torch.int64 \(5,\)$"),
        ({**good, "count": good["count"].int()}, mark, r"count torch.int32 \(5,\)"),
        ({**good, "total": good["total"][:3].clone()}, mark, r"total torch.float64 \(3, 6\)"),
        ({**good, "other": good["total"].clone()}, mark, r"other torch.float64 \(5, 6\)"),
        ({**good, "total": good["total"] * math.nan}, mark, "negative, infinite or undefined"),
        ({**good, "total": good["total"] * 40}, mark, "a mean longer than one"),
        ({**good, "count": -good["count"]}, mark, "negative, infinite or undefined"),
    ]
    for tensors, metadata, message in others:
        save_file(tensors, path, metadata)
        with pytest.raises(ValueError, match=rule + ".*" + message):
            rs.ClassStatistics.load(path)
    with pytest.raises(FileNotFoundError):
        rs.ClassStatistics.load(tmp_path / "none")
