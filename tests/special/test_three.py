"""Differences in three dimensions in closed form, against Arb and against the recurrence."""

# pyright: reportCallIssue=false
# Arguments are unpacked from lists.

from __future__ import annotations

import numpy as np
import pytest
import torch

from reference import arb
from resultant import vmf_score_and_slope
from resultant.special.debye import expansion
from resultant.special.differences import Lower
from resultant.special.three import CORNER, LowerInThree


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_against_arb_on_both_sides_of_the_corner(dtype: torch.dtype) -> None:
    """Starts and ends near zero, on each side of the corner, and far beyond it."""
    rng = np.random.default_rng(0)
    n = 600
    kappa = np.concatenate(
        [10 ** rng.uniform(-6, 6, n // 2), CORNER * (1 + rng.normal(size=n // 2))]
    )
    kappa = abs(kappa).astype(np.float32).astype(np.float64)
    tau = (10 ** -rng.uniform(-2, 3, n)).astype(np.float32).astype(np.float64)
    rho = rng.choice([-1.0, 1.0, 0.25, -0.75, -0.5, 0.0], n)
    # Tilts that cancel the concentration almost.
    kappa[:40], tau[:40], rho[:40] = 2.0**14, 2.0**-14, -1
    kappa[:40] += 2.0 ** -rng.integers(-8, 10, 40)
    truth = np.array([arb.score(*x, 3)[:2] for x in zip(rho, kappa, tau, strict=True)]).T
    inputs = [torch.from_numpy(a).to(dtype) for a in (rho, kappa, tau)]
    q, slope = (a.double().numpy() for a in vmf_score_and_slope(*inputs, 3))
    eps = torch.finfo(dtype).eps
    assert (abs(q - truth[0]) <= 8 * eps * np.maximum(abs(truth[0]), abs(rho * truth[1]))).all()
    assert (abs(slope - truth[1]) <= 8 * eps * abs(truth[1])).all()


def test_small_steps_keep_their_digits() -> None:
    """The difference is relative to its own size, however close the two ends are."""
    y0 = torch.tensor([0.0, 1e-8, 1.0, 2.2499, 2.25, 2.2501, 30.0, 1e6], dtype=torch.float64)
    for size in (1e-3, 1e-9, 1e-14):
        h = size * y0.clamp_min(1e-3)
        for step in (h, -torch.minimum(h, y0)):
            phi, r = LowerInThree(y0).phi_difference(y0 + step, step)
            alone, _ = LowerInThree(y0).phi_difference(y0 + step, step, with_ratio=False)
            assert torch.equal(alone, phi)
            expected, r_expected = Lower(expansion(0.5, y0.dtype), y0).phi_difference(
                y0 + step, step
            )
            torch.testing.assert_close(phi, expected, rtol=2e-14, atol=0)
            torch.testing.assert_close(r, r_expected, rtol=1e-14, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_extremes_are_finite(dtype: torch.dtype) -> None:
    most = 2.0**120 if dtype == torch.float32 else 2.0**998
    ends = torch.tensor([0.0, 1.0, 1e4, most], dtype=dtype)
    y0, y1 = torch.meshgrid(ends, ends, indexing="ij")
    phi, r = LowerInThree(y0).phi_difference(y1, y1 - y0)
    assert phi.isfinite().all() and r.isfinite().all()
    assert ((phi > 0) == (y1 > y0)).all() and (phi[y1 == y0] == 0).all()
