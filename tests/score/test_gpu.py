"""On CUDA: the fused kernel, the torch path, graphs and synchronisation."""

# pyright: reportCallIssue=false, reportArgumentType=false
# Bad input is passed on purpose, and arguments are unpacked from lists.

import numpy as np
import pytest
import torch
from torch import Tensor

import resultant
from reference import tables
from resultant.score._backends import expression

pytestmark = pytest.mark.gpu

PRECISION = {torch.float64: 1e-14, torch.float32: 2e-6}


def classes(rows: int, columns: int, p: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    rho = torch.rand(rows, columns, device="cuda", dtype=dtype) * 2 - 1
    kappa = p * 10 ** (torch.rand(columns, device="cuda", dtype=dtype) * 2 - 1)
    return rho, kappa, torch.full((), 0.1, device="cuda", dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_score_against_arb(dtype: torch.dtype) -> None:
    for p, table in tables.scores():
        inputs = [
            torch.tensor(table[k], device="cuda", dtype=dtype) for k in ("rho", "kappa", "tau")
        ]
        q, slope = (a.double().cpu().numpy() for a in resultant.vmf_score_and_slope(*inputs, p))
        assert np.isfinite(q).all() and np.isfinite(slope).all()
        assert (np.abs(q - table["q"]) <= PRECISION[dtype] * tables.q_scale(table)).all(), p
        assert (np.abs(slope / table["slope"] - 1) <= PRECISION[dtype]).all(), p


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("p", [3, 16, 128, 1024])
@pytest.mark.parametrize(
    "shape", [(1, 1), (3, 5), (256, 100), (600, 1000), (2100, 4099), (7, 8142), (100_003, 1)]
)
def test_kernel_equals_the_torch_path(p: int, shape: tuple[int, int], dtype: torch.dtype) -> None:
    rho, kappa, tau = classes(*shape, p, dtype)
    q, slope = resultant.vmf_score_and_slope(rho, kappa, tau, p)
    q_torch, slope_torch = expression(rho, kappa, tau, p, True)
    scale = torch.maximum(q_torch.abs(), (rho * slope_torch).abs())
    assert ((q - q_torch).abs() <= PRECISION[dtype] * scale).all()
    assert ((slope / slope_torch - 1).abs() <= PRECISION[dtype]).all()
    alone = resultant.vmf_score(rho, kappa, tau, p)
    assert ((alone - q).abs() <= PRECISION[dtype] * scale).all()


def test_classes_of_any_tilt_in_many_rows() -> None:
    """Weak and strong tilts in one call, and NaN for NaN."""
    rho, kappa, _ = classes(1100, 1000, 128, torch.float64)
    tau = torch.logspace(-3, 1, 1000, device="cuda", dtype=torch.float64)
    rho[7, 11], rho[7, 900] = torch.nan, torch.nan
    q, slope = resultant.vmf_score_and_slope(rho, kappa, tau, 128)
    q_torch, slope_torch = expression(rho, kappa, tau, 128, True)
    assert torch.equal(q.isnan(), rho.isnan()) and torch.equal(slope.isnan(), rho.isnan())
    scale = torch.maximum(q_torch.abs(), (rho * slope_torch).abs())
    assert ((q - q_torch).abs() <= 1e-14 * scale)[~rho.isnan()].all()
    assert ((slope / slope_torch - 1).abs() <= 1e-14)[~rho.isnan()].all()


def test_more_cosines_than_32_bits_number() -> None:
    """Under one kappa and tau they are one row."""
    if torch.cuda.mem_get_info()[0] < 24 << 30:
        pytest.skip("needs 24 GiB")
    rho, ends = torch.full((2**31 + 999,), 0.5, device="cuda"), torch.linspace(-1, 1, 1000)
    rho[:1000] = rho[-1000:] = ends.cuda()
    classes = torch.tensor(100.0, device="cuda"), torch.tensor(0.1, device="cuda")
    q = resultant.vmf_score(rho, *classes, 128)
    alone = resultant.vmf_score(ends.cuda(), *classes, 128)
    assert torch.equal(q[:1000], alone) and torch.equal(q[-1000:], alone)


def everything(rho: Tensor, kappa: Tensor, tau: Tensor) -> Tensor:
    p = 128
    total = resultant.vmf_score(rho, kappa, tau, p).logsumexp(1).sum()
    total = total + resultant.decompose(rho, kappa, tau, p).remainder.sum()
    total = total + resultant.bessel_ratio(p / 2 - 1, kappa).sum()
    total = total + resultant.log_bessel_i(2.5, kappa).sum()
    return total + resultant.bessel_ratio_inverse(2.5, rho.abs() * 0.9).sum()


def test_no_synchronisation() -> None:
    rho, kappa, tau = classes(64, 50, 128, torch.float32)
    arguments = [a.requires_grad_() for a in (rho, kappa, tau)]
    torch.autograd.grad(everything(*arguments), arguments)
    torch.cuda.set_sync_debug_mode("error")
    try:
        torch.autograd.grad(everything(*arguments), arguments)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_cuda_graph() -> None:
    rho, kappa, tau = (a.requires_grad_() for a in classes(64, 50, 128, torch.float32))
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            torch.autograd.grad(everything(rho, kappa, tau), (rho, kappa, tau))
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        captured = torch.autograd.grad(everything(rho, kappa, tau), (rho, kappa, tau))
    with torch.no_grad():
        rho.mul_(-0.5)
        kappa.mul_(1.5)
    graph.replay()
    torch.cuda.synchronize()
    eager = torch.autograd.grad(everything(rho, kappa, tau), (rho, kappa, tau))
    for a, b in zip(captured, eager, strict=True):
        torch.testing.assert_close(a, b)


def test_compile() -> None:
    rho, kappa, tau = (a.requires_grad_() for a in classes(64, 50, 128, torch.float32))

    def loss(rho: Tensor, kappa: Tensor, tau: Tensor) -> Tensor:
        return resultant.vmf_score(rho, kappa, tau, 128).logsumexp(1).sum()

    compiled = torch.autograd.grad(
        torch.compile(loss, fullgraph=True)(rho, kappa, tau), (rho, kappa, tau)
    )
    eager = torch.autograd.grad(loss(rho, kappa, tau), (rho, kappa, tau))
    for a, b in zip(compiled, eager, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_vmap_and_autocast() -> None:
    rho, kappa, tau = classes(64, 50, 128, torch.float32)
    whole = resultant.vmf_score(rho, kappa, tau, 128)
    mapped = torch.func.vmap(lambda row: resultant.vmf_score(row, kappa, tau, 128))(rho)
    assert torch.equal(whole, mapped)
    with torch.autocast("cuda", torch.bfloat16):
        assert torch.equal(whole, resultant.vmf_score(rho, kappa, tau, 128))


def test_validation_on_request() -> None:
    rho, kappa, tau = classes(4, 5, 128, torch.float32)
    kappa[3] = -2.0
    with pytest.raises(ValueError, match=r"expected kappa >= 0 and finite, got -2 at index 3"):
        resultant.vmf_score(rho, kappa, tau, 128, validate_args=True)


def test_distribution() -> None:
    torch.manual_seed(0)
    loc = torch.eye(5, device="cuda")[0].requires_grad_()
    kappa = torch.tensor([0.0, 3.0, 1e6], device="cuda", requires_grad=True)
    d = resultant.VonMisesFisher(loc, kappa, validate_args=True)
    x = d.rsample((4000,))
    assert x.isfinite().all() and (x.norm(dim=-1) - 1).abs().max() < 1e-6
    (moved,) = torch.autograd.grad(x[..., 0].mean(0).sum(), kappa)
    expected = torch.autograd.grad(d.mean[..., 0].sum(), kappa)[0]
    torch.testing.assert_close(moved[:2], expected[:2], rtol=0.1, atol=1e-3)
    fitted = resultant.VonMisesFisher.fit(x[:, 1].detach(), validate_args=True)
    assert abs(float(fitted.concentration.detach()) - 3) < 0.3
    cpu = resultant.VonMisesFisher(loc.detach().cpu(), kappa.detach().cpu())
    torch.testing.assert_close(d.entropy().detach().cpu(), cpu.entropy())
    density = d.log_prob(x.detach()).detach().cpu()
    torch.testing.assert_close(density, cpu.log_prob(x.detach().cpu()), rtol=1e-5, atol=1e-2)
