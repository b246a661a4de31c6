"""Moments, entropies and divergences of the von Mises-Fisher distribution."""

import math

import numpy as np
import pytest
import torch
from flint import arb as ball
from torch import Tensor
from torch.distributions import kl_divergence

from reference import arb
from resultant.special.ratio import ratio
from resultant.vmf.distribution import HypersphericalUniform, VonMisesFisher
from resultant.vmf.estimators import mean_resultant
from vmf import directions
from vmf.directions import (
    EPS,
    axis,
    direction,
    double,
    exact,
    exact_log_area,
    exact_phi,
    exact_ratio,
)


def exact_entropy(p: int, kappa: float) -> float:
    return exact(lambda: exact_log_area(p) + exact_phi(p, kappa) - kappa * exact_ratio(p, kappa))


def exact_divergence(p: int, a: float, b: float) -> float:
    """The divergence from concentration a to b in the same direction."""

    return exact(
        lambda: exact_phi(p, b) - exact_phi(p, a) - (ball(b) - ball(a)) * exact_ratio(p, a)
    )


class TestMoments:
    @pytest.mark.slow
    @pytest.mark.parametrize(("p", "kappa"), [(2, 0.5), (3, 4.0), (10, 25.0), (128, 60.0)])
    def test_variances_against_quadrature(self, p: int, kappa: float) -> None:
        nodes, weights = np.polynomial.legendre.leggauss(400)
        theta = (nodes + 1) * math.pi / 2
        logs = directions.log_density(p, kappa, theta)
        density = weights * np.exp(logs - logs.max())
        density /= density.sum()
        mean = (density * np.cos(theta)).sum()
        along = (density * (np.cos(theta) - mean) ** 2).sum()
        across = (density * np.sin(theta) ** 2).sum() / (p - 1)
        loc = direction(p)
        d = VonMisesFisher(loc, kappa)
        assert d.variance_along.item() == pytest.approx(along, rel=1e-11, abs=0)
        assert d.variance_across.item() == pytest.approx(across, rel=1e-11, abs=0)
        torch.testing.assert_close(d.mean, mean * loc, rtol=1e-11, atol=0)
        torch.testing.assert_close(d.variance, along * loc**2 + across * (1 - loc**2))
        assert d.mode is d.loc

    @pytest.mark.usefixtures("with_and_without_kernel")
    @pytest.mark.parametrize("p", directions.WIDE_DIMENSIONS)
    def test_entropy_against_arb_at_every_concentration(self, p: int) -> None:
        loc, kappa = axis(p), double(*directions.WIDE).requires_grad_()
        entropy = VonMisesFisher(loc, kappa).entropy()
        (slope,) = torch.autograd.grad(entropy.sum(), kappa)
        single = VonMisesFisher(loc.float(), kappa.detach().float()).entropy().tolist()
        rows = zip(entropy.tolist(), slope.tolist(), single, directions.WIDE, strict=True)
        for got, rise, rounded, k in rows:
            expected = exact_entropy(p, k)
            assert abs(got - expected) <= 2e-14 * max(1, abs(expected)), k
            assert rounded == pytest.approx(expected, rel=1e-6, abs=1e-5), k
            expected = -k * arb.bessel(p / 2 - 1, k)[2]
            assert rise == pytest.approx(expected, rel=2e-14, abs=0)

    @pytest.mark.slow
    def test_entropy_and_divergence_derivatives(self) -> None:
        loc, other = direction(5), direction(5)
        kappas = double(0.5, 2.0, 30.0).requires_grad_(), double(0.7, 2.0, 3.0).requires_grad_()

        def both(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
            d = VonMisesFisher(loc, a)
            return d.entropy(), kl_divergence(d, VonMisesFisher(other, b))

        assert torch.autograd.gradcheck(both, kappas, fast_mode=True)
        assert torch.autograd.gradgradcheck(both, kappas, fast_mode=True)


@pytest.mark.parametrize("p", [2, 3, 17, 4096])
def test_the_end_of_the_range(p: int) -> None:
    """Peak, entropy and divergence with their slopes to kappa = 1e140, where log I_nu(x) is
    x - log(2 pi x)/2 to far more digits than a double has; the next number is refused."""
    ends, a, nu = [1e30, 1e75, 1e110, 1.2e139, 1e140], (p - 1) / 2, p / 2 - 1
    log_area = math.log(2) + p / 2 * math.log(math.pi) - math.lgamma(p / 2)
    integral = [math.log(2 * math.pi) / 2 - nu * math.log(2) - math.lgamma(nu + 1)] * len(ends)
    integral = [c + a * math.log(k) for c, k in zip(integral, ends, strict=True)]  # of 1 - R
    loc, kappa = axis(p), double(*ends).requires_grad_()
    d = VonMisesFisher(loc, kappa)
    for value, expected, slopes in (
        (d.log_prob(loc), [c - log_area for c in integral], [a / k for k in ends]),
        (d.entropy(), [log_area - c + a for c in integral], [-a / k for k in ends]),
        (
            kl_divergence(d, VonMisesFisher(loc, 0.5 * kappa.detach())),
            [a * (math.log(2) - 0.5)] * len(ends),
            [0.5 * a / k for k in ends],
        ),
    ):
        (slope,) = torch.autograd.grad(value.sum(), kappa)
        torch.testing.assert_close(value.detach(), double(*expected), rtol=2e-14, atol=0)
        torch.testing.assert_close(slope, double(*slopes), rtol=2e-14, atol=0)
    with pytest.raises(ValueError, match=r"concentration in \[0, 1e\+140\], got 1.0001e\+140"):
        VonMisesFisher(loc, 1.0001e140)


class TestDivergence:
    @pytest.mark.slow
    @pytest.mark.parametrize("p", directions.WIDE_DIMENSIONS)
    @pytest.mark.parametrize("factor", [1e-9, 0.5, 1.0001, 1.5, 3.0, 1e6])
    def test_against_arb_at_every_concentration(self, p: int, factor: float) -> None:
        """The error is relative to the divergence, so it is never negative; also its slope in b."""
        a, b = double(*directions.WIDE), (factor * double(*directions.WIDE)).requires_grad_()
        got = kl_divergence(VonMisesFisher(axis(p), a), VonMisesFisher(axis(p), b))
        (slope,) = torch.autograd.grad(got.sum(), b)
        points = zip(a.tolist(), b.tolist(), got.tolist(), slope.tolist(), strict=True)
        for x, y, value, rise in points:
            # At a small order up to kappa = 45, r/A' = 2 kappa/(p - 1) ulps are lost.
            bar = 4 * EPS * max(2, 90 / (p - 1))
            assert value == pytest.approx(exact_divergence(p, x, y), rel=bar, abs=0), x
            change = exact(lambda: exact_ratio(p, y) - exact_ratio(p, x))  # noqa: B023
            assert rise == pytest.approx(change, rel=bar, abs=0), x

    @pytest.mark.slow
    @pytest.mark.parametrize("p", directions.DIMENSIONS[:-1])
    def test_of_close_arguments(self, p: int) -> None:
        """Nonnegative, and half the squared distance in the Fisher metric."""
        rng = np.random.default_rng(p)
        kappa = torch.from_numpy(10 ** rng.uniform(-3, 6, 300))
        # Steps and turns of every size, and none.
        step, turn = (torch.from_numpy(10 ** rng.uniform(-16, -6, 300)) for _ in range(2))
        step, turn = step * torch.from_numpy(rng.choice([-1, 0, 1], 300)), 0.1 * turn
        turn[::7] = 0
        other = turn.cos().unsqueeze(1) * axis(p) + turn.sin().unsqueeze(1) * axis(p, 1)
        moved = kappa * (1 + step)
        got = kl_divergence(VonMisesFisher(axis(p), kappa), VonMisesFisher(other, moved))
        fisher = ratio(p / 2 - 1, kappa, 1) * (moved - kappa) ** 2
        fisher += mean_resultant(p, kappa) * moved * (axis(p) - other).square().sum(1)
        assert (got >= 0).all()
        torch.testing.assert_close(got, 0.5 * fisher, rtol=1e-5, atol=1e-300)

    @pytest.mark.slow
    @pytest.mark.parametrize("p", directions.DIMENSIONS)
    @pytest.mark.parametrize("kappa", [1e-4, 1.0, 300.0])
    def test_to_the_uniform_law(self, p: int, kappa: float) -> None:
        d = VonMisesFisher(direction(p), kappa)
        uniform = HypersphericalUniform(p, dtype=torch.float64)
        expected = exact(lambda: kappa * exact_ratio(p, kappa) - exact_phi(p, kappa))
        assert kl_divergence(d, uniform).item() == pytest.approx(expected, rel=1e-11, abs=0)
        expected = directions.exact_integral(p, kappa)
        assert kl_divergence(uniform, d).item() == pytest.approx(expected, rel=1e-13, abs=0)
        assert kl_divergence(uniform, uniform).item() == 0

    def test_shapes(self) -> None:
        p = VonMisesFisher(direction(6, 3, 1).float(), torch.rand(4))
        q = VonMisesFisher(direction(6, 4).float(), torch.rand(4))
        assert kl_divergence(p, q).shape == (3, 4)
        assert kl_divergence(p, q).dtype == torch.float32
        assert kl_divergence(p, HypersphericalUniform(6, (5, 1, 1))).shape == (5, 3, 4)
