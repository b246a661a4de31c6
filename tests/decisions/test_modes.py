"""Every question about classes in every mode: in chunks, unchecked, without rows, on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import resultant as rs
from decisions.arcs import BETA, OFFSET, PAIRS, classes, close, queries
from resultant._core import chunks
from resultant.decisions import certificates
from resultant.decisions.boundaries import LOCATIONS
from resultant.score.exact import vmf_score_and_slope
from small_classes import TAU, C, P

STATE = classes()
Z, Y = queries(STATE, 20)


def scores(state: rs.ClassState) -> Any:
    # Negative slopes, so that arcs are searched at all locations.
    return rs.realize(state, rs.Rule(TAU, "angular", 1.8, offset=OFFSET.to(state.mu.device)))


def pairs(z: Tensor) -> Tensor:
    return PAIRS.to(z.device)


BY_ROW: dict[str, Callable[..., Any]] = {
    "certificate": lambda z, y, s, **o: rs.certificate(z, s, TAU, **o),
    "loss_bound": lambda z, y, s, **o: rs.loss_bound(z, y, s, TAU, **o),
    "gradient_bound": lambda z, y, s, **o: rs.gradient_bound(z, y, s, TAU, **o),
    "pairwise_margins": lambda z, y, s, **o: rs.pairwise_margins(z, scores(s), pairs(z), **o),
    "loss_gradient": lambda z, y, s, **o: rs.loss_gradient(z, y, scores(s), **o),
    "gradient_coordinates": lambda z, y, s, **o: rs.gradient_coordinates(z, y, scores(s), **o),
    "intercept_gradient_difference": lambda z, y, s, **o: rs.intercept_gradient_difference(
        z, y, s, rs.Rule(TAU, beta=BETA), **o
    ),
    "margin_change": lambda z, y, s, **o: rs.margin_change(
        z, y, s, rs.Rule(TAU, "temperature", BETA), pairs(z), **o
    ),
}
BY_PAIR: dict[str, Callable[..., Any]] = {
    "centre_margins": lambda z, y, s, **o: rs.centre_margins(scores(s), **o),
    "short_arc_roots": lambda z, y, s, **o: rs.short_arc_roots(scores(s), **o),
    "exhaustive": lambda z, y, s, **o: rs.short_arc_roots(scores(s), exhaustive=True, **o),
    "rising": lambda z, y, s, **o: rs.short_arc_roots(rs.realize(s, rs.Rule(TAU)), **o),
    "posterior_thresholds": lambda z, y, s, **o: rs.posterior_thresholds(scores(s), pairs(z), **o),
}
CALLS = BY_ROW | BY_PAIR
# Relative differences of a GPU that are smaller than those of the others.
RTOL = {"loss_gradient": 1e-9, "pairwise_margins": 1e-10, "centre_margins": 1e-10}
RTOL |= dict.fromkeys(("short_arc_roots", "exhaustive", "rising", "posterior_thresholds"), 0.0)


def tensors(result: Any) -> list[Tensor]:
    if isinstance(result, Tensor):
        return [result]
    return list(result if isinstance(result, tuple) else vars(result).values())


def agree(result: Any, expected: Any, rtol: float, atol: float) -> None:
    for a, b in zip(tensors(result), tensors(expected), strict=True):
        assert a.dtype == b.dtype
        close(a.cpu(), b, rtol, atol)


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_chunks_and_checks_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = CALLS[name](Z, Y, STATE)
    agree(CALLS[name](Z, Y, STATE, validate_args=False), whole, 0.0, 0.0)
    heights, evaluate = [], vmf_score_and_slope
    counted = lambda rho, *a, **o: heights.append(len(rho)) or evaluate(rho, *a, **o)  # noqa: E731
    monkeypatch.setattr(certificates, "vmf_score_and_slope", counted)
    monkeypatch.setattr(chunks, "SCORE_BYTES", 8 * C * 3)
    monkeypatch.setattr(chunks, "FEATURE_BYTES", 8 * P * 3)
    monkeypatch.setattr(chunks, "MATRIX_BYTES", 8 * LOCATIONS * 4)
    agree(CALLS[name](Z, Y, STATE), whole, 1e-10, 1e-11)
    if name in ("certificate", "loss_bound", "gradient_bound"):
        assert heights == [3, 3, 3, 3, 3, 3, 2]
        agree(CALLS[name](Z, Y, STATE, chunk=7), whole, 1e-10, 1e-11)


@pytest.mark.parametrize("name", BY_ROW)
def test_no_rows(name: str) -> None:
    result = tensors(BY_ROW[name](Z[:0], Y[:0], STATE))
    assert all(not len(a) for a in result if a.dim())


def test_no_pairs() -> None:
    none = PAIRS[:0]
    assert len(rs.margin_change(Z, Y, STATE, rs.Rule(TAU), none).exact) == 0
    assert rs.pairwise_margins(Z, scores(STATE), none).shape == (20, 0)
    assert rs.short_arc_roots(scores(STATE), none).root.shape == (0,)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", CALLS)
def test_gpu_agrees(name: str, dtype: torch.dtype) -> None:
    here = CALLS[name](Z.to(dtype), Y, STATE)
    there = CALLS[name](Z.to("cuda", dtype), Y.cuda(), STATE.to("cuda"))
    assert all(a.is_cuda for a in tensors(there))
    agree(there, here, RTOL.get(name, 1e-8), 1e-10)


@pytest.mark.gpu
def test_pairs_are_selected_on_the_gpu() -> None:
    assert rs.select_pairs(STATE.to("cuda"), torch.zeros(C)).pairs.is_cuda
