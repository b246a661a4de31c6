"""Derivatives of the score, and identities of the paper for the score and its derivatives."""

# pyright: reportCallIssue=false
# Arguments are unpacked from lists.

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import integrate
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from resultant import (
    VonMisesFisher,
    ambient_gradient,
    bessel_ratio,
    bessel_ratio_integral,
    decompose,
    tangent_gradient,
    vmf_score,
    vmf_score_and_slope,
    vmf_score_slope,
)

GRID = [
    torch.tensor([-0.99, -0.4, 0.0, 0.3, 0.95], dtype=torch.float64),
    torch.tensor([[0.5], [20.0], [500.0]], dtype=torch.float64),
    torch.tensor([[[0.1]], [[1.5]]], dtype=torch.float64),
]


@pytest.mark.slow
@pytest.mark.parametrize("p", [2, 3, 25, 61, 62, 128, 1024])
def test_gradients(p: int) -> None:
    grid = [a.clone().requires_grad_() for a in GRID]
    # With gradients vmf_score is the first output of vmf_score_and_slope.
    for f in (vmf_score_slope, vmf_score_and_slope, decompose):
        assert gradcheck(lambda *a: f(*a, p), grid, fast_mode=True)  # noqa: B023
        assert gradgradcheck(lambda *a: f(*a, p), grid, fast_mode=True, atol=1e-4)  # noqa: B023


def test_gradient_at_zero_concentration() -> None:
    """At kappa = 0 the score does not depend on rho, and its slope in kappa is rho times R(t)."""
    rho = torch.tensor([-1.0, 0.25, 1.0], dtype=torch.float64, requires_grad=True)
    kappa = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    for p in (2, 3, 128):
        d_rho, d_kappa = torch.autograd.grad(vmf_score(rho, kappa, 0.1, p).sum(), (rho, kappa))
        assert (d_rho == 0).all()
        expected = rho.detach() * bessel_ratio(p / 2 - 1, 10.0)
        torch.testing.assert_close(d_kappa, expected, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("p", [3, 26, 128, 1024])
class TestIdentities:
    """The identities of the paper's section on the exact score, in float64."""

    rho = GRID[0]
    kappa = GRID[1]
    tau = 0.1

    def tilted(self) -> Tensor:
        t = 1 / self.tau
        return (self.kappa**2 + 2 * self.kappa * t * self.rho + t * t).sqrt()

    def test_integral(self, p: int) -> None:
        """eq:score-integral, by `bessel_ratio_integral` and by quadrature of the ratio."""
        q = vmf_score(self.rho, self.kappa, self.tau, p)
        ours = bessel_ratio_integral(p / 2 - 1, self.kappa.expand(3, 5), self.tilted())
        torch.testing.assert_close(q, ours, rtol=1e-12, atol=1e-13)
        step = self.tilted() - self.kappa

        def integrand(s: float) -> np.ndarray:
            return (bessel_ratio(p / 2 - 1, self.kappa + s * step) * step).numpy()

        value, error = integrate.quad_vec(integrand, 0, 1, 1e-11, 1e-13, norm="max")
        assert error < 1e-9 and np.abs(value - q.numpy()).max() <= 1e-9 + 2 * error

    @pytest.mark.slow
    def test_score_is_a_log_moment(self, p: int) -> None:
        """eq:main-exact, by sampling the class."""
        torch.manual_seed(0)
        mu = torch.zeros(p, dtype=torch.float64)
        mu[0] = 1
        z = torch.zeros(p, dtype=torch.float64)
        z[0], z[1] = 0.6, 0.8
        kappa, tau = p / 2, 1.0
        draws = VonMisesFisher(mu, torch.tensor(kappa, dtype=torch.float64)).sample((20_000,))
        values = (draws @ z / tau).exp()
        q = float(vmf_score(0.6, kappa, tau, p))
        deviation = float(values.std()) / float(values.mean()) / math.sqrt(len(values))
        assert abs(math.log(float(values.mean())) - q) <= 4 * deviation


def test_feature_gradients() -> None:
    """eq:exact-vector-gradient, and its projection on the sphere."""
    torch.manual_seed(1)
    for p in (3, 128):
        z, mu = (
            torch.nn.functional.normalize(torch.randn(n, 1, p, dtype=torch.float64), dim=-1)
            for n in (4, 3)
        )
        mu = mu.transpose(0, 1)
        kappa = torch.tensor([0.0, 5.0, 300.0], dtype=torch.float64)
        z.requires_grad_()

        def extended(z: Tensor) -> Tensor:
            """q as a function of z in space: the tilt is |kappa mu + t z|."""
            tilt = (kappa.unsqueeze(-1) * mu + 10 * z).norm(dim=-1)  # noqa: B023
            return bessel_ratio_integral(p / 2 - 1, kappa.expand(4, 3), tilt)  # noqa: B023

        for c in range(3):
            (expected,) = torch.autograd.grad(extended(z)[:, c].sum(), z)
            ambient = ambient_gradient(z.detach(), mu, kappa, 0.1)
            torch.testing.assert_close(ambient[:, c], expected[:, 0], rtol=1e-9, atol=1e-11)
            tangent = tangent_gradient(z.detach(), mu, kappa, 0.1)[:, c]
            unit = z.detach()[:, 0]
            projected = expected[:, 0] - (expected[:, 0] * unit).sum(-1, keepdim=True) * unit
            torch.testing.assert_close(tangent, projected, rtol=1e-9, atol=1e-11)
