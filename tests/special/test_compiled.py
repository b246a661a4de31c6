"""The compiled kernel and the functions in torch, against Arb and each other."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

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


@pytest.mark.parametrize("p", [3, 17, 128, 65536])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_threads_and_layouts_give_the_same(
    p: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ranges of several threads, single rows, and tensors that are not contiguous."""
    monkeypatch.setattr(compiled, "GRAIN", 16384)
    generator = torch.Generator().manual_seed(0)
    rho = torch.rand(700, 301, generator=generator, dtype=dtype) * 2 - 1
    rho[:2] = torch.tensor([[-1.0], [1.0]])
    kappa = 10 ** (torch.rand(301, generator=generator, dtype=dtype) * 6 - 2)
    kappa[0] = 0
    threads = torch.get_num_threads()

    def score(rho: torch.Tensor, kappa: torch.Tensor = kappa) -> torch.Tensor:
        return torch.stack(resultant.vmf_score_and_slope(rho, kappa, 0.1, p))

    whole, ratios = score(rho), resultant.bessel_ratio(7.5, rho.abs())
    try:
        torch.set_num_threads(2)
        assert torch.equal(score(rho), whole)
        assert torch.equal(score(rho.T.contiguous().T), whole)
        assert torch.equal(score(rho[0].repeat(700), kappa.repeat(700))[:, -301:], whole[:, 0])
        for i in (0, 1, 350, 699):
            assert torch.equal(score(rho[i]), whole[:, i])
        assert torch.equal(resultant.bessel_ratio(7.5, rho.abs()), ratios)
    finally:
        torch.set_num_threads(threads)


def test_the_kernel_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESULTANT_KERNEL", "0")
    assert compiled._load(Path(compiled.__file__).parent) is None


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
