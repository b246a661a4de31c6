"""The expansions of ratio and score: derivatives and coefficients from mpmath, orders of residuals
against the exact score, bounds against Arb, ranges measured; leading scores and softmax."""

# pyright: reportCallIssue=false, reportArgumentType=false
# Arguments are unpacked from lists.

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import mpmath
import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor

import resultant as rs
from class_samples import F64, close
from decisions.arcs import BETA, OFFSET, check
from reference import arb
from resultant.theory import score_expansion as expansion
from small_classes import TAU, C, P, classes


def f64(*values: object) -> list[Tensor]:
    return [torch.tensor(v, dtype=F64) for v in values]


# The ratio at nu u is R0(u) + R1(u) / nu + R2(u) / nu^2 + ...
R0: Callable = lambda u: u / (1 + mpmath.sqrt(1 + u * u))  # noqa: E731
R1: Callable = lambda u: -u / (2 * (1 + u * u))  # noqa: E731
R2: Callable = lambda u: u * (4 - u * u) / (8 * mpmath.sqrt(1 + u * u) ** 5)  # noqa: E731


@pytest.mark.parametrize("lam", [1e-6, 0.03, 0.7, 1.0, 2.0, 5.5, 300.0])
def test_ratio_terms_are_derivatives(lam: float) -> None:
    with mpmath.workdps(60):
        u = mpmath.mpf(lam)
        d = [mpmath.diff(R0, u, n) for n in (1, 2)]
        want = [
            *(R0(u), R1(u), R2(u), d[0], mpmath.diff(R1, u), d[1]),
            *(R0(u) / u, R1(u) / u, d[0] / u - R0(u) / u**2),
        ]
    got = expansion.ratio_terms(torch.tensor(lam, dtype=F64))
    for name, a, b in zip(got._fields, got, want, strict=True):
        # r1' and r2 pass through zero, at lambda = 1 and 2.
        assert float(a) == pytest.approx(float(b), rel=2e-15, abs=1e-17), name


@pytest.mark.slow
@settings(deadline=None, max_examples=150)
@given(
    nu=st.floats(0, 1).map(lambda v: expansion.LEAST_ORDER * 1e4**v),
    lam=st.one_of(st.just(0.0), st.floats(-3, 2).map(lambda v: 10**v)),
)
def test_ratio_remainder_is_bounded(nu: float, lam: float) -> None:
    exact = arb.bessel(nu, nu * lam)[1]
    error = abs(float(rs.ratio_approximation(nu, nu * lam)) - exact)
    assert error <= float(rs.ratio_bound(nu)) + 1e-15


def test_no_power_overflows_in_float32() -> None:
    a = expansion.ratio_terms(torch.tensor([1e10, 1e25, 1e37]))
    assert all(v.isfinite().all() for v in a)
    torch.testing.assert_close(a.r0, torch.ones(3))
    assert float(rs.ratio_approximation(31.0, torch.tensor(1e30))) == 1


@pytest.mark.slow
@pytest.mark.parametrize("rho", [-1.0, -0.6, 0.0, 0.35, 1.0])
def test_joint_terms_are_taylor_coefficients(rho: float) -> None:
    """B_k from the integral of r0 + eps r1 + eps^2 r2 along the tilt, expanded by mpmath."""
    lam, t, p = 1.4, 3.0, 34
    with mpmath.workdps(50):
        u, s, c = mpmath.mpf(lam), mpmath.mpf(t), mpmath.mpf(rho)

        def score(eps: Any) -> Any:
            # (tilted lambda - lambda) / eps, by conjugation
            h = 2 * u * s * c + eps * s * s
            d = h / (mpmath.sqrt(u * u + eps * h) + u)
            a = lambda v: R0(v) + eps * R1(v) + eps**2 * R2(v)  # noqa: E731
            return d * mpmath.quad(lambda x: a(u + eps * d * x), [0, 1])

        want = mpmath.taylor(score, 0, 2)
    got = rs.joint_terms(*f64(rho, (p / 2 - 1) * lam, 1 / t), p)
    assert [float(a) for a in got] == pytest.approx([float(b) for b in want], rel=1e-12, abs=1e-13)


@pytest.mark.parametrize(
    ("rho", "lam", "s"),
    [(0.5, 1.0, 1e-9), (-1.0, 2.0, 2.0), (-0.3, 1e-5, 1e-7), (0.9, 50.0, 3.0), (1, 0, 1e-6)],
)
def test_free_energy_is_psi(rho: float, lam: float, s: float) -> None:
    """Against the closed form in high precision, also where the two ends nearly agree."""
    with mpmath.workdps(60):
        c, u, v = (mpmath.mpf(a) for a in (rho, lam, s))
        S, S1 = (mpmath.sqrt(1 + a) for a in (u * u, u * u + 2 * u * v * c + v * v))
        want = S1 - mpmath.log(1 + S1) - S + mpmath.log(1 + S)
    got = rs.free_energy_expansion(*f64(rho, lam, 1 / s), 4, 0)  # nu = 1
    assert float(got) == pytest.approx(float(want), rel=1e-14)


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
        for order in (1, 2, 3):
            got = [float(a) for a in rs.directional_cumulants(*f64(rho, kappa), p, order)]
            expected = [float(a) for a in want[:order]]
            assert got == pytest.approx(expected, rel=1e-12, abs=1e-17), (rho, lam)


def test_range() -> None:
    """The errors that the comment on RANGE states, on a grid that reaches both ends."""
    lam = torch.cat([torch.zeros(1), torch.logspace(-2, 1.5, 40)]).double()[:, None]
    rho = torch.linspace(-1, 1, 41, dtype=F64)
    S = (1 + lam**2).sqrt()
    for p in (expansion.LEAST_DIMENSION, 16, 64, 512, 4096):
        nu = p / 2 - 1
        for f in (0.05, 0.15, expansion.RANGE * (1 - 1e-12)):
            t = f * nu * S
            assert expansion.in_range(nu * lam, 1 / t, p).all()
            q = rs.vmf_score(rho, nu * lam, 1 / t, p)
            error = (rs.joint_expansion(rho, nu * lam, 1 / t, p) - q).abs() / t
            assert error.max() < (1 / 500 if p >= 16 else 1 / 150)
    assert not expansion.in_range(nu * lam, 1 / (1.01 * expansion.RANGE * nu * S), p).any()
    assert not expansion.in_range(nu * lam, torch.tensor(1e3), expansion.LEAST_DIMENSION - 1).any()


def test_one_warning_outside_the_range() -> None:
    rho, kappa = f64([0.1, 0.2, 0.3], [10.0, 20.0, 500.0])
    with pytest.warns(UserWarning, match="2 of 3 values are outside") as caught:
        rs.joint_expansion(rho, kappa, 0.1, 64)
    assert len(caught) == 1 and caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rs.joint_expansion(rho, kappa, 0.1, 256)
        rs.joint_expansion(rho, kappa, 0.1, 64, validate_args=False)


Y = torch.tensor([1, 0])
LOOSE: dict[str, Any] = {"validate_args": False}
# Functions of rho, kappa and tau.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "joint": lambda *a: rs.joint_expansion(*a, 64, **LOOSE),
    "fixed": lambda *a: rs.fixed_expansion(*a, 64, **LOOSE),
    "free energy": lambda *a: rs.free_energy_expansion(*a, 64, **LOOSE),
    "loss": lambda *a: rs.propagate_loss(*rs.joint_terms(*a, 64, **LOOSE), 64, Y),
    "probabilities": lambda *a: rs.propagate_probabilities(*rs.joint_terms(*a, 64, **LOOSE), 64),
    "cumulants": lambda r, k, t: torch.stack(rs.directional_cumulants(r, k, 64, **LOOSE)),
    "ratio": lambda r, k, t: rs.ratio_approximation(31.0, k, **LOOSE),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_dtypes(name: str, dtype: torch.dtype) -> None:
    arguments = [a.to(dtype) for a in f64([0.25, -0.75], [40.0, 80.0], 0.5)]
    got, want = FUNCTIONS[name](*arguments), FUNCTIONS[name](*(a.double() for a in arguments))
    assert got.dtype == dtype == rs.ratio_bound(arguments[1]).dtype
    eps = torch.finfo(dtype).eps
    torch.testing.assert_close(got.double(), want, rtol=8 * eps, atol=8 * eps)


@pytest.mark.slow
def test_a_compiled_joint_expansion_warns_of_nothing() -> None:
    args = f64([0.3, -0.8], [4.0, 25.0], 0.01)
    compiled = torch.compile(lambda *a: rs.joint_expansion(*a, 32), fullgraph=True, backend="eager")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = compiled(*args)
    torch.testing.assert_close(got, rs.joint_expansion(*args, 32, validate_args=False))


def test_joint_leading() -> None:
    state = classes()
    rho = torch.linspace(-1, 1, 9, dtype=F64).unsqueeze(1).expand(-1, C)
    lam = state.kappa / (P / 2 - 1)
    r0 = lam / (1 + torch.sqrt(1 + lam**2))
    star, g = rs.target_temperature(state, TAU, BETA), rs.mean_resultant(P, state.kappa) / TAU
    slopes = {
        "native": r0 / TAU,
        "temperature": r0 / star,
        "preserve": r0 / star,
        "angular": r0 / TAU + (1 - BETA) * (g.mean() - g),
        "cosine": g.mean(),
    }
    for realization, slope in slopes.items():
        leading = rs.joint_leading(state, rs.Rule(TAU, realization, BETA, offset=OFFSET))
        close(leading.at(rho), OFFSET + slope * rho)


def expanded() -> tuple[Tensor, Tensor, Tensor]:
    """Return the expansion of scores [8, 6] with offsets, p = 64."""
    g = torch.Generator().manual_seed(1)
    rho = 2 * torch.rand(8, 6, generator=g, dtype=F64) - 1
    lam = 0.3 + 3 * torch.rand(6, generator=g, dtype=F64)
    B0, B1, B2 = rs.joint_terms(rho, 31 * lam, torch.tensor(0.25, dtype=F64), 64)
    return torch.randn(6, generator=g, dtype=F64) + B0, B1, B2


def test_propagation_is_the_taylor_series_of_softmax() -> None:
    """The coefficients in eps, from automatic differentiation of log-sum-exp."""
    l0, B1, B2 = expanded()
    y, eps = torch.arange(8) % 6, 1 / 31

    def loss(e: Tensor) -> Tensor:
        return torch.nn.functional.cross_entropy(l0 + e * B1 + e * e * B2, y, reduction="none")

    def probabilities(e: Tensor) -> Tensor:
        return (l0 + e * B1 + e * e * B2).softmax(-1)

    zero = torch.zeros((), dtype=F64)
    for f, got in (
        (loss, rs.propagate_loss(l0, B1, B2, 64, y)),
        (probabilities, rs.propagate_probabilities(l0, B1, B2, 64)),
    ):
        first = torch.func.jacrev(f)
        want = f(zero) + eps * first(zero) + eps**2 / 2 * torch.func.jacrev(first)(zero)
        torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-14)
    P = l0.softmax(-1)
    V1 = (P * B1**2).sum(-1) - (P * B1).sum(-1) ** 2
    gap = rs.propagate_loss(l0, B1, B2, 64, y) - rs.propagate_loss(
        l0, B1, B2, 64, y, variance=False
    )
    torch.testing.assert_close(gap, eps**2 * V1 / 2)


def test_propagation_broadcasts_and_masks() -> None:
    l0, B1, B2 = expanded()
    y = torch.arange(8) % 6
    unchecked = rs.propagate_loss(l0, B1, B2, 64, y, validate_args=False)
    assert torch.equal(unchecked, rs.propagate_loss(l0, B1, B2, 64, y))
    every = rs.propagate_loss(l0[:, None], B1[:, None], B2[:, None], 64, torch.arange(6))
    assert every.shape == (8, 6)
    torch.testing.assert_close(every[:, 2], rs.propagate_loss(l0, B1, B2, 64, 2))
    l0 = l0.clone()
    l0[:, 3] = -torch.inf
    P = rs.propagate_probabilities(l0, B1, B2, 64)
    assert (P[:, 3] == 0).all() and P.isfinite().all()
    assert rs.propagate_loss(l0, B1, B2, 64, 2).isfinite().all()


@pytest.mark.slow
@pytest.mark.parametrize("level", [0.5, 0.2])
def test_posterior_thresholds(level: float) -> None:
    state, pairs = classes(), torch.tensor([[0, 5], [5, 0], [4, 2], [3, 1]])
    rule = rs.Rule(TAU, "angular", 0.5, offset=OFFSET)
    roots = rs.posterior_thresholds(rs.realize(state, rule), pairs, level)
    check(roots, state, rule, pairs, lambda s, a, b: s.softmax(-1)[:, a] - level)
