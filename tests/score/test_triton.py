"""The fused kernel in Triton's interpreter, which needs no GPU."""

import sys

import pytest

import resultant.score
from programs import run_interpreted
from resultant._core.device import kernel_module

CHECK = """
import torch
from resultant.score import _triton
from resultant.score._backends import expression
from resultant.score._triton import score
from resultant.score.kernel import INTERPRETED

assert INTERPRETED
torch.manual_seed(0)
for p in (3, 17, 1024):
    for dtype, bar in ((torch.float32, 2e-6), (torch.float64, 1e-14)):
        # Several blocks of rows and columns in one dimension, else a whole block. The wide spread
        # makes a block unsteady: tilts from a tenth to ten times kappa.
        wide = ((5, 130) if p == 17 else (2, 128), 4.0)
        for (rows, columns), spread in (wide, ((2, 128), 0.2), ((1, 1), 0.2)):
            rho = torch.rand(rows, columns, dtype=torch.float64).to(dtype) * 2 - 1
            rho[0, 0], rho[-1, -1] = -1, 1
            kappa = (p * 10 ** (spread * (torch.rand(columns) - 0.5))).to(dtype)
            tau = torch.full((1,), 0.1, dtype=dtype)
            q, slope = score(rho, kappa, tau, p, True)
            exact, exact_slope = expression(rho.double(), kappa.double(), tau.double(), p, True)
            scale = torch.maximum(exact.abs(), (rho * exact_slope).abs())
            assert ((q - exact).abs() <= bar * scale).all(), (p, dtype, rows, columns)
            assert ((slope / exact_slope - 1).abs() <= bar).all(), (p, dtype, rows, columns)
            (alone,) = score(rho[:2], kappa, tau, p, False)
            assert torch.equal(alone, q[:2])
# the absolute error where kappa is of the order of p and t = 10
for p in (128, 1024):
    rho, kappa = torch.rand(8, 256) * 2 - 1, p * 10 ** (torch.rand(256) * 2 - 1)
    tau = torch.full((1,), 0.1)
    (exact,) = expression(rho.double(), kappa.double(), tau.double(), p, False)
    assert (score(rho, kappa, tau, p, False)[0] - exact).abs().max() <= 3e-6
# many rows, which are joined; some are left; strong tilts beside weak ones; NaN for NaN
for p, dtype in ((64, torch.float64), (1024, torch.float32)):
    rho = (torch.rand(33, 40).double() * 2 - 1).to(dtype)
    rho[0], rho[1], rho[2], rho[3, 5] = -1, 1, 0, float("nan")
    kappa = (p * 10 ** (torch.rand(40).double() - 0.5)).to(dtype)
    kappa[0] = 0
    tau = torch.full((40,), 0.15, dtype=dtype)
    tau[36:] = 0.01
    few = score(rho, kappa, tau, p, True)
    usual, _triton.LARGE = _triton.LARGE, 0
    many = score(rho, kappa, tau, p, True)
    _triton.LARGE = usual
    for a, b in zip(few, many):
        assert torch.equal(a.isnan(), rho.isnan()) and torch.equal(a.nan_to_num(), b.nan_to_num())
# more rows than one launch takes
rho, kappa, tau = torch.rand(9, 30) * 2 - 1, torch.rand(30) * 50, torch.full((1,), 0.1)
whole = score(rho, kappa, tau, 64, True)
_triton.HIGHEST = 2
assert all(torch.equal(a, b) for a, b in zip(score(rho, kappa, tau, 64, True), whole))
# numbers of columns in 64 bits, of many classes and of one
for classes in (kappa, kappa[:1]):
    _triton.NARROW = 2**31
    narrow = score(rho, classes, tau, 64, True)
    _triton.NARROW = 0
    assert all(torch.equal(a, b) for a, b in zip(score(rho, classes, tau, 64, True), narrow))
(empty,) = score(torch.empty(0, 4), torch.ones(4), torch.ones(1), 8, False)
assert empty.shape == (0, 4)
"""


@pytest.mark.slow
def test_interpreted() -> None:
    run_interpreted(CHECK)


def test_without_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Triton there is no fused kernel, and the expression in torch is used."""
    monkeypatch.setitem(sys.modules, "triton", None)
    monkeypatch.delitem(sys.modules, "resultant.score._triton", raising=False)
    monkeypatch.delattr(resultant.score, "_triton", raising=False)
    kernel_module.cache_clear()
    assert kernel_module("resultant.score._triton") is None
    kernel_module.cache_clear()
