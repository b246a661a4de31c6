"""The expansions: derivatives and coefficients from mpmath, residual orders against the exact
score, bounds against Arb, ranges measured, bad input."""

# pyright: reportCallIssue=false, reportArgumentType=false
# Bad input is passed on purpose, and arguments are unpacked from lists.

from __future__ import annotations

import itertools
import warnings
from typing import Any

import mpmath
import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from reference import arb
from resultant import vmf_score
from resultant.theory.ratio_expansion import (
    ratio_approximation,
    ratio_bound,
    ratio_terms,
)
from resultant.theory.score_expansion import (
    LEAST_DIMENSION,
    RANGE,
    directional_cumulants,
    fixed_expansion,
    fixed_terms,
    free_energy_expansion,
    in_range,
    joint_expansion,
    joint_terms,
)
from resultant.theory.softmax import propagate_loss, propagate_probabilities
from theory.orders import R0, R1, R2, f64, slopes


@pytest.mark.slow
@pytest.mark.parametrize("rho", [-1.0, -0.6, 0.0, 0.35, 1.0])
def test_joint_terms_are_taylor_coefficients(rho: float) -> None:
    """B_k from the integral of r0 + eps r1 + eps^2 r2 along the tilt, expanded by mpmath."""
    lam, t, p = 1.4, 3.0, 34
    nu = p / 2 - 1
    with mpmath.workdps(50):
        u, s, c = mpmath.mpf(lam), mpmath.mpf(t), mpmath.mpf(rho)

        def score(eps: Any) -> Any:
            # (tilted lambda - lambda) / eps, by conjugation
            h = 2 * u * s * c + eps * s * s
            d = h / (mpmath.sqrt(u * u + eps * h) + u)
            a = lambda v: R0(v) + eps * R1(v) + eps**2 * R2(v)  # noqa: E731
            return d * mpmath.quad(lambda x: a(u + eps * d * x), [0, 1])

        want = mpmath.taylor(score, 0, 2)
    got = joint_terms(*f64(rho, nu * lam, 1 / t), p)
    for a, b in zip(got, want, strict=True):
        assert float(a) == pytest.approx(float(b), rel=1e-12, abs=1e-13)


def test_joint_residual_slopes() -> None:
    """sec:numerical-expansion-validation: the paper prints medians -0.999, -2.000, -2.999."""
    p = [66, 130, 258, 514, 1026, 2050]
    nu = torch.tensor(p, dtype=torch.float64) / 2 - 1
    rho, lam, t = torch.meshgrid(
        *f64([-0.9, -0.5, 0.0, 0.3, 0.6, 0.95], [0.3, 0.7, 1.0, 2.0, 4.0], [1.0, 2.0, 5.0]),
        indexing="ij",
    )
    for order, target in enumerate((-1, -2, -3)):
        errors = torch.stack(
            [
                (joint_expansion(rho, n * lam, 1 / t, k, order) - vmf_score(rho, n * lam, 1 / t, k))
                for k, n in zip(p, nu.tolist(), strict=True)
            ]
        )
        orders = slopes(nu, errors.abs(), 1e-13)
        assert len(orders) >= 85
        assert orders.median() == pytest.approx(target, abs=0.02)
        assert orders.quantile(0.9) < target + 0.2


def test_joint_gradient_is_of_the_same_order() -> None:
    """The C^1 claim of thm:joint-score-expansion: the slopes in rho differ by O(nu^-3)."""
    p = [34, 66, 130, 258, 514]
    errors = []
    for k in p:
        rho = torch.linspace(-1, 1, 21, dtype=torch.float64, requires_grad=True)
        kappa, tau = f64(1.5 * (k / 2 - 1), 0.5)
        gap = joint_expansion(rho, kappa, tau, k) - vmf_score(rho, kappa, tau, k)
        errors.append(torch.autograd.grad(gap.sum(), rho)[0].abs().max())
    nu = torch.tensor(p, dtype=torch.float64) / 2 - 1
    assert float(slopes(nu, torch.stack(errors), 0.0)) == pytest.approx(-3, abs=0.1)


@pytest.mark.parametrize("p", [2, 3, 4, 10])
def test_fixed_residual_slopes(p: int) -> None:
    kappa = 2.0 ** torch.arange(6, 13, dtype=torch.float64)
    rho, t = torch.meshgrid(*f64([-0.9, -0.4, 0.0, 0.5, 0.8, 1.0], [0.7, 1.0, 3.0]), indexing="ij")
    for order in range(3):
        k = kappa[:, None, None]
        errors = fixed_expansion(rho, k, 1 / t, p, order) - vmf_score(rho, k, 1 / t, p)
        orders = slopes(kappa, errors.abs(), 1e-13)
        assert len(orders) >= 9
        assert orders.median() == pytest.approx(-1 - order, abs=0.06)


def test_partial_sums() -> None:
    args = *f64([0.3, -0.7], [[40.0], [90.0]], 0.5), 64
    for sum_, terms, large in (
        (joint_expansion, joint_terms(*args), 31.0),
        (fixed_expansion, fixed_terms(*args), args[1]),
    ):
        total = torch.zeros(2, 2, dtype=torch.float64)
        for order, term in enumerate(terms):
            assert term.shape == (2, 2)
            total = total + term / large**order
            torch.testing.assert_close(sum_(*args, order), total, rtol=1e-14, atol=0)


def test_limits_do_not_commute() -> None:
    """sec:noncommuting-limits: t rho along fixed p, t rho r0(lambda) along fixed lambda."""
    rho, tau, lam = 0.6, 0.5, 1.5
    cosine, angular = rho / tau, rho / tau * float(ratio_terms(*f64(lam)).r0)
    assert cosine - angular > 0.5
    along_kappa = [float(vmf_score(rho, k, tau, 16)) for k in (1e3, 1e4, 1e5)]
    along_both = [float(vmf_score(rho, lam * (p / 2 - 1), tau, p)) for p in (2000, 20000, 200000)]
    for path, limit in ((along_kappa, cosine), (along_both, angular)):
        gaps = [abs(q - limit) for q in path]
        assert gaps[2] < 1e-3 and gaps[0] > 9 * gaps[1] > 81 * gaps[2]
    # Q1/kappa does not vanish along the joint path, where the fixed expansion is not ordered,
    _, Q1, _ = fixed_terms(rho, lam * 99999, tau, 200000)
    assert abs(float(Q1) / (lam * 99999)) > 0.3
    # and the joint one goes over to the cosine as lambda grows.
    far = joint_expansion(rho, 1e6 * 7, tau, 16)
    assert float(far) == pytest.approx(cosine, rel=1e-5)


def test_isotropic_class() -> None:
    """At kappa = 0, outside the theorem, the expansion is still that of log 0F1."""
    p = [34, 66, 130, 258]
    errors = [joint_expansion(0.3, 0.0, 0.5, k) - vmf_score(*f64(0.3, 0.0, 0.5), k) for k in p]
    nu = torch.tensor(p, dtype=torch.float64) / 2 - 1
    assert float(slopes(nu, torch.stack(errors).abs(), 0.0)) == pytest.approx(-3, abs=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("p", [2, 3, 16, 128, 1024])
def test_cumulants_are_derivatives_of_the_score(p: int) -> None:
    """Taylor coefficients in t of the log-MGF in high precision, kappa from nil to large."""
    for rho, lam in itertools.product((-0.8, 0.0, 0.5, 1.0), (0.0, 1e-4, 0.5, 3.0, 20.0)):
        kappa = lam * p / 2
        with mpmath.workdps(60):
            k, c, n = mpmath.mpf(kappa), mpmath.mpf(rho), mpmath.mpf(p) / 2

            def phi(t: Any, k: Any = k, c: Any = c, n: Any = n) -> Any:
                return mpmath.log(mpmath.hyp0f1(n, (k * k + 2 * k * t * c + t * t) / 4))

            want = [mpmath.diff(phi, 0, j) for j in (1, 2, 3)]
        got = directional_cumulants(*f64(rho, kappa), p)
        for a, b in zip(got, want, strict=True):
            assert float(a) == pytest.approx(float(b), rel=1e-11, abs=1e-17), (rho, lam)


def test_cumulants_are_the_forms_of_the_paper() -> None:
    rho, kappa, p = 0.6, 50.0, 64
    _, R, dR, ddR = arb.bessel(31, kappa)
    across = 1 - rho * rho
    want = [
        rho * R,
        across * R / kappa + rho**2 * dR,
        rho**3 * ddR + 3 * rho * across * (dR / kappa - R / kappa**2),
    ]
    got = directional_cumulants(rho, kappa, p)
    assert [float(a) for a in got] == pytest.approx(want, rel=1e-12)
    assert len(directional_cumulants(rho, kappa, p, order=1)) == 1
    # Three cumulants leave O(nu^-3) of the score.
    nu = torch.tensor([31.0, 63.0, 127.0, 255.0], dtype=torch.float64)
    errors = []
    for n in nu.tolist():
        k1, k2, k3 = directional_cumulants(*f64(rho, 1.5 * n), int(2 * n + 2))
        q = vmf_score(*f64(rho, 1.5 * n, 0.5), int(2 * n + 2))
        errors.append((q - (2 * k1 + 2 * k2 + 8 / 6 * k3)).abs())
    assert float(slopes(nu, torch.stack(errors), 0.0)) == pytest.approx(-3, abs=0.1)


def test_range() -> None:
    """The errors that the comment on RANGE states, on a grid that reaches both ends."""
    lam = torch.cat([torch.zeros(1), torch.logspace(-2, 1.5, 40)]).double()[:, None]
    rho = torch.linspace(-1, 1, 41, dtype=torch.float64)
    S = (1 + lam**2).sqrt()
    for p in (LEAST_DIMENSION, 16, 64, 512, 4096):
        nu = p / 2 - 1
        for f in (0.05, 0.15, RANGE * (1 - 1e-12)):
            t = f * nu * S
            assert in_range(nu * lam, 1 / t, p).all()
            q = vmf_score(rho, nu * lam, 1 / t, p)
            error = (joint_expansion(rho, nu * lam, 1 / t, p) - q).abs() / t
            assert error.max() < (1 / 500 if p >= 16 else 1 / 150)
    assert not in_range(nu * lam, 1 / (1.01 * RANGE * nu * S), p).any()
    assert not in_range(nu * lam, torch.tensor(1e3), LEAST_DIMENSION - 1).any()


def test_one_warning_outside_the_range() -> None:
    rho, kappa = f64([0.1, 0.2, 0.3], [10.0, 20.0, 500.0])
    with pytest.warns(UserWarning, match="2 of 3 values are outside") as caught:
        joint_expansion(rho, kappa, 0.1, 64)
    assert len(caught) == 1 and caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        joint_expansion(rho, kappa, 0.1, 256)
        joint_expansion(rho, kappa, 0.1, 64, validate_args=False)


def test_gradients() -> None:
    arguments = [a.requires_grad_() for a in f64([0.3, -0.8], [[0.0], [25.0]], 0.4)]
    away = [a.requires_grad_() for a in f64([0.3, -0.8], [[3.0], [25.0]], 0.4)]
    y = torch.tensor([1, 0])
    # Differences at kappa = 0 reach below it.
    loose = {"validate_args": False}
    for f, inputs in (
        (lambda *a: joint_expansion(*a, 32, **loose), arguments),
        (lambda *a: free_energy_expansion(*a, 32, **loose), arguments),
        (lambda *a: fixed_expansion(*a, 32), away),
        (lambda *a: propagate_loss(*joint_terms(*a, 32, **loose), 32, y), arguments),
        (lambda *a: propagate_probabilities(*joint_terms(*a, 32, **loose), 32), arguments),
        (lambda *a: directional_cumulants(*a, 32), away[:2]),
        (lambda x: ratio_approximation(15.0, x), away[1:2]),
    ):
        assert gradcheck(f, inputs)
    assert gradgradcheck(lambda *a: directional_cumulants(*a, 32), away[:2])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_dtypes(dtype: torch.dtype) -> None:
    rho, kappa, tau = (a.to(dtype) for a in f64([0.25, -0.75], [40.0, 80.0], 0.5))
    wide = [a.double() for a in (rho, kappa, tau)]
    y = torch.tensor(1)
    for f in (
        lambda *a: joint_expansion(*a, 64),
        lambda *a: fixed_expansion(*a, 64),
        lambda *a: free_energy_expansion(*a, 64),
        lambda *a: torch.stack(directional_cumulants(*a[:2], 64)),
        lambda *a: ratio_approximation(31.0, a[1]),
        lambda *a: ratio_bound(a[1]),
        lambda *a: propagate_probabilities(*a[:2], a[0], 64),
        lambda *a: propagate_loss(*a[:2], a[0], 64, y),
    ):
        got, want = f(rho, kappa, tau), f(*wide)
        assert got.dtype == dtype
        eps = torch.finfo(dtype).eps
        torch.testing.assert_close(got.double(), want, rtol=8 * eps, atol=8 * eps)


def test_large_arguments() -> None:
    """No power overflows in float32."""
    a = ratio_terms(torch.tensor([1e10, 1e25, 1e37]))
    assert all(v.isfinite().all() for v in a)
    torch.testing.assert_close(a.r0, torch.ones(3))
    assert float(ratio_approximation(31.0, torch.tensor(1e30))) == 1


@pytest.mark.slow
def test_compiles_whole() -> None:
    args = f64([0.3, -0.8], [4.0, 25.0], 0.01)
    compiled = torch.compile(lambda *a: joint_expansion(*a, 32), fullgraph=True, backend="eager")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = compiled(*args)
    torch.testing.assert_close(got, joint_expansion(*args, 32, validate_args=False))


def test_joint_expansion_under_vmap() -> None:
    rho, kappa = torch.rand(4, 3).double(), torch.rand(4, 3).double() * 50
    mapped = torch.func.vmap(lambda r, k: joint_expansion(r, k, 0.1, 128))(rho, kappa)
    torch.testing.assert_close(mapped, joint_expansion(rho, kappa, 0.1, 128))
