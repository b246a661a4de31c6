"""The compiled kernel and the functions in torch, each against Arb and against the other."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from reference import arb
from resultant import (
    VonMisesFisher,
    bessel_ratio,
    bessel_ratio_integral,
    bessel_ratio_inverse,
    log_bessel_i,
    log_bessel_ie,
    vmf_score_and_slope,
)
from resultant.special import compiled

built = pytest.mark.skipif(compiled._library is None, reason="the kernel is not built")


@pytest.fixture(params=[pytest.param("kernel", marks=built), "torch"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "torch":
        monkeypatch.setattr(compiled, "_library", None)


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("p", [2, 3, 17, 61, 64, 1024])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_score_against_arb(p: int, dtype: torch.dtype) -> None:
    """Tilts of every size, and concentrations whose powers the kernel cannot form."""
    rng = np.random.default_rng(p)
    n = 60
    kappa, tau = 10 ** rng.uniform(-4, 6, n), 10 ** rng.uniform(-3, 2, n)
    rho = rng.choice([-1.0, 1.0, 0.0, -0.75, 0.5], n)
    kappa[:3] = 10.0 ** np.array([9, 12, 15])
    kappa, tau = (a.astype(np.float32).astype(np.float64) for a in (kappa, tau))
    truth = np.array([arb.score(*x, p)[:2] for x in zip(rho, kappa, tau, strict=True)]).T
    inputs = [torch.from_numpy(a).to(dtype) for a in (rho, kappa, tau)]
    q, slope = (a.double().numpy() for a in vmf_score_and_slope(*inputs, p))  # type: ignore[call-arg]
    eps = torch.finfo(dtype).eps
    assert (abs(q - truth[0]) <= 12 * eps * np.maximum(abs(truth[0]), abs(rho * truth[1]))).all()
    assert (abs(slope - truth[1]) <= 12 * eps * abs(truth[1])).all()


@built
@pytest.mark.parametrize("nu", [0.0, 0.5, 7.5, 29.5, 31.0, 511.0, 1e5])
def test_bessel_functions_agree(nu: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each function of the kernel against torch, from zero to far above the order."""
    x = torch.cat([torch.zeros(1), torch.logspace(-5, 7, 90)]).double()
    r = torch.cat([torch.linspace(0, 1, 41), 1 - torch.logspace(-12, -2, 20)]).double()
    law = VonMisesFisher(torch.eye(8)[0].double(), x)

    def results() -> list[torch.Tensor]:
        return [
            bessel_ratio(nu, x),
            log_bessel_i(nu, x[1:]),
            log_bessel_ie(nu, x[1:]),
            bessel_ratio_inverse(nu, r),
            bessel_ratio_integral(nu, x[:-1], x[1:]),
            bessel_ratio_integral(nu, x.flip(0), x),
            law.entropy(),
            law.log_prob(law.loc),
        ]

    with_kernel = results()
    monkeypatch.setattr(compiled, "_library", None)
    for i, (a, b) in enumerate(zip(with_kernel, results(), strict=True)):
        torch.testing.assert_close(a, b, rtol=2e-14, atol=2e-14, msg=lambda m, i=i: f"{i}: {m}")


@built
def test_threads_and_layouts_give_the_same() -> None:
    """Ranges of several threads, rows and columns, and tensors that are not contiguous."""
    rho, kappa = torch.rand(600, 70).double() * 2 - 1, torch.rand(70).double() * 50
    tau = torch.tensor([0.1]).double()
    threads = torch.get_num_threads()
    whole = compiled.score(rho, kappa, tau, 17, True)
    ratios = compiled.ratio(7.5, rho.flatten(), 0)
    try:
        torch.set_num_threads(2)
        assert all(map(torch.equal, compiled.score(rho, kappa, tau, 17, True), whole))
        across = compiled.score(rho.T.contiguous().T, kappa, tau, 17, True)
        assert all(map(torch.equal, across, whole))
        row = compiled.score(rho[:1].expand(600, 70), kappa.repeat(600), tau, 17, True)[0]
        assert torch.equal(row[5], whole[0][0])
        assert torch.equal(compiled.ratio(7.5, rho.flatten(), 0), ratios)
    finally:
        torch.set_num_threads(threads)
