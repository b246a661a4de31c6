"""Score, slope and decomposition against Arb; shapes, transforms, compilation, bad input."""

# pyright: reportCallIssue=false, reportArgumentType=false
# Bad input is passed on purpose, and arguments are unpacked from lists.

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from reference import arb, tables
from resultant import decompose, tangent_gradient, vmf_score, vmf_score_and_slope, vmf_score_slope
from resultant._core.limits import LIMITS
from resultant.score._backends import expression

PRECISION = {torch.float64: 1e-14, torch.float32: 2e-6}
DTYPES = list(PRECISION)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_against_arb(dtype: torch.dtype) -> None:
    """The score, its slope and, in float64, all first derivatives."""
    for p, table in tables.scores():
        arguments = [torch.tensor(table[k], dtype=dtype) for k in ("rho", "kappa", "tau")]
        q, slope = (a.double().numpy() for a in vmf_score_and_slope(*arguments, p))
        assert np.isfinite(q).all() and np.isfinite(slope).all()
        assert (np.abs(q - table["q"]) <= PRECISION[dtype] * tables.q_scale(table)).all(), p
        for value in (slope, vmf_score_slope(*arguments, p).double().numpy()):
            assert (np.abs(value / table["slope"] - 1) <= PRECISION[dtype]).all(), p
        assert np.array_equal(vmf_score(*arguments, p).double().numpy(), q)
        if dtype == torch.float64:
            inputs = [a.requires_grad_() for a in arguments]
            grads = torch.autograd.grad(vmf_score(*inputs, p).sum(), inputs)
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
    assert (vmf_score(rho, kappa, 0.1, p).double() - exact).abs().max() <= 3e-6


@pytest.mark.usefixtures("with_and_without_kernel")
@pytest.mark.parametrize(
    ("x", "p"),
    [
        ((-0.08581, 0.429576, 1 / 2.22145), 2),
        ((1.0, 0.021327, 1 / 1.8521), 2),
        ((0.047199, 31.623, 1 / 8.3249), 3),
        ((-0.66517, 0.0035064, 1 / 2.3284), 3),
        ((-0.996094, 0.2478, 1 / 2.8856), 4),
        ((0.99998, 3.5926, 1 / 1.555), 6),
    ],
)
def test_the_largest_errors_of_small_orders(x: tuple[float, ...], p: int) -> None:
    """Points of an adversarial search, where a product over all steps of the recurrence was off by
    7 to 11 eps; in the neighbourhood, since one rounding decides."""
    near = [float(np.float32(a)) for a in x]
    inputs = [np.float32(near[1] * (1 + i * 2.0**-20)) for i in range(-60, 61)]
    points = [(near[0], float(kappa), near[2]) for kappa in inputs]
    truth = np.array([arb.score(*point, p)[:2] for point in points]).T
    for dtype in DTYPES:
        rho, kappa, tau = (torch.tensor(a, dtype=dtype) for a in zip(*points, strict=True))
        error = np.abs(vmf_score(rho, kappa, tau, p).double().numpy() - truth[0])
        size = np.maximum(abs(truth[0]), abs(near[0] * truth[1]))
        assert (error <= 5 * torch.finfo(dtype).eps * size).all(), dtype


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


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("p", [3, 17, 128, 1024])
def test_remainder_without_cancellation(p: int, dtype: torch.dtype) -> None:
    """Against the remainder in Arb, also at t = 0.01 where it is 1e-7 of the gain or less."""
    kappas, taus = (0.01, 3.0, 200.0, 5000.0), (100.0, 1.0, 1 / 30)
    grid = itertools.product((-1.0, -0.25, 0.5, 1.0), kappas, taus)
    points = np.array([*grid], np.float32).astype(np.float64)
    exact, scale = np.array([arb.remainder(*point, p) for point in points]).T
    r = decompose(*torch.from_numpy(points.T).to(dtype), p).remainder.double().numpy()
    assert (abs(r - exact) <= 4 * PRECISION[dtype] * scale).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_float32_rounded(dtype: torch.dtype) -> None:
    rho = torch.linspace(-1, 1, 9).to(dtype)
    kappa = torch.tensor(50.0, dtype=dtype)
    q = vmf_score(rho, kappa, 0.1, 128)
    assert q.dtype == dtype
    assert torch.equal(q, vmf_score(rho.float(), 50.0, 0.1, 128).to(dtype))


@pytest.mark.parametrize("p", [2, 3, 17, 128, 2048])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_up_to_the_limits(p: int, dtype: torch.dtype) -> None:
    """Scores are finite for all allowed arguments, and in float32 equal those in float64."""
    most, least = (math.log2(v) for v in LIMITS[dtype][:2])
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
        tau = tau.clamp_min(LIMITS[torch.float32].least_tau)
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
    ("arguments", "message"),
    [
        ((RHO, RHO - 0.2, 0.1, 8), r"kappa >= 0 and finite, got -0.1 at index 0"),
        ((RHO, math.inf, 0.1, 8), r"kappa >= 0 and finite, got inf"),
        ((RHO, 1e20, 0.1, 8), r"kappa <= 1.15292e\+18 in .*32, got 1e\+20"),
        ((RHO, 1.0, 1e-20, 8), r"tau >= 7.45058e-09 in .*32, got 1e-"),
        ((RHO.double(), 1e160, 0.1, 8), r"kappa <= 1.6\d*e\+150 in .*64"),
        ((RHO, 1.0, 0.1, 10**18), r"p <= 1e\+11 in .*32, got 1.000e\+18"),
        ((0.1, 1.0, 0.1, 10**40), r"p <= 1e\+30 in .*64, got 1.000e\+40"),
        ((RHO * 10, 1.0, 0.1, 8), r"rho in \[-1, 1\], got 2 at index 1"),
        ((NAN, 1.0, 0.1, 8), r"rho in \[-1, 1\], got nan at index 1"),
        ((NAN.reshape(3, 1), RHO, 0.1, 8), r"rho in .*, got nan at index \(1, 0\)"),
        ((RHO, 1.0, 0.1, 1), r"p to be an integer >= 2, got 1"),
        ((RHO, 1.0, 0.1, 8.5), r"p to be an integer >= 2, got 8.5"),
        ((torch.tensor([0, 1]), 1.0, 0.1, 8), r"rho of a floating dtype, got torch.int64"),
        ((RHO, torch.ones(2), 0.1, 8), r"shapes that broadcast, got rho \(3,\), kappa \(2,\)"),
        ((RHO, "1", 0.1, 8), r"kappa to be a tensor or number, got str"),
        ((RHO, 1e39, 0.1, 8), r"kappa within the range of torch.float32, got 1e\+39"),
    ],
)
def test_bad_input(arguments: tuple[Any, ...], message: str) -> None:
    for function in (vmf_score, vmf_score_slope, vmf_score_and_slope, decompose):
        with pytest.raises(ValueError, match=f"expected {message}"):
            function(*arguments)
    with pytest.raises(ValueError, match=r"share their last dimension, got \(4,\) and \(5,\)"):
        tangent_gradient(torch.ones(4), torch.ones(5), 1.0, 0.1)


def test_rounding_beyond_one_is_clamped() -> None:
    over = torch.tensor([1 + 5e-7, -1 - 5e-7])
    ends = torch.tensor([1.0, -1.0])
    assert torch.equal(vmf_score(over, 50.0, 0.1, 128), vmf_score(ends, 50.0, 0.1, 128))
    with pytest.raises(ValueError, match="expected rho"):
        vmf_score(torch.tensor([1 + 1e-4]), 50.0, 0.1, 128)
