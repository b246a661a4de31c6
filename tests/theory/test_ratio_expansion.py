"""The expansion of the Bessel ratio: terms from mpmath, bounds against Arb."""

# pyright: reportCallIssue=false, reportArgumentType=false
# Bad input is passed on purpose, and arguments are unpacked from lists.

from __future__ import annotations

import mpmath
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reference import arb
from resultant import bessel_ratio
from resultant.theory.ratio_expansion import (
    LEAST_ORDER,
    ratio_approximation,
    ratio_bound,
    ratio_terms,
)
from theory.orders import R0, R1, R2, f64


@pytest.mark.parametrize("lam", [1e-6, 0.03, 0.7, 1.0, 2.0, 5.5, 300.0])
def test_ratio_terms_are_derivatives(lam: float) -> None:
    with mpmath.workdps(60):
        u = mpmath.mpf(lam)
        d = [mpmath.diff(R0, u, n) for n in (1, 2)]
        want = [
            *(R0(u), R1(u), R2(u), d[0], mpmath.diff(R1, u), d[1]),
            *(R0(u) / u, R1(u) / u, d[0] / u - R0(u) / u**2),
        ]
    got = ratio_terms(torch.tensor(lam, dtype=torch.float64))
    for name, a, b in zip(got._fields, got, want, strict=True):
        # r1' and r2 pass through zero, at lambda = 1 and 2.
        assert float(a) == pytest.approx(float(b), rel=2e-15, abs=1e-17), name


def test_ratio_terms_solve_the_riccati_equation() -> None:
    """Each order of eq:scaled-riccati, and the residual that the proof states."""
    u = mpmath.mpf("1.3")
    for z in (mpmath.mpf("0.4"), u, mpmath.mpf(6)):
        with mpmath.workdps(60):
            for eps in (mpmath.mpf("0.01"), mpmath.mpf("0.5")):
                a = lambda v, e=eps: R0(v) + e * R1(v) + e * e * R2(v)  # noqa: E731
                left = 1 - (2 + eps) / z * a(z) - a(z) ** 2 - eps * mpmath.diff(a, z)
                S2 = 1 + z * z
                stated = -(eps**3) * (z**4 - 10 * z**2 + 4) / (4 * S2 ** mpmath.mpf("3.5"))
                stated -= eps**4 * z**2 * (z**2 - 4) ** 2 / (64 * S2**5)
                assert abs(left - stated) < 1e-40


@pytest.mark.slow
@settings(deadline=None, max_examples=150)
@given(
    nu=st.floats(0, 1).map(lambda v: LEAST_ORDER * 1e4**v),
    lam=st.one_of(st.just(0.0), st.floats(-3, 2).map(lambda v: 10**v)),
)
def test_ratio_remainder_is_bounded(nu: float, lam: float) -> None:
    exact = arb.bessel(nu, nu * lam)[1]
    error = abs(float(ratio_approximation(nu, nu * lam)) - exact)
    assert error <= float(ratio_bound(nu)) + 1e-15


def test_ratio_approximation_is_the_joint_form() -> None:
    nu, lam = f64([[1.5], [63.0], [1023.0]], [0.0, 0.2, 1.0, 7.0, 1e3])
    a = ratio_terms(lam)
    got = ratio_approximation(nu, nu * lam)
    torch.testing.assert_close(got, a.r0 + a.r1 / nu + a.r2 / nu**2, rtol=1e-14, atol=1e-18)
    errors = (got - bessel_ratio(nu, nu * lam)).abs()
    assert (errors <= ratio_bound(nu)).all()
