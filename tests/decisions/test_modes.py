"""Every question about classes in every mode: in chunks, unchecked, without rows, on a GPU, and
with arguments that are refused: the fact that each error states."""

# pyright: reportArgumentType=false
# Bad input is passed on purpose.

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

import resultant as rs
from class_samples import close
from decisions.arcs import BETA, OFFSET, PAIRS
from resultant._core import memory
from resultant.classes import scores as class_score_module
from resultant.classes.rule import REALIZATIONS
from resultant.decisions import certificates
from resultant.decisions.boundaries import LOCATIONS
from small_classes import TAU, C, P, classes, queries

STATE = classes()
Z, Y = queries(STATE, 20), torch.arange(20) % C


def scores(state: rs.ClassState) -> Any:
    # Negative slopes, so that arcs are searched at all locations.
    return rs.realize(state, rs.Rule(TAU, "angular", 1.8, offset=OFFSET.to(state.mu.device)))


def pairs(z: Tensor) -> Tensor:
    return PAIRS.to(z.device)


def class_scores(realization: str) -> Callable[..., Any]:
    return lambda z, y, s, **o: rs.class_scores(z, s, TAU, realization, BETA, **o)


IN_CHUNKS: dict[str, Callable[..., Any]] = {
    **{realization: class_scores(realization) for realization in REALIZATIONS},
    "certificate": lambda z, y, s, **o: rs.certificate(z, s, TAU, **o),
    "loss_bound": lambda z, y, s, **o: rs.loss_bound(z, y, s, TAU, **o),
    "gradient_bound": lambda z, y, s, **o: rs.gradient_bound(z, y, s, TAU, **o),
}
BY_ROW: dict[str, Callable[..., Any]] = {
    **IN_CHUNKS,
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
# Those with as many results as pairs, whatever the values.
FIXED = {"centre_margins"}
CERTIFICATES = ("certificate", "loss_bound", "gradient_bound")
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
        close(a.cpu(), b, rtol, atol, equal_nan=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_chunks_and_checks_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = CALLS[name](Z, Y, STATE)
    agree(CALLS[name](Z, Y, STATE, validate_args=False), whole, 0.0, 0.0)
    heights, cosines = [], certificates.cosines
    counted = lambda z, mu: heights.append(len(z)) or cosines(z, mu)  # noqa: E731
    for module in (certificates, class_score_module):
        monkeypatch.setattr(module, "cosines", counted)
    monkeypatch.setattr(memory, "SCORE_BYTES", 8 * C * 3)
    monkeypatch.setattr(memory, "FEATURE_BYTES", 8 * P * 3)
    monkeypatch.setattr(memory, "MATRIX_BYTES", 8 * LOCATIONS * 4)
    agree(CALLS[name](Z, Y, STATE), whole, 1e-11, 1e-12)
    if name in IN_CHUNKS:
        assert heights == [3, 3, 3, 3, 3, 3, 2]
        agree(CALLS[name](Z, Y, STATE, chunk=7), whole, 1e-11, 1e-12)


@pytest.mark.parametrize("name", BY_ROW)
def test_no_rows(name: str) -> None:
    result = tensors(BY_ROW[name](Z[:0], Y[:0], STATE))
    assert all(not len(a) for a in result if a.dim())


def test_no_pairs() -> None:
    none = PAIRS[:0]
    assert len(rs.margin_change(Z, Y, STATE, rs.Rule(TAU), none).exact) == 0
    assert rs.pairwise_margins(Z, scores(STATE), none).shape == (20, 0)
    assert rs.short_arc_roots(scores(STATE), none).root.shape == (0,)


# Scores of float32 features are computed in float32; `tests/score/test_gpu.py` holds these.
@pytest.mark.gpu
@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, torch.float64) for name in CALLS]
    + [(name, torch.float32) for name in CALLS if name not in REALIZATIONS],
)
def test_gpu_agrees(name: str, dtype: torch.dtype) -> None:
    here = CALLS[name](Z.to(dtype), Y, STATE)
    there = CALLS[name](Z.to("cuda", dtype), Y.cuda(), STATE.to("cuda"))
    assert all(a.is_cuda for a in tensors(there))
    agree(there, here, RTOL.get(name, 1e-8), 1e-10)


@pytest.mark.parametrize("name", [*CERTIFICATES, "margin_change", *sorted(BY_PAIR.keys() - FIXED)])
def test_shapes_alone_are_refused_where_values_decide(name: str) -> None:
    with pytest.raises(ValueError, match="with values, which the number of results follows from"):
        CALLS[name](Z.to("meta"), Y.to("meta"), STATE.to("meta"))


@pytest.mark.parametrize("name", [*CERTIFICATES, "rising"])
def test_fake_tensors_are_refused_where_values_decide(name: str) -> None:
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        parts = (mode.from_tensor(a) for a in (STATE.mu, STATE.kappa, STATE.count))
        z, y, state = mode.from_tensor(Z), mode.from_tensor(Y), rs.ClassState(*parts)
        with pytest.raises(ValueError, match="with values, which the number of results follows"):
            CALLS[name](z, y, state)


@pytest.mark.gpu
def test_pairs_are_selected_on_the_gpu() -> None:
    assert rs.select_pairs(STATE.to("cuda"), torch.zeros(C)).pairs.is_cuda


RULE, NARROW = (rs.realize(STATE, rs.Rule(TAU), dtype=d) for d in (torch.float64, torch.float32))
SAME = "boundaries of the same pairs, got 1 and 15"
ONE_SHAPE = r"of one shape, got shape \(7, 64\) and shape \(6, 64\)"
X, L = Z[:7], Y[:7]
GONE = torch.tensor([0.0, 0.0, -math.inf, 0.0, 0.0, 0.0])
ONE, ALL = rs.short_arc_roots(RULE, PAIRS[:1]), rs.short_arc_roots(RULE)


@pytest.mark.parametrize(
    ("call", "fact"),
    [
        (lambda: rs.loss_gradient(X[:, :3], L, RULE), r"z \[N, 64\], got shape \(7, 3\)"),
        (lambda: rs.effective_competitors(GONE.sum()), r"scores \[..., C\] of one class .* \(\)"),
        (lambda: rs.stacked_relative_error(X, X[1:]), ONE_SHAPE),
        (lambda: rs.mean_relative_error(0 * X, X), "a row of G of positive norm, got none"),
        (lambda: rs.short_arc_roots(NARROW), "scores in float64, got torch.float32"),
        (lambda: rs.displacement(ONE, ALL), SAME),
        (lambda: rs.select_pairs(STATE, torch.zeros(2)), r"groups \[6\], .* got shape \(2,\)"),
        (lambda: rs.select_pairs(STATE, torch.full((6,), 3)), r"in \{0, 1, 2\}, got 3 at index 0"),
        (lambda: rs.loss_bound(X, L, STATE, TAU, offset=GONE), "class 2 of offset -inf at index 2"),
        *(
            (lambda f=f, pairs=pairs: f(pairs), fact)
            for f in (
                lambda p: rs.pairwise_margins(X, RULE, p),
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
        ({"z": X[:, :5]}, r"z \[N, 64\], got shape \(7, 5\)"),
        ({"tau": 0.0}, "tau > 0 and finite, got 0"),
    ],
)
def test_refused_by_all_certificates(options: dict[str, Any], fact: str) -> None:
    arguments: dict[str, Any] = {"z": X, "state": STATE, "tau": TAU} | options
    for call, more in (
        (rs.certificate, {}),
        (rs.loss_bound, {"y": L}),
        (rs.gradient_bound, {"y": L}),
    ):
        with pytest.raises(ValueError, match=f"expected .*{fact}"):
            call(**arguments, **more)
