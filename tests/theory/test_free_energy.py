"""The free energy in high dimension."""

# pyright: reportCallIssue=false, reportArgumentType=false
# Bad input is passed on purpose, and arguments are unpacked from lists.

from __future__ import annotations

import mpmath
import pytest
import torch

from resultant import vmf_score
from resultant.theory.score_expansion import free_energy_expansion, free_energy_terms
from theory.orders import f64, slopes


def test_free_energy_limit() -> None:
    """q/nu at t = nu s, with p up to 65536: O(1/nu), and a power less with each term."""
    p = [1024, 4096, 16384, 65536]
    nu = torch.tensor(p, dtype=torch.float64) / 2 - 1
    rho, lam, s = torch.meshgrid(
        *f64([-1.0, -0.5, 0.0, 0.4, 1.0], [0.2, 1.0, 3.0], [0.3, 1.0, 4.0]), indexing="ij"
    )
    limit = free_energy_terms(rho, lam, s)[0]
    q = [vmf_score(rho, n * lam, 1 / (n * s), k) for k, n in zip(p, nu.tolist(), strict=True)]
    gaps = torch.stack([a / n - limit for a, n in zip(q, nu.tolist(), strict=True)]).abs()
    assert gaps[-1].max() < 1e-4
    assert slopes(nu, gaps, 1e-14).median() == pytest.approx(-1, abs=0.01)
    for order in range(3):
        errors = [
            (free_energy_expansion(rho, n * lam, 1 / (n * s), k, order) - a).abs() / n
            for a, k, n in zip(q, p, nu.tolist(), strict=True)
        ]
        orders = slopes(nu, torch.stack(errors), 1e-15)
        assert len(orders) >= 30
        assert orders.median() == pytest.approx(-1 - order, abs=0.02)


def test_free_energy_is_psi() -> None:
    """Against the closed form in high precision, also where the two ends nearly agree."""
    cases = [(0.5, 1.0, 1e-9), (-1.0, 2.0, 2.0), (-0.3, 1e-5, 1e-7), (0.9, 50.0, 3.0), (1, 0, 1e-6)]
    for rho, lam, s in cases:
        with mpmath.workdps(60):
            c, u, v = (mpmath.mpf(a) for a in (rho, lam, s))
            S, S1 = (mpmath.sqrt(1 + a) for a in (u * u, u * u + 2 * u * v * c + v * v))
            want = S1 - mpmath.log(1 + S1) - S + mpmath.log(1 + S)
        assert float(free_energy_terms(*f64(rho, lam, s))[0]) == pytest.approx(
            float(want), rel=1e-14
        )


def test_free_energy_is_uniform_in_t() -> None:
    """From bounded t to t far beyond nu, the error of q is a small part of 1/nu^2."""
    tau = torch.logspace(1, -6, 29, dtype=torch.float64)
    rho = torch.linspace(-1, 1, 9, dtype=torch.float64)[:, None]
    for p in (64, 1024):
        nu = p / 2 - 1
        q = vmf_score(rho, 1.3 * nu, tau, p)
        error = (free_energy_expansion(rho, 1.3 * nu, tau, p) - q).abs()
        assert (error < 0.025 / nu**2 + 1e-13 * q.abs()).all()
