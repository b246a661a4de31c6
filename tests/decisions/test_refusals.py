"""Arguments that decisions refuse, and the fact that each error states."""

# pyright: reportArgumentType=false
# Bad input is passed on purpose.

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

import resultant as rs
from decisions.arcs import PAIRS, classes, queries
from resultant.decisions.boundaries import displacement_error
from small_classes import TAU

STATE = classes()
RULE, NARROW = (rs.realize(STATE, rs.Rule(TAU), dtype=d) for d in (torch.float64, torch.float32))
SAME = "boundaries of the same pairs, got 1 and 15"
Z, Y = queries(STATE)
GONE = torch.tensor([0.0, 0.0, -math.inf, 0.0, 0.0, 0.0])
ONE, ALL = rs.short_arc_roots(RULE, PAIRS[:1]), rs.short_arc_roots(RULE)


@pytest.mark.parametrize(
    ("call", "fact"),
    [
        (lambda: rs.loss_gradient(Z[:, :3], Y, RULE), r"z \[N, 64\], got shape \(7, 3\)"),
        (lambda: rs.effective_competitors(GONE.sum()), r"scores \[..., C\] of one class .* \(\)"),
        (
            lambda: rs.stacked_relative_error(Z, Z[1:]),
            r"of one shape, got shape \(7, 64\) and shape \(6, 64\)",
        ),
        (lambda: rs.mean_relative_error(0 * Z, Z), "a row of G of positive norm, got none"),
        (lambda: rs.short_arc_roots(NARROW), "scores in float64, got torch.float32"),
        (lambda: rs.displacement(ONE, ALL), SAME),
        (lambda: displacement_error(rs.displacement(ONE, ONE), rs.displacement(ALL, ALL)), SAME),
        (lambda: rs.select_pairs(STATE, torch.zeros(2)), r"groups \[6\], .* got shape \(2,\)"),
        (lambda: rs.select_pairs(STATE, torch.full((6,), 3)), r"in \{0, 1, 2\}, got 3 at index 0"),
        (lambda: rs.loss_bound(Z, Y, STATE, TAU, offset=GONE), "class 2 of offset -inf at index 2"),
        *(
            (lambda f=f, pairs=pairs: f(pairs), fact)
            for f in (
                lambda p: rs.pairwise_margins(Z, RULE, p),
                lambda p: rs.centre_margins(RULE, p),
            )
            for pairs, fact in (
                (torch.tensor([0, 1]), r"pairs \[P, 2\], got shape \(2,\)"),
                ([[0, 1]], r"pairs \[P, 2\], got list"),
                (PAIRS.int(), "pairs of dtype torch.int64 on cpu, got torch.int32"),
                (PAIRS.to("meta"), "pairs .* on cpu, got torch.int64 on meta"),
                (torch.tensor([[0, 1], [2, 6]]), r"two .* in \[0, 6\), got \[2, 6\] at index 1"),
                (torch.tensor([[3, 3]]), r"two different classes .* got \[3, 3\] at index 0"),
            )
        ),
    ],
)
def test_refused(call: Callable[[], object], fact: str) -> None:
    with pytest.raises(ValueError, match=f"expected .*{fact}"):
        call()


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        ({"chunk": 0}, "chunk to be an integer >= 1 or None, got 0"),
        ({"offset": torch.zeros(3)}, r"offset \[6\], one per class, got shape \(3,\)"),
        ({"offset": torch.full((6,), -math.inf)}, "a class with an offset above -inf"),
        ({"z": Z[:, :5]}, r"z \[N, 64\], got shape \(7, 5\)"),
        ({"tau": 0.0}, "tau > 0 and finite, got 0"),
    ],
)
def test_refused_by_all_certificates(options: dict[str, Any], fact: str) -> None:
    arguments: dict[str, Any] = {"z": Z, "state": STATE, "tau": TAU} | options
    for call, more in (
        (rs.certificate, {}),
        (rs.loss_bound, {"y": Y}),
        (rs.gradient_bound, {"y": Y}),
    ):
        with pytest.raises(ValueError, match=f"expected .*{fact}"):
            call(**arguments, **more)
