"""Samples of the vMF distribution and their gradients."""

import math
from typing import Any

import mpmath as mp
import pytest
import torch
from scipy import stats

from reference import arb
from resultant.special.ratio import ratio
from resultant.vmf import angle
from resultant.vmf.distribution import VonMisesFisher, unit_vector
from resultant.vmf.estimators import mean_resultant
from vmf import directions
from vmf.directions import angle_cdf, assert_mean, axis, bulk, direction, double


class TestSampling:
    @pytest.mark.parametrize(("p", "kappa"), directions.SAMPLED)
    def test_angle_law(self, p: int, kappa: float) -> None:
        theta = angle.sample_angle(p, torch.full((20000,), kappa, dtype=torch.float64))
        assert stats.kstest(theta.numpy(), angle_cdf(p, kappa)).pvalue > directions.P_VALUE

    @pytest.mark.slow
    @pytest.mark.parametrize("p", [2, 3, 7])
    @pytest.mark.parametrize("where", ["e1", "-e1", "e2", "anywhere"])
    def test_directions_across_are_uniform(self, p: int, where: str) -> None:
        special = {"e1": axis(p), "-e1": axis(p, sign=-1.0), "e2": axis(p, 1)}
        loc = special.get(where, direction(p))
        x = VonMisesFisher(loc, 3.0).sample((30000,))
        across = x - (x @ loc).unsqueeze(-1) * loc
        across = across / across.square().sum(-1, keepdim=True).sqrt()
        assert_mean(across, 0.0)
        outer = across.unsqueeze(-1) * across.unsqueeze(-2)
        expected = (torch.eye(p, dtype=torch.float64) - torch.outer(loc, loc)) / (p - 1)
        if p == 2:  # both directions have the same outer product
            torch.testing.assert_close(outer, expected.expand_as(outer))
        else:
            torch.testing.assert_close((across @ loc).abs().max(), double(0.0), rtol=0, atol=1e-12)
            excess = outer.mean(0) - expected
            error = outer.std(0) / math.sqrt(len(x))
            assert (excess.abs() <= directions.STANDARD_ERRORS * error + 1e-12).all()

    @pytest.mark.parametrize("sign", [1.0, -1.0])
    @pytest.mark.parametrize("p", [2, 3, 128])
    def test_mean_direction_on_the_first_axis(self, p: int, sign: float) -> None:
        """TensorFlow Probability's sampler gave NaN at e_1 (its issue 1211)."""
        loc = axis(p, sign=sign, dtype=torch.float32).requires_grad_()
        kappa = torch.tensor([0.0, 1.0, 1e6], requires_grad=True)
        x = VonMisesFisher(loc, kappa).rsample((500,))
        x.sum().backward()
        assert loc.grad is not None and kappa.grad is not None
        assert all(a.isfinite().all() for a in (x, loc.grad, kappa.grad))
        assert (x[:, 2] * loc).sum(-1).min() > 0.99

    def test_a_zero_gaussian(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Normals of float32 are sometimes exactly zero; at p = 2 there is only one."""
        monkeypatch.setattr(
            torch, "randn", lambda *shape, **options: torch.zeros(*shape, **options)
        )
        for p in (2, 3):
            x = VonMisesFisher(axis(p, dtype=torch.float32), 1.0).sample((10,))
            torch.testing.assert_close(x.square().sum(-1), torch.ones(10))

    @pytest.mark.slow
    @pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
    @pytest.mark.parametrize("p", [2, 3, 512, 65536])
    def test_dtype_and_unit_norm(self, dtype: torch.dtype, p: int) -> None:
        kappa = torch.tensor([0.0, 1.0, 5e4], dtype=dtype)
        d = VonMisesFisher(direction(p).to(dtype), kappa)
        x = d.sample((20,))
        assert x.dtype == dtype and x.shape == (20, 3, p)
        norm = x.double().square().sum(-1).sqrt()
        # The mean direction is a unit vector up to rounding.
        assert (norm - 1).abs().max() < 4 * torch.finfo(dtype).eps
        assert bool(unit_vector.check(x).all())
        value = d.log_prob(x)
        assert value.dtype == dtype
        if (p, dtype) != (65536, torch.float16):  # about 2.3e5, beyond that dtype
            assert value.isfinite().all()

    def test_a_nan_concentration_ends(self) -> None:
        d = VonMisesFisher(axis(3), double(math.nan, 1.0), validate_args=False)
        x = d.sample()
        assert x[0].isnan().all() and x[1].isfinite().all()


class TestPathwiseGradient:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("p", "kappa"),
        [(2, 0.0), (2, 3.0), (3, 1.0), (5, 200.0), (128, 40.0), (128, 1e6), (1024, 0.0)],
    )
    def test_in_the_concentration(self, p: int, kappa: float) -> None:
        """E[d c/dkappa] = A' and E[d c^2/dkappa] = A'' + 2 A A', with c the cosine to the mean."""
        loc = direction(p)
        kappas = torch.full((4000,), kappa, dtype=torch.float64, requires_grad=True)
        x = VonMisesFisher(loc, kappas).rsample()
        first, second = (ratio(p / 2 - 1, double(kappa), n) for n in (1, 2))
        miss = 0.5 * (x - loc).square().sum(-1)  # 1 - c, without cancellation
        (slope,) = torch.autograd.grad(-miss.sum(), kappas, retain_graph=True)
        assert_mean(slope, first)
        (slope,) = torch.autograd.grad(miss.square().sum(), kappas)
        assert_mean(slope, second - 2 * (1 - mean_resultant(p, kappa)) * first)

    @pytest.mark.slow
    @pytest.mark.parametrize(("p", "kappa"), [(2, 3.0), (3, 1.0), (16, 30.0), (128, 1e4)])
    @pytest.mark.parametrize("where", ["e1", "-e1", "anywhere"])
    def test_in_the_mean_direction(self, p: int, kappa: float, where: str) -> None:
        """Along a tangent a: E[d a'X] = A, and E[d (c'X)^2] = 2 (c'mu)(c'a)(A' + A^2 - A/kappa)."""
        loc = {"e1": axis(p), "-e1": axis(p, sign=-1.0)}.get(where, direction(p))
        a = direction(p)
        a = torch.nn.functional.normalize(a - (a @ loc) * loc, dim=-1)
        c = torch.nn.functional.normalize(loc + 0.5 * a, dim=-1)
        locs = loc.repeat(20000, 1).requires_grad_()
        d = VonMisesFisher(locs, kappa)
        x = d.rsample()
        (gradient,) = torch.autograd.grad((x @ a).sum(), locs, retain_graph=True)
        A = mean_resultant(p, kappa)
        assert_mean(gradient @ a, A)
        (gradient,) = torch.autograd.grad((x @ c).square().sum(), locs)
        spread = d.variance_along[0] + A * A - d.variance_across[0]
        assert_mean(gradient @ a, 2 * (c @ loc) * (c @ a) * spread)

    @pytest.mark.slow
    @pytest.mark.parametrize("p", directions.DIMENSIONS)
    def test_velocity_against_quadrature(self, p: int) -> None:
        for kappa in (0.0, 2.0, 300.0, 1e6):
            mode, sd = bulk(p, kappa)
            theta = [mode + z * sd for z in (-6.0, -1.5, 0.1, 1.0, 6.0)]
            theta = [t for t in theta if 0 < t < math.pi]
            got = angle.velocity(double(kappa), torch.tensor(theta, dtype=torch.float64), p)
            for t, v in zip(theta, got.tolist(), strict=True):
                assert v == pytest.approx(velocity_by_quadrature(p, kappa, t), rel=2e-13, abs=0)

    @pytest.mark.parametrize("p", [2, 3, 128])
    def test_velocity_at_the_ends(self, p: int) -> None:
        theta = double(0.0, 1e-160, 1e-12, math.pi - 1e-12, math.pi)
        for kappa in (0.0, 1.0, 1e6):
            v = angle.velocity(double(kappa), theta, p)
            assert v.isfinite().all() and (v <= 0).all()


def velocity_by_quadrature(p: int, kappa: float, theta: float) -> float:
    """The integral over the tail away from the mean angle, in 30 digits."""
    with mp.workdps(30):
        A = mp.mpf(0)
        if kappa:  # a float is not enough near one: 1 - A = (A' + (p - 1) A/kappa)/(1 + A)
            _, a, slope, _ = arb.bessel(p / 2 - 1, kappa)
            A = 1 - (mp.mpf(slope) + (p - 1) * mp.mpf(a) / mp.mpf(kappa)) / (1 + mp.mpf(a))
        k, t = mp.mpf(kappa), mp.mpf(theta)
        upper = mp.cos(t) < A

        def integrand(phi: Any) -> Any:
            power = abs(mp.sin(phi) / mp.sin(t)) ** (p - 2)
            return (mp.cos(phi) - A) * power * mp.exp(k * (mp.cos(phi) - mp.cos(t)))

        sd = 1 / mp.sqrt((p - 2) / mp.sin(t) ** 2 + abs(k * mp.cos(t)) + mp.mpf("0.01"))
        step, end = (sd, mp.pi) if upper else (-sd, mp.mpf(0))
        points = [t + m * step for m in (0, 2, 5, 10, 18)]
        points = [q for q in points if 0 < q < mp.pi]
        if len(points) < 5:
            points.append(end)
        return float(mp.quad(integrand, points))  # type: ignore[arg-type]
