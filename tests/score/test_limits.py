"""Temperatures at which scores can be compared, and the functions that reject others."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import resultant
from frozen_data import small_space
from reference import arb
from resultant import VMFClassifier, VMFClassifierCV
from resultant._core import validation
from resultant.classes.rule import TEMPERED, Rule
from resultant.classifiers.vmf import CosinePrototypeClassifier
from resultant.score.limits import temperature_range
from resultant_reproduction.frozen.decisions import Policy, decide
from small_classes import classes

F32, F64 = torch.float32, torch.float64
SHORT = r"expected {} >= 7.62939e-06 in torch.float32, got {}"


def exact_margins(rho: Tensor, kappa: Tensor, tau: float, p: int) -> np.ndarray:
    """The scores of rho [N, C] less the first of each row, in Arb."""
    q = [
        [arb.score(r, k, tau, p)[0] for r, k in zip(row, kappa.tolist(), strict=True)]
        for row in rho.tolist()
    ]
    return np.array(q) - np.array(q)[:, :1]


@pytest.mark.parametrize("dtype", [F32, F64])
def test_differences_are_right_from_the_least_temperature_on(dtype: torch.dtype) -> None:
    """To 3 eps/tau: some hundredths at the least tau."""
    least, most = temperature_range(dtype)
    rho = torch.tensor([[0.9, -0.2, 0.1], [0.3, 0.35, -1.0]], dtype=dtype)
    kappa = torch.tensor([20.0, 35.0, 3.0], dtype=dtype)
    for tau in (least, 8 * least, 1e-3, 0.1, 10.0):
        tau = float(torch.tensor(tau, dtype=dtype))
        for p in (2, 16, 512):
            q = resultant.vmf_score(rho, kappa, tau, p).double().numpy()
            error = np.abs(q - q[:, :1] - exact_margins(rho, kappa, tau, p)).max()
            assert error <= 3 * torch.finfo(dtype).eps / tau
    assert resultant.vmf_score(rho, kappa, most, 16).isfinite().all()
    with pytest.raises(ValueError, match=rf"expected tau <= .* in {dtype}, got"):
        resultant.vmf_score(rho, kappa, 2 * most, 16)


X = np.random.default_rng(0).normal(size=(40, 16)) + np.repeat(np.eye(4, 16) * 3, 10, axis=0)
X32, Y = X.astype(np.float32), np.repeat(np.arange(4), 10)
STATE = classes(torch.tensor([20.0, 35.0, 3.0], dtype=F64), p=16)
Z, FITTED = STATE.mu.float(), VMFClassifier().fit(X, Y)

ENTRIES: list[tuple[str, Callable[[float], Any]]] = [
    ("tau", lambda tau: resultant.class_scores(Z, STATE, tau)),
    ("tau", lambda tau: resultant.class_scores(Z, STATE, tau, "cosine")),
    ("tau", lambda tau: resultant.realize(STATE, Rule(tau), dtype=F32)),
    ("tau", lambda tau: resultant.target_temperature(STATE.to(dtype=F32), tau, 1.0)),
    ("tau", lambda tau: resultant.target_temperature(STATE, tau, 1.0, dtype=F32)),
    ("temperature", lambda tau: resultant.ProCoLoss(3, 16, temperature=tau)),
    ("temperature", lambda tau: VMFClassifier(tau).fit(X32, Y)),
    ("temperature", lambda tau: VMFClassifierCV(temperature=[tau]).fit(X32, Y)),
    ("temperature", lambda tau: VMFClassifierCV(temperature=tau, cv="loo").fit(X32, Y)),
    ("temperature", lambda tau: CosinePrototypeClassifier(tau).fit(X32, Y)),
    ("temperature", lambda tau: FITTED.set_params(temperature=tau).predict(Z)),
    ("tau", lambda tau: decide(small_space(F32, tau=tau), (Policy("native"),))),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "entry"), ENTRIES)
def test_low_temperatures_are_rejected(name: str, entry: Callable[[float], Any]) -> None:
    for tau in (1e-6, 1e-12):
        with pytest.raises(ValueError, match=SHORT.format(name, f"{tau:g}")):
            entry(tau)
    with pytest.raises(ValueError, match=rf"expected {name} <= 1.26765e\+30 in .*32, got 1e\+35"):
        entry(1e35)
    entry(2.0**-17)


def test_float64_reaches_further() -> None:
    fitted = VMFClassifier(1e-9, "native").fit(X, Y)
    assert fitted.score(X, Y) == 1
    with pytest.raises(ValueError, match=SHORT.format("temperature", "1e-09")):
        fitted.predict(X32)
    with pytest.raises(ValueError, match=r"temperature >= 1.42109e-14 in torch.float64, got 1e-15"):
        VMFClassifier(1e-15).fit(X, Y)
    with pytest.raises(ValueError, match=r"tau >= 7.62939e-06 in .*, got 1e-07 at index 2"):
        resultant.class_scores(Z, STATE, torch.tensor([0.1, 0.1, 1e-7]))


@pytest.mark.parametrize("realization", TEMPERED)
def test_low_class_temperatures_are_rejected(realization: str) -> None:
    """At beta = 0 a class has the temperature tau A_c/A, which is tiny for a tiny kappa."""
    state = classes(torch.tensor([20.0, 35.0, 1e-5], dtype=F64), p=16)
    z = state.mu.float()
    rule = r"expected class temperatures in \[7.62939e-06, 1.26765e\+30\] in torch.float32 "
    with pytest.raises(ValueError, match=rule + r"\(linear, beta = 0\), got 1 of 3 not: class 2"):
        resultant.class_scores(z, state, 0.1, realization)
    with pytest.raises(ValueError, match=rule):
        resultant.target_temperature(state, 0.1, dtype=F32)
    star = resultant.target_temperature(state, 0.1, dtype=F32, validate_args=False)
    assert star.isnan().tolist() == [False, False, True]
    unchecked = resultant.class_scores(z, state, 0.1, realization, validate_args=False)
    assert unchecked[:, 2].isnan().all() and unchecked[:, :2].isfinite().all()
    # In float64 the temperature is within the limits.
    assert resultant.class_scores(z.double(), state, 0.1, realization).isfinite().all()
    # At beta = 1 every class keeps its temperature, also the smallest one.
    least = 2.0**-17
    torch.testing.assert_close(
        resultant.class_scores(z, state, least, "temperature", 1.0),
        resultant.class_scores(z, state, least),
    )


@pytest.mark.parametrize("leave_out", [False, True])
def test_the_loss_names_classes_below_the_limit(
    leave_out: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    loss = resultant.ProCoLoss(3, 16, realization="temperature", leave_out=leave_out)
    torch.manual_seed(0)
    z = torch.nn.functional.normalize(torch.randn(30, 16, dtype=F64), dim=-1)
    y = torch.arange(3).repeat_interleave(10)
    # Samples that cancel but for 1e-7, within which they are of unit length.
    z[20:30:2] = -z[21:30:2]
    z[20, 0] += 1e-7
    if leave_out:
        z, y = torch.cat([z, z[:1]]), torch.cat([y, torch.tensor([2])])
    rule = "expected target gains > 0 and gains > 0 for class temperatures"
    named = rule + r" .* class 2 \(no temperature in reach\)$"
    with pytest.raises(ValueError, match=named):
        loss(z.float(), y)
    assert resultant.ProCoLoss(3, 16, realization="angular")(z.float(), y).isfinite()
    # As on a GPU, where values are not checked.
    monkeypatch.setattr(validation, "should_validate", lambda validate, *_: bool(validate))
    unlooked = resultant.ProCoLoss(3, 16, realization="temperature", leave_out=leave_out)
    assert unlooked(z.float(), y).isnan()
    with pytest.raises(ValueError, match=named):
        unlooked.check()


@pytest.mark.parametrize(
    ("kappa", "t", "p"), [(233.3, 170.0, 3), (2326.73, 6199.5, 2), (500, 400, 9)]
)
def test_parts_add_up_where_the_tilt_shortens(kappa: float, t: float, p: int) -> None:
    """From a long kappa mu to a short kappa mu + t z, and so do their slopes."""
    rho = torch.linspace(-1, -0.8, 8001, dtype=torch.float64, requires_grad=True)
    value, slope = (
        f(rho, kappa, 1 / t, p) for f in (resultant.vmf_score, resultant.vmf_score_slope)
    )
    parts = resultant.decompose(rho, kappa, 1 / t, p)
    (along,) = torch.autograd.grad(parts.remainder.sum(), rho)
    sizes = sum(a.abs() for a in (*parts, value, slope))
    whole = parts.intercept + parts.gain * rho + parts.remainder
    assert ((whole - value).abs() <= 5e-15 * sizes).all()
    assert ((parts.gain + along - slope).abs() <= 5e-15 * (parts.gain + along.abs() + slope)).all()


def test_slope_of_the_remainder_without_cancellation() -> None:
    """In float32 it is right to its own size, a thousandth of the gain or less."""
    rho = torch.tensor([-1.0, -0.3, 0.4, 1.0])
    for p, kappa, tau in ((1024, 200.0, 1.0), (4096, 5000.0, 0.5), (65536, 1e4, 0.1)):
        along = []
        for dtype in (torch.float32, torch.float64):
            x = rho.to(dtype).requires_grad_()
            parts = resultant.decompose(
                x, torch.tensor(kappa, dtype=dtype), torch.tensor(tau, dtype=dtype), p
            )
            along.append(torch.autograd.grad(parts.remainder.sum(), x)[0])
            assert (along[-1].abs() <= 1e-2 * parts.gain).all()
        torch.testing.assert_close(along[0].double(), along[1], rtol=2e-6, atol=0)
