"""Arguments that the expansions and limits refuse, and the fact that each error states."""

# pyright: reportArgumentType=false
# Bad input is passed on purpose.

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import resultant as rs
from class_samples import C as CLASSES, P, changed, sample
from decisions.arcs import two
from resultant.vmf.tails import log_projection_tail

ZERO, ARC = torch.zeros(3), two(math.pi, (1.0, 1.0))
FLAT = rs.ClassState(torch.eye(2), ZERO[:2], ZERO[:2])
EQUAL = {"kappa": torch.ones(3), "mu": torch.eye(1, 8).expand(3, 8)}
OPPOSITE = r"below pi - 1e-06, got 3.14159\d* at index 0"
BROADCAST = r"y to broadcast with the shape \(4,\) .*, got \(2,\)"
PAIR, ORDERED = torch.tensor([[0, 1]]), rs.BinaryModel(2.0, 1.0, 0.3, tau=0.5, b_h=0.1)
Z, Y = sample(20)
FOLD = torch.arange(20) % 2
FOLDS = rs.fold_statistics(Z, Y, FOLD, CLASSES, 2)
WEIGHTED = rs.ClassStatistics(CLASSES, P).update(Z, Y, torch.full((20,), 0.5))


def cross_fit(folds: Any = FOLDS, A: float = 0.5, low: float = 0.5, **options: Any) -> None:
    rs.cross_fit_temperature(folds, 0.1, A, r_min=low, r_max=1.0, **options)


def of_classes(a: Any, b: Any, **change: Tensor) -> rs.BinaryModel:
    values = {"mu": torch.eye(3, 8), "kappa": torch.arange(1.0, 4.0)} | change
    return rs.BinaryModel.of(rs.ClassState(values["mu"], values["kappa"], torch.ones(3)), a, b)


@pytest.mark.parametrize(
    ("call", "fact"),
    [
        (lambda: rs.joint_expansion(0.1, 1.0, 1.0, 2), "p >= 3 .*, got 2"),
        (lambda: rs.joint_expansion(0.1, 1.0, 1.0, 9, 3), "order .* from 0 to 2, got 3"),
        (lambda: rs.fixed_terms(0.1, torch.tensor([1.0, 0.0]), 1.0, 9), "kappa > 0 .* at index 1"),
        (lambda: rs.directional_cumulants(0.1, 1.0, 9, 4), "order .* from 1 to 3, got 4"),
        (lambda: rs.propagate_loss(ZERO, 0.0, 0.0, 9, 3), "y in 0, ..., 2, got 3"),
        (lambda: rs.propagate_loss(ZERO, 0.0, 0.0, 9, torch.tensor(0.0)), "y of an integer dtype"),
        (lambda: rs.propagate_loss(torch.zeros(4, 3), 0.0, 0.0, 9, FOLD[:2]), BROADCAST),
        (lambda: rs.propagate_probabilities(ZERO[0], 0.0, 0.0, 9), r"of shape \[..., C\]"),
        (lambda: rs.joint_leading(FLAT, rs.Rule(0.1)), "p >= 3"),
        (lambda: replace(ORDERED, lambda_h=0.0), "lambda_h > 0, got 0"),
        (lambda: replace(ORDERED, cosine=1.5), r"cosine in \[-1, 1\], got 1.5"),
        (lambda: rs.BinaryModel(2.0, 2.0, 1.0), "w = .* != 0, got lambda_h = lambda_t = 2 and cos"),
        (lambda: ORDERED.log_errors(2), r"p >= 3 \(nu > 0\), got 2"),
        (lambda: ORDERED.monte_carlo(9, 9, "best"), "one of .*, got 'best'"),
        (lambda: ORDERED.sample_margins(9, 9, "x"), "label 'h' or 't', got 'x'"),
        (lambda: rs.BinaryModel.of({}, 0, 1), "state to be a ClassState, got dict"),
        (lambda: of_classes(0, 3), "b to be an integer from 0 to 2, got 3"),
        (lambda: of_classes(1, 1), "w = .* != 0, got lambda_h = lambda_t"),
        (lambda: of_classes(0, 2, **EQUAL), "w = .* != 0, got lambda_h = lambda_t"),
        (lambda: of_classes(1, 0, kappa=torch.arange(3.0)), "kappa > 0, got 0 at class 0"),
        (lambda: rs.rate_function(math.nan, 1.0, 0.0), "xi finite, got nan"),
        (lambda: log_projection_tail(math.nan, 0.0, 1.0, 5, upper=True), "xi finite, got nan"),
        (lambda: log_projection_tail(0.0, 2.0, 1.0, 5, upper=True), r"beta in \[-1, 1\], got 2"),
        (lambda: log_projection_tail(0.0, 0.0, -1.0, 5, upper=True), "kappa >= 0 .*, got -1"),
        (lambda: rs.posterior_thresholds(ARC, PAIR), OPPOSITE),
        (lambda: rs.posterior_thresholds(ARC, PAIR, 1.0), r"level in \(0, 1\), got 1.0"),
        (lambda: cross_fit(FOLDS[:1]), "two folds or more, got 1"),
        (lambda: cross_fit(low=2.0), "0 < r_min <= r_max, both finite, got r_min = 2"),
        (lambda: cross_fit(A=0.0), r"A_ref in \(0, 1\], got 0"),
        (lambda: cross_fit([*FOLDS, WEIGHTED]), "without weights, .* samples in class 0"),
        (lambda: rs.fold_statistics(Z, Y, changed(FOLD, 3, 4), 5, 2), r"fold in \[0, 2\), got 4"),
        (lambda: rs.fold_statistics(Z[0], Y, FOLD, 5, 2), r"z \[N, p\], got shape \(6,\)"),
    ],
)
def test_refused(call: Callable[[], object], fact: str) -> None:
    with pytest.raises(ValueError, match=f"expected .*{fact}"):
        call()
