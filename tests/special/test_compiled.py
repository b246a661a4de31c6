"""The compiled kernel and the functions in torch, against Arb and each other, and in traces."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import resultant
from reference import arb
from resultant.special import compiled

built = pytest.mark.skipif(compiled._library is None, reason="the kernel is not built")


@pytest.mark.usefixtures("with_and_without_kernel")
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
    q, slope = (a.double().numpy() for a in resultant.vmf_score_and_slope(*inputs, p))  # type: ignore[call-arg]
    eps = torch.finfo(dtype).eps
    assert (abs(q - truth[0]) <= 12 * eps * np.maximum(abs(truth[0]), abs(rho * truth[1]))).all()
    assert (abs(slope - truth[1]) <= 12 * eps * abs(truth[1])).all()


@pytest.mark.usefixtures("with_and_without_kernel")
@pytest.mark.parametrize("p", [2, 3, 17, 61, 1024])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_derivatives_in_kappa_and_tau_against_arb(p: int, dtype: torch.dtype) -> None:
    """To 48 roundings of the result and of the inputs, also where terms cancel."""
    rng = np.random.default_rng([1, p])
    n = 40
    rho = rng.choice([-1.0, 1.0, 0.0, -0.75, 1e-19], n)
    kappa, tau = 10 ** rng.uniform(-4, 5, n), 10 ** rng.uniform(-3, 2, n)
    kappa[:10] = (1 + 10 ** rng.uniform(-6, 0, 10)) / tau[:10]
    inputs = [a.astype(np.float32).astype(np.float64) for a in (rho, kappa, tau)]
    points = list(zip(*inputs, strict=True))
    truth = np.array([arb.score(r, k, t, p)[2:] for r, k, t in points]).T
    second = np.array([arb.hessian(r, k, t, p) for r, k, t in points]).T
    arguments = [torch.from_numpy(a).to(dtype).requires_grad_() for a in inputs]
    ours = torch.autograd.grad(resultant.vmf_score(*arguments, p).sum(), arguments[1:])  # type: ignore[call-arg]
    for value, true, row in zip(ours, truth, second[[[1, 3, 4], [2, 4, 5]]], strict=True):
        steps = sum(abs(a * b) for a, b in zip(inputs, row, strict=True))
        allowed = 48 * torch.finfo(dtype).eps * (abs(true) + steps)
        assert (abs(value.double().numpy() - true) <= allowed).all()


@built
@pytest.mark.slow
def test_exported_program() -> None:
    """A program exported where there is the kernel does not need it."""

    class Score(torch.nn.Module):
        def forward(self, rho: torch.Tensor, kappa: torch.Tensor) -> torch.Tensor:
            return resultant.vmf_score(rho, kappa, 0.1, 61)

    inputs = torch.rand(3, 4).double(), torch.rand(4).double() * 20
    # torch 2.6 cannot tell a strict export from torch.compile.
    strict = hasattr(torch.compiler, "is_exporting")
    program = torch.export.export(Score(), inputs, strict=strict)
    assert not [node for node in program.graph.nodes if "resultant" in str(node.target)]
    torch.testing.assert_close(program.module()(*inputs), resultant.vmf_score(*inputs, 0.1, 61))


@built
def test_library_of_other_sources_is_not_loaded(tmp_path: Path) -> None:
    """After an update in place; a wheel, which has no sources, is taken as it is."""
    for path in Path(compiled.__file__).parent.glob("_kernel*"):
        shutil.copy(path, tmp_path)
    assert compiled._load(tmp_path) is not None
    header = tmp_path / "_kernel_score.h"
    header.write_text(header.read_text() + "\n")
    assert compiled._load(tmp_path) is None
    for path in tmp_path.glob("_kernel*.[ch]"):
        path.unlink()
    assert compiled._load(tmp_path) is not None


@built
def test_threads_and_layouts_give_the_same() -> None:
    """Ranges of several threads, rows and columns, and tensors that are not contiguous."""
    rho, kappa = torch.rand(600, 70).double() * 2 - 1, torch.rand(70).double() * 50
    tau = torch.tensor([0.1]).double()
    threads = torch.get_num_threads()
    whole = compiled.score(rho, kappa, tau, 17, True)
    ratios = compiled.bessel("ratio", 7.5, rho.flatten())
    try:
        torch.set_num_threads(2)
        assert all(map(torch.equal, compiled.score(rho, kappa, tau, 17, True), whole))
        across = compiled.score(rho.T.contiguous().T, kappa, tau, 17, True)
        assert all(map(torch.equal, across, whole))
        row = compiled.score(rho[:1].expand(600, 70), kappa.repeat(600), tau, 17, True)[0]
        assert torch.equal(row[5], whole[0][0])
        assert torch.equal(compiled.bessel("ratio", 7.5, rho.flatten()), ratios)
    finally:
        torch.set_num_threads(threads)


def test_the_kernel_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESULTANT_KERNEL", "0")
    assert compiled._load(Path(compiled.__file__).parent) is None
    monkeypatch.setattr(compiled, "_library", None)
    assert compiled._functions("bessel", 5, 2) == {}


@pytest.mark.usefixtures("with_and_without_kernel")
def test_lazy_negations() -> None:
    """The imaginary part of a conjugate is negated when it is read."""
    x = torch.tensor([2 - 3j], dtype=torch.complex128).conj().imag
    assert x.is_neg() and x.is_contiguous()
    for function in (
        lambda x: resultant.bessel_ratio(0.5, x),
        lambda x: resultant.vmf_score(0.5, x, 0.1, 17),
    ):
        torch.testing.assert_close(function(x), function(x.resolve_neg()), rtol=1e-14, atol=0)


AXIS = torch.eye(5, dtype=torch.float64)[0]
KAPPA = torch.tensor([1.0, 10.0, 100.0]).double()
STATE = resultant.ClassState(torch.eye(3, 5).double(), KAPPA, torch.ones(3))
FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "bessel_ratio": lambda x: resultant.bessel_ratio(15.0, x),
    "bessel_ratio_inverse": lambda x: resultant.bessel_ratio_inverse(15.0, x),
    "log_bessel_i": lambda x: resultant.log_bessel_i(0.5, x),
    "vmf_score": lambda x: resultant.vmf_score(x, 10.0, 0.1, 32),
    "slope": lambda x: resultant.vmf_score_and_slope(x, 1.0, 0.1, 100)[1],
    "entropy": lambda x: resultant.VonMisesFisher(AXIS, x).entropy(),
    "log_prob": lambda x: resultant.VonMisesFisher(AXIS, x).log_prob(AXIS),
    "class_scores": lambda x: resultant.class_scores(
        torch.nn.functional.normalize(torch.stack([x] * 5, -1) + AXIS, dim=-1), STATE, 0.1
    ),
}


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_traced_function_computes_anew(name: str) -> None:
    function = FUNCTIONS[name]
    x = torch.linspace(0.1, 0.9, 7, dtype=torch.float64)
    traced: Any = torch.jit.trace(function, x)
    for at in (x, x * 0.7):
        torch.testing.assert_close(traced(at), function(at), rtol=1e-12, atol=1e-14)
