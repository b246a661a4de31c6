"""Score, slope and decomposition against Arb; shapes, transforms, compilation, bad input."""

# pyright: reportCallIssue=false, reportArgumentType=false
# Bad input is passed on purpose, and arguments are unpacked from lists.

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from reference import arb, tables
from resultant import (
    bessel_ratio,
    decompose,
    tangent_gradient,
    vmf_score,
    vmf_score_and_slope,
    vmf_score_slope,
)
from resultant.score._backends import expression
from resultant.score.limits import LIMITS

PRECISION = {torch.float64: 1e-14, torch.float32: 2e-6}
DTYPES = list(PRECISION)


def inputs(table: tables.Table, dtype: torch.dtype) -> list[Tensor]:
    return [torch.tensor(table[k], dtype=dtype) for k in ("rho", "kappa", "tau")]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_score_and_slope_against_arb(dtype: torch.dtype) -> None:
    for p, table in tables.scores():
        arguments = inputs(table, dtype)
        q, slope = (a.double().numpy() for a in vmf_score_and_slope(*arguments, p))
        assert np.isfinite(q).all() and np.isfinite(slope).all()
        assert (np.abs(q - table["q"]) <= PRECISION[dtype] * tables.q_scale(table)).all(), p
        assert (np.abs(slope / table["slope"] - 1) <= PRECISION[dtype]).all(), p
        assert np.array_equal(vmf_score(*arguments, p).double().numpy(), q)
        alone = vmf_score_slope(*arguments, p).double().numpy()
        assert (np.abs(alone / table["slope"] - 1) <= PRECISION[dtype]).all(), p


def test_other_derivatives_against_arb() -> None:
    for p, table in tables.scores():
        rho, kappa, tau = (a.requires_grad_() for a in inputs(table, torch.float64))
        grads = torch.autograd.grad(vmf_score(rho, kappa, tau, p).sum(), (rho, kappa, tau))
        for grad, name in zip(grads, ("slope", "dkappa", "dtau"), strict=True):
            error = np.abs(grad.numpy() - table[name])
            assert (error <= 1e-13 * (1 + np.abs(table[name]))).all(), (p, name)


@pytest.mark.slow
@given(
    rho=st.one_of(st.just(-1.0), st.just(1.0), st.floats(-1, 1)),
    log_kappa=st.floats(-6, 6),
    log_t=st.floats(-2, 3),
    p=st.integers(2, 3000),
)
@settings(max_examples=150, deadline=None)
def test_anywhere_against_arb(rho: float, log_kappa: float, log_t: float, p: int) -> None:
    rho, kappa, tau = (float(np.float32(a)) for a in (rho, 10**log_kappa, 10**-log_t))
    q, slope, _, _ = arb.score(rho, kappa, tau, p)
    for dtype, bar in PRECISION.items():
        arguments = [torch.tensor(a, dtype=dtype) for a in (rho, kappa, tau)]
        ours, ours_slope = (float(a) for a in vmf_score_and_slope(*arguments, p))
        assert abs(ours - q) <= bar * max(abs(q), abs(rho * slope))
        assert abs(ours_slope - slope) <= bar * slope


@pytest.mark.parametrize("p", [128, 1024, 2048])
def test_absolute_error_in_float32(p: int) -> None:
    generator = torch.Generator().manual_seed(p)
    rho = torch.rand(256, 300, generator=generator) * 2 - 1
    kappa = p * 10 ** (torch.rand(300, generator=generator) * 2 - 1)
    exact = vmf_score(rho.double(), kappa.double(), float(np.float32(0.1)), p)
    for rows in (rho, rho[:1]):  # as polynomials in rho, and directly
        q = vmf_score(rows, kappa, 0.1, p)
        assert (q.double() - exact[: len(rows)]).abs().max() <= 3e-6


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("tau", [2.0, 0.1, 0.07, 0.01])
@pytest.mark.parametrize("p", [3, 16, 128, 1024, 65536])
def test_many_rows_equal_single_rows(p: int, tau: float, dtype: torch.dtype) -> None:
    """A large batch is computed in chunks, as polynomials in rho where the classes allow it."""
    generator = torch.Generator().manual_seed(p)
    rho = (torch.rand(700, 301, generator=generator, dtype=torch.float64) * 2 - 1).to(dtype)
    rho[:2] = torch.tensor([[-1.0], [1.0]])
    kappa = 10 ** (torch.rand(301, generator=generator, dtype=torch.float64) * 6 - 2)
    kappa[0] = 0
    kappa = kappa.to(dtype)
    q, slope = vmf_score_and_slope(rho, kappa, tau, p)
    for i in (0, 1, 2, 350, 699):
        q1, slope1 = vmf_score_and_slope(rho[i], kappa, tau, p)
        scale = torch.maximum(q1.abs(), (rho[i] * slope1).abs())
        assert ((q[i] - q1).abs() <= PRECISION[dtype] * scale).all()
        assert ((slope[i] - slope1).abs() <= PRECISION[dtype] * slope1).all()


@pytest.mark.parametrize(
    ("rho", "kappa", "tau"),
    [
        ((), (), ()),
        ((0, 5), (5,), ()),
        ((3, 4), (4,), (4,)),
        ((2, 3, 4), (3, 4), (4,)),
        ((4,), (3, 1), (2, 1, 1)),
        ((1,), (1000, 200), (200,)),
        ((70000,), (), ()),
        ((70000,), (70000,), (70000,)),
        ((2, 40000), (1, 40000), (2, 1)),
    ],
)
def test_shapes(rho: tuple[int, ...], kappa: tuple[int, ...], tau: tuple[int, ...]) -> None:
    a = torch.rand(rho, dtype=torch.float64) * 2 - 1
    k, t = torch.rand(kappa, dtype=torch.float64) * 100, torch.rand(tau, dtype=torch.float64) + 0.1
    q, slope = vmf_score_and_slope(a, k, t, 64)
    expected = expression(a, k, t, 64, True)
    assert q.shape == torch.broadcast_shapes(rho, kappa, tau)
    torch.testing.assert_close((q, slope), expected, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("p", [3, 30, 128, 1024, 65536])
def test_decomposition(p: int) -> None:
    rho = torch.arange(-10, 11, dtype=torch.float64) / 10
    kappa = p * torch.tensor([[1e-3], [0.1], [1.0], [30.0]], dtype=torch.float64)
    parts = decompose(rho, kappa, 0.1, p)
    q = vmf_score(rho, kappa, 0.1, p)
    torch.testing.assert_close(parts.intercept + parts.gain * rho + parts.remainder, q)
    torch.testing.assert_close(parts.intercept, vmf_score(0.0, kappa, 0.1, p))
    torch.testing.assert_close(parts.gain, 10 * bessel_ratio(p / 2 - 1, kappa))
    assert (parts.remainder[:, 10] == 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("p", [3, 17, 128, 1024])
def test_remainder_without_cancellation(p: int, dtype: torch.dtype) -> None:
    """Against the remainder in Arb, also at t = 0.01 where it is 1e-7 of the gain or less."""
    for t in (0.01, 1.0, 30.0):
        for kappa in (0.01, 3.0, 200.0, 5000.0):
            for rho in (-1.0, -0.25, 0.5, 1.0):
                tau = float(np.float32(1 / t))
                kappa = float(np.float32(kappa))
                exact, scale = arb.remainder(rho, kappa, tau, p)
                r = decompose(*(torch.tensor(a, dtype=dtype) for a in (rho, kappa, tau)), p)
                assert abs(float(r.remainder) - exact) <= 4 * PRECISION[dtype] * scale


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_float32_rounded(dtype: torch.dtype) -> None:
    rho = torch.linspace(-1, 1, 9).to(dtype)
    kappa = torch.tensor(50.0, dtype=dtype)
    q = vmf_score(rho, kappa, 0.1, 128)
    assert q.dtype == dtype
    assert torch.equal(q, vmf_score(rho.float(), 50.0, 0.1, 128).to(dtype))


def test_transforms() -> None:
    f = torch.func
    rho = torch.rand(6, 5, dtype=torch.float64) * 2 - 1
    kappa = torch.rand(5, dtype=torch.float64) * 100
    whole = vmf_score(rho, kappa, 0.1, 128)
    assert torch.equal(f.vmap(lambda r: vmf_score(r, kappa, 0.1, 128))(rho), whole)
    columns = f.vmap(lambda r, k: vmf_score(r, k, 0.1, 128), in_dims=(1, 0), out_dims=1)
    assert torch.equal(columns(rho, kappa), whole)
    scalar = f.vmap(f.vmap(lambda r, k: vmf_score(r, k, 0.1, 128)), in_dims=(0, None))
    assert torch.equal(scalar(rho, kappa), whole)
    slope = f.vmap(f.grad(lambda r: vmf_score(r, kappa, 0.1, 128).sum()))(rho)
    torch.testing.assert_close(slope, vmf_score_slope(rho, kappa, 0.1, 128))
    mixed = f.grad(lambda k: f.grad(lambda r: vmf_score(r, k, 0.1, 128))(rho[0, 0]))(kappa[0])
    k = kappa[0].clone().requires_grad_()
    (expected,) = torch.autograd.grad(vmf_score_slope(rho[0, 0], k, 0.1, 128), k)
    torch.testing.assert_close(mixed, expected)


def test_single_numbers_of_other_kinds() -> None:
    rho, kappa = torch.tensor(0.3), torch.tensor(20.0)
    expected = vmf_score(rho, kappa, 0.1, 16)
    assert torch.equal(vmf_score(rho, kappa, 0.1, 16, validate_args=False), expected)
    tau = torch.tensor(0.1, dtype=torch.float64)
    torch.testing.assert_close(vmf_score(rho, kappa, tau, 16), expected, check_dtype=False)
    with pytest.raises(ValueError, match="expected p"):
        vmf_score(rho, kappa, 0.1, 1)


@pytest.mark.slow
@pytest.mark.parametrize(("p", "most"), [(17, 50), (512, 300), (65536, 65536)])
def test_compile(p: int, most: int) -> None:
    rho = (torch.rand(8, 5, dtype=torch.float64) * 2 - 1).requires_grad_()
    kappa = (torch.rand(5, dtype=torch.float64) * most).requires_grad_()
    tau = torch.tensor(0.1, dtype=torch.float64, requires_grad=True)

    def loss(rho: Tensor, kappa: Tensor, tau: Tensor) -> Tensor:
        return vmf_score(rho, kappa, tau, p).logsumexp(1).sum()

    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    ours = torch.autograd.grad(compiled(rho, kappa, tau), (rho, kappa, tau))
    expected = torch.autograd.grad(loss(rho, kappa, tau), (rho, kappa, tau))
    torch.testing.assert_close(ours, expected, rtol=1e-11, atol=1e-13)


@pytest.mark.slow
def test_decompose_compiles_with_its_gradient() -> None:
    rho = (torch.rand(8, 5, dtype=torch.float64) * 2 - 1).requires_grad_()
    kappa = (torch.rand(5, dtype=torch.float64) * 100).requires_grad_()
    tau = torch.tensor(0.1, dtype=torch.float64, requires_grad=True)

    def parts(rho: Tensor, kappa: Tensor, tau: Tensor) -> tuple[Tensor, ...]:
        return decompose(rho, kappa, tau, 512)

    compiled = torch.compile(parts, fullgraph=True, backend="eager")
    ours, expected = compiled(rho, kappa, tau), parts(rho, kappa, tau)
    torch.testing.assert_close(tuple(ours), tuple(expected), rtol=1e-11, atol=1e-13)
    ours, expected = (
        torch.autograd.grad(sum(a.sum() for a in whole), (rho, kappa, tau))
        for whole in (ours, expected)
    )
    torch.testing.assert_close(ours, expected, rtol=1e-10, atol=1e-11)


@pytest.mark.slow
def test_compile_to_native_code() -> None:
    rho = torch.rand(8, 5) * 2 - 1
    kappa = torch.rand(5) * 100
    compiled = torch.compile(lambda r, k: vmf_score_and_slope(r, k, 0.1, 1024), fullgraph=True)
    torch.testing.assert_close(compiled(rho, kappa), vmf_score_and_slope(rho, kappa, 0.1, 1024))


@pytest.mark.slow
def test_compiles_for_any_shape() -> None:
    """One graph with symbolic sizes; numbers of a table must not become symbols."""
    whole = torch.compile(
        lambda r, k: vmf_score_and_slope(r, k, 0.1, 128),
        fullgraph=True,
        dynamic=True,
        backend="aot_eager",
    )
    for shape in ((5, 3), (7, 4)):
        rho, kappa = torch.rand(shape) * 2 - 1, torch.rand(shape[1]) * 100
        torch.testing.assert_close(whole(rho, kappa), vmf_score_and_slope(rho, kappa, 0.1, 128))


@pytest.mark.parametrize("p", [2, 3, 17, 128, 2048])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_up_to_the_limits(p: int, dtype: torch.dtype) -> None:
    """Scores are finite for all allowed arguments, and in float32 equal those in float64."""
    most, least = (math.log2(v) for v in LIMITS[dtype])
    rho = torch.tensor([-1.0, -0.999999, -0.5, 0.0, 0.5, 1.0], dtype=dtype)[:, None, None]
    kappa = torch.logspace(-20, most, 40, 2.0, dtype=dtype)[:, None]
    tau = torch.logspace(least, 7, 15, 2.0, dtype=dtype)
    q, slope = vmf_score_and_slope(rho, kappa, tau, p)
    parts = decompose(rho, kappa, tau, p)
    assert all(a.isfinite().all() for a in (q, slope, *parts))
    if dtype == torch.float32:
        exact, exact_slope = vmf_score_and_slope(rho.double(), kappa.double(), tau.double(), p)
        size = torch.maximum(exact.abs(), (rho * exact_slope).abs())
        assert ((q - exact).abs() <= 6e-7 * size + torch.finfo(dtype).tiny).all()


@pytest.mark.usefixtures("with_and_without_kernel")
@pytest.mark.parametrize(
    ("dtype", "rho", "kappa", "tau", "p"),
    [
        (torch.float32, 0.5, 1.0945671e-11, 7.691335e12, 10**11),
        (torch.float32, -0.25, 3e-14, 2e13, 1024),
        # The logarithm of 1 + 3 * 2^-149 is off by half of that in torch.
        (torch.float32, 1.0, 9.417159e-08, 5.3687752e15, 10**11),
        (torch.float64, 0.5, 1e-120, 1e140, 10**30),
    ],
)
def test_tiny_scores(dtype: torch.dtype, rho: float, kappa: float, tau: float, p: int) -> None:
    """A tilt so small that its share of the dimension underflows: q = (kappa t rho + t^2/2)/p."""
    inputs = [torch.tensor(a, dtype=dtype) for a in (rho, kappa, tau)]
    c, k, t = Fraction(float(inputs[0])), Fraction(float(inputs[1])), 1 / Fraction(float(inputs[2]))
    truth = float((k * t * c + t * t / 2) / p)
    assert abs(float(vmf_score(*inputs, p)) / truth - 1) <= 8 * torch.finfo(dtype).eps


@pytest.mark.parametrize("p", [2, 3, 17, 128, 2048])
def test_derivatives_up_to_the_limits(p: int) -> None:
    """Float32 equals float64: first derivatives everywhere, the second in rho up to kappa 1e12."""

    def derivatives(dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
        rho = torch.tensor([-0.9, -0.3, 0.4, 0.95])[:, None, None]
        kappa, tau = torch.logspace(-3, 18, 22)[:, None], torch.logspace(-8, 1, 10)
        tau = tau.clamp_min(LIMITS[torch.float32][1])
        args = [a.to(dtype).requires_grad_() for a in torch.broadcast_tensors(rho, kappa, tau)]
        first = torch.autograd.grad(vmf_score(*args, p).sum(), args, create_graph=True)
        (second,) = torch.autograd.grad(first[0].sum(), args[0])
        return *(a.detach() for a in first), second[:, :16]

    pairs = zip(derivatives(torch.float32), derivatives(torch.float64), strict=True)
    # The derivative in kappa passes zero, where two terms of the size of p/kappa cancel.
    for (single, double), bar in zip(pairs, (2e-5, 2e-3, 2e-5, 2e-5), strict=True):
        assert ((single / double - 1).abs() <= bar).all()


RHO = torch.tensor([0.1, 0.2, 0.3])
NAN = torch.tensor([0.1, math.nan, 0.3])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: vmf_score(RHO, -3.0, 0.1, 8), r"expected kappa >= 0 and finite, got -3"),
        (
            lambda: vmf_score(RHO, RHO - 0.2, 0.1, 8),
            r"expected kappa >= 0 and finite, got -0.1 at index 0",
        ),
        (lambda: vmf_score(RHO, math.inf, 0.1, 8), r"expected kappa >= 0 and finite, got inf"),
        (
            lambda: vmf_score(RHO, 1e20, 0.1, 8),
            r"expected kappa <= 1.15292e\+18 in .*32, got 1e\+20",
        ),
        (lambda: vmf_score(RHO, 1.0, 1e-20, 8), r"expected tau >= 7.45058e-09 in .*32, got 1e-"),
        (lambda: vmf_score(RHO.double(), 1e160, 0.1, 8), r"expected kappa <= 1.6\d*e\+150 in .*64"),
        (lambda: vmf_score(RHO, 1.0, 0.1, 10**18), r"expected p <= 1e\+11 in .*32, got 1.000e\+18"),
        (lambda: vmf_score(0.1, 1.0, 0.1, 10**40), r"expected p <= 1e\+30 in .*64, got 1.000e\+40"),
        (lambda: vmf_score(RHO, 1.0, 0.0, 8), r"expected tau > 0 and finite, got 0"),
        (lambda: vmf_score(RHO, 1.0, -0.1, 8), r"expected tau > 0 and finite, got -0.1"),
        (lambda: vmf_score(RHO * 10, 1.0, 0.1, 8), r"expected rho in \[-1, 1\], got 2 at index 1"),
        (lambda: vmf_score(NAN, 1.0, 0.1, 8), r"expected rho in \[-1, 1\], got nan at index 1"),
        (lambda: vmf_score(NAN.reshape(3, 1), RHO, 0.1, 8), r"got nan at index \(1, 0\)"),
        (lambda: vmf_score(RHO, 1.0, 0.1, 1), r"expected p >= 2, got 1"),
        (lambda: vmf_score(RHO, 1.0, 0.1, 8.5), r"expected p to be an integer >= 2, got 8.5"),
        (
            lambda: vmf_score(torch.tensor([0, 1]), 1.0, 0.1, 8),
            r"expected rho of a floating dtype, got torch.int64",
        ),
        (
            lambda: vmf_score(RHO, torch.ones(2), 0.1, 8),
            r"expected shapes that broadcast, got rho \(3,\), kappa \(2,\)",
        ),
        (lambda: vmf_score(RHO, "1", 0.1, 8), r"expected kappa to be a tensor or number, got str"),
        (
            lambda: vmf_score(torch.zeros(3), 1e39, 0.1, 8),
            r"expected kappa within the range of torch.float32, got 1e\+39",
        ),
        (lambda: decompose(RHO, -1.0, 0.1, 8), r"expected kappa >= 0 and finite, got -1"),
        (lambda: vmf_score_slope(RHO, 1.0, -1.0, 8), r"expected tau > 0 and finite, got -1"),
        (
            lambda: tangent_gradient(torch.ones(4), torch.ones(5), 1.0, 0.1),
            r"share their last dimension, got \(4,\) and \(5,\)",
        ),
    ],
)
def test_bad_input(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_rounding_beyond_one_is_clamped() -> None:
    over = torch.tensor([1 + 5e-7, -1 - 5e-7])
    ends = torch.tensor([1.0, -1.0])
    assert torch.equal(vmf_score(over, 50.0, 0.1, 128), vmf_score(ends, 50.0, 0.1, 128))
    with pytest.raises(ValueError, match="expected rho"):
        vmf_score(torch.tensor([1 + 1e-4]), 50.0, 0.1, 128)


def test_validation_can_be_left_out() -> None:
    assert not math.isnan(float(vmf_score(torch.tensor(1.5), 50.0, 0.1, 128, validate_args=False)))
    assert math.isnan(float(vmf_score(NAN, 50.0, 0.1, 128, validate_args=False)[1]))
