"""Densities, validation and fits of the von Mises-Fisher distribution, and the uniform one."""

import sys

import flint
import numpy as np
import pytest
import torch
from flint import arb as ball
from scipy import stats
from torch import Tensor
from torch.distributions import Distribution

from reference import arb
from resultant.vmf.distribution import HypersphericalUniform, VonMisesFisher
from vmf import directions
from vmf.directions import assert_mean, axis, direction, double, exact


def exact_peak(p: int, kappa: float) -> ball:
    return ball(kappa) - directions.exact_phi(p, kappa) - directions.exact_log_area(p)


class TestLogProb:
    @pytest.mark.parametrize("p", [2, 3, 5, 10])
    @pytest.mark.parametrize("kappa", [0.1, 2.0, 100.0])
    def test_against_scipy(self, p: int, kappa: float) -> None:
        loc, x = direction(p), direction(p, 20)
        expected = stats.vonmises_fisher(loc.numpy(), kappa).logpdf(x.numpy())  # type: ignore[arg-type]
        got = VonMisesFisher(loc, kappa).log_prob(x)
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-12, atol=1e-12)

    @pytest.mark.parametrize("p", [2, 128, 65536])
    def test_float32_keeps_its_digits_at_a_large_concentration(self, p: int) -> None:
        # kappa mu'x and log Z are both about 1e6 here, where float32 resolves 0.06.
        kappa = 1e6
        loc = direction(p).float()
        d = VonMisesFisher(loc, kappa)
        x = d.sample((5,))
        peak = exact(lambda: exact_peak(p, kappa))
        unit, mu = (a.double() / a.double().square().sum(-1, keepdim=True).sqrt() for a in (x, loc))
        expected = peak - kappa / 2 * (unit - mu).square().sum(-1)
        torch.testing.assert_close(d.log_prob(x).double(), expected, rtol=4e-7, atol=2e-5)

    @pytest.mark.usefixtures("with_and_without_kernel")
    @pytest.mark.parametrize("p", directions.WIDE_DIMENSIONS)
    def test_the_peak_against_arb_at_every_concentration(self, p: int) -> None:
        """log Z and kappa agree in up to eighteen digits; the peak is right by itself, and so are
        its derivatives 1 - A and -A'."""
        loc, kappa = axis(p), double(*directions.WIDE).requires_grad_()
        peak = VonMisesFisher(loc, kappa).log_prob(loc)
        (slope,) = torch.autograd.grad(peak.sum(), kappa, create_graph=True)
        (bend,) = torch.autograd.grad(slope.sum(), kappa)
        single = VonMisesFisher(loc.float(), kappa.detach().float()).log_prob(loc.float())
        peak, slope = peak.detach(), slope.detach()
        for i, k in enumerate(directions.WIDE):
            expected = exact(lambda: exact_peak(p, k))  # noqa: B023
            assert abs(float(peak[i]) - expected) <= 1e-14 * max(1, abs(expected)), k
            rounded = exact(lambda: exact_peak(p, float(np.float32(k))))  # noqa: B023
            assert abs(float(single[i]) - rounded) <= 1e-7 * max(1, abs(rounded)), k
            lack = exact(lambda: 1 - directions.exact_ratio(p, k))  # noqa: B023
            assert float(slope[i]) == pytest.approx(lack, rel=1e-14, abs=0)
            assert float(bend[i]) == pytest.approx(-arb.bessel(p / 2 - 1, k)[2], rel=2e-14, abs=0)

    @pytest.mark.slow
    def test_gradients(self) -> None:
        x = direction(4, 6)
        loc = direction(4).requires_grad_()
        kappa = double(0.0, 1.0, 20.0).unsqueeze(-1).requires_grad_()

        def log_prob(loc: Tensor, kappa: Tensor) -> Tensor:
            return VonMisesFisher(loc, kappa, validate_args=False).log_prob(x)

        assert torch.autograd.gradcheck(log_prob, (loc, kappa))
        assert torch.autograd.gradgradcheck(log_prob, (loc, kappa))
        # The gradient on the sphere is that of kappa mu'x.
        d = VonMisesFisher(loc, 3.0)
        (gradient,) = torch.autograd.grad(d.log_prob(x).sum(), loc)
        expected = 3 * x.sum(0)
        tangent = lambda a: (a - (a @ loc) * loc).detach()  # noqa: E731
        torch.testing.assert_close(tangent(gradient), tangent(expected))


class TestDistribution:
    def test_expand(self) -> None:
        d = VonMisesFisher(direction(4, 3), double(1.0, 2.0, 3.0))
        wide = d.expand((5, 3))
        assert type(wide) is VonMisesFisher
        assert wide.batch_shape == (5, 3) and wide.event_shape == (4,)
        assert wide.loc.data_ptr() == d.loc.data_ptr()
        assert wide.sample((2,)).shape == (2, 5, 3, 4)
        x = direction(4)
        torch.testing.assert_close(wide.log_prob(x), d.log_prob(x).expand(5, 3))
        with pytest.raises(ValueError, match="value"):
            wide.log_prob(2 * x)

    def test_switch_of_torch_is_obeyed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "torch._dynamo.eval_frame", None)
        monkeypatch.setattr(Distribution, "_validate_args", False)
        VonMisesFisher(2 * axis(3), 1.0)
        VonMisesFisher.fit(2 * direction(3, 5))
        with pytest.raises(ValueError, match="loc"):
            VonMisesFisher(2 * axis(3), 1.0, validate_args=True)

    def test_validation_survives_torch_compile(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """torch.compile sets the default of torch.distributions to no validation."""
        from torch._dynamo.eval_frame import TorchPatcher

        monkeypatch.setattr(Distribution, "_validate_args", Distribution._validate_args)
        TorchPatcher.patch.cache_clear()
        torch.compile(lambda x: x + 1, backend="eager")(torch.ones(1))
        assert not Distribution._validate_args
        with pytest.raises(ValueError, match="loc"):
            VonMisesFisher(2 * axis(3), 1.0)


class TestUniform:
    @pytest.mark.parametrize("p", [2, 3, 64])
    def test_law(self, p: int) -> None:
        d = HypersphericalUniform(p, dtype=torch.float64)
        x = d.sample((20000,))
        assert_mean(x, 0.0)
        assert_mean(x.square(), 1 / p)
        # The square of a coordinate is Beta(1/2, (p - 1)/2).
        law = stats.beta(0.5, (p - 1) / 2)
        for i in range(min(p, 3)):
            assert stats.kstest(x[:, i].square().numpy(), law.cdf).pvalue > directions.P_VALUE
        area = exact(lambda: directions.exact_log_area(p))
        torch.testing.assert_close(d.log_prob(x), torch.full_like(x[:, 0], -area))
        assert d.entropy().item() == pytest.approx(area, rel=1e-14, abs=0)


class TestFit:
    def test_is_the_maximum_of_the_likelihood(self) -> None:
        x = VonMisesFisher(direction(4), 7.0).sample((50,))
        fitted = VonMisesFisher.fit(x)
        kappa = fitted.concentration.clone().requires_grad_()
        loc = fitted.loc.clone().requires_grad_()
        value = VonMisesFisher(loc, kappa).log_prob(x).sum()
        in_loc, in_kappa = torch.autograd.grad(value, (loc, kappa))
        assert abs(in_kappa.item()) < 1e-10
        assert (in_loc - (in_loc @ loc) * loc).abs().max() < 1e-10

    def test_float32_rows_of_rounded_length(self) -> None:
        # With 1 - R = 1e-6, norms off by 6e-8 would cost the second digit.
        x = VonMisesFisher(direction(3), 1e6).sample((500,))
        exactly = VonMisesFisher.fit(x).concentration.item()
        rounded = (x * (1 + 2e-7)).float()
        assert VonMisesFisher.fit(rounded).concentration.item() == pytest.approx(
            exactly, rel=1e-3, abs=0
        )

    @pytest.mark.usefixtures("with_and_without_kernel")
    @pytest.mark.parametrize("kappa", [1.0, 1e4, 1e12, 1e14, 1e20])
    def test_large_concentrations(self, kappa: float) -> None:
        """Against the fit of the same vectors in Arb: R rounds to one, 1 - R does not."""
        x = VonMisesFisher(direction(3), kappa).sample((50,))
        flint.ctx.prec = 400
        rows = [[ball(v) for v in row] for row in x.tolist()]
        lengths = [sum((v * v for v in row), ball(0)).sqrt() for row in rows]
        mean = [
            sum((row[i] / length for row, length in zip(rows, lengths, strict=True)), ball(0)) / 50
            for i in range(3)
        ]
        gap = 1 - sum((m * m for m in mean), ball(0)).sqrt()
        # coth(x) - 1/x = 1 - gap, by Newton from 1/gap.
        expected = ball((1 / gap).mid())
        for _ in range(60):
            rest = expected.coth() - 1 / expected - (1 - gap)
            slope = 1 / expected**2 - 1 / expected.sinh() ** 2
            expected = ball((expected - rest / slope).mid())
        fitted = float(VonMisesFisher.fit(x).concentration)
        assert abs(fitted / float(expected) - 1) <= 1e-12

    def test_weights_repeat_vectors(self) -> None:
        x = VonMisesFisher(direction(5), 2.0).sample((4,))
        weights = torch.tensor([1, 0, 3, 2])
        weighted = VonMisesFisher.fit(x, weights)
        repeated = VonMisesFisher.fit(x.repeat_interleave(weights, dim=0))
        torch.testing.assert_close(weighted.loc, repeated.loc)
        torch.testing.assert_close(weighted.concentration, repeated.concentration)

    def test_batches(self) -> None:
        x = VonMisesFisher(direction(4, 2, 3), 9.0).sample((30,)).movedim(0, -2)
        weights = torch.rand(3, 30)
        fitted = VonMisesFisher.fit(x, weights)
        assert fitted.batch_shape == (2, 3)
        alone = VonMisesFisher.fit(x[1, 2], weights[2])
        torch.testing.assert_close(fitted.loc[1, 2], alone.loc)
        torch.testing.assert_close(fitted.concentration[1, 2], alone.concentration)
        assert VonMisesFisher.fit(x[0, 0], weights).batch_shape == (3,)


def test_log_prob_of_a_distribution_outside_the_graph() -> None:
    """A distribution that checks its samples does not break the graph of a caller."""
    q = VonMisesFisher(torch.eye(3)[0], 5.0)
    x = torch.eye(3)
    compiled = torch.compile(lambda x: q.log_prob(x), backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), q.log_prob(x))
