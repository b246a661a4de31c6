"""Derivatives of the score against Arb and differences, and identities of the paper."""

# pyright: reportCallIssue=false
# Arguments are unpacked from lists.

import math

import numpy as np
import pytest
import torch
from torch import Tensor

import resultant
from reference import arb


def test_gradient_at_zero_concentration() -> None:
    """At kappa = 0 the score does not depend on rho, and its slope in kappa is rho times R(t)."""
    rho = torch.tensor([-1.0, 0.25, 1.0], dtype=torch.float64, requires_grad=True)
    kappa = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    for p in (2, 3, 128):
        d_rho, d_kappa = torch.autograd.grad(
            resultant.vmf_score(rho, kappa, 0.1, p).sum(), (rho, kappa)
        )
        assert (d_rho == 0).all()
        expected = rho.detach() * resultant.bessel_ratio(p / 2 - 1, 10.0)
        torch.testing.assert_close(d_kappa, expected, rtol=1e-13, atol=1e-15)


@pytest.mark.slow
@pytest.mark.parametrize("p", [3, 26, 128, 1024])
def test_score_is_a_log_moment(p: int) -> None:
    """eq:main-exact, by sampling the class."""
    torch.manual_seed(0)
    mu, other = torch.eye(2, p, dtype=torch.float64)
    z, kappa, tau = 0.6 * mu + 0.8 * other, p / 2, 1.0
    draws = resultant.VonMisesFisher(mu, torch.tensor(kappa, dtype=torch.float64)).sample((20_000,))
    values = (draws @ z / tau).exp()
    q = float(resultant.vmf_score(0.6, kappa, tau, p))
    deviation = float(values.std()) / float(values.mean()) / math.sqrt(len(values))
    assert abs(math.log(float(values.mean())) - q) <= 4 * deviation


DTYPES = [torch.float32, torch.float64]


def single(a: np.ndarray) -> np.ndarray:
    """Round to float32, so that one reference serves both precisions."""
    return a.astype(np.float32).astype(np.float64)


def derivatives(inputs: list[Tensor], p: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the gradient [3, n] and the Hessian [3, 3, n] of the score, by autograd."""
    inputs = [a.clone().requires_grad_() for a in inputs]
    first = torch.autograd.grad(resultant.vmf_score(*inputs, p).sum(), inputs, create_graph=True)
    second = [torch.autograd.grad(a.sum(), inputs, retain_graph=True) for a in first]
    gradient = torch.stack(first).detach().double().numpy()
    return gradient, torch.stack([torch.stack(row) for row in second]).double().numpy()


def symmetric(entries: np.ndarray) -> np.ndarray:
    """Arrange the six entries of `arb.hessian` [6, n] as a matrix [3, 3, n]."""
    return entries[np.array([[0, 1, 2], [1, 3, 4], [2, 4, 5]])]


def changes(inputs: list[np.ndarray], p: int) -> np.ndarray:
    """Return the change [3, 3, n] of the Hessian for a change of every input by itself."""
    arguments = [torch.from_numpy(a).requires_grad_() for a in inputs]
    first = torch.autograd.grad(
        resultant.vmf_score(*arguments, p).sum(), arguments, create_graph=True
    )
    total = np.zeros((3, 3, len(inputs[0])))
    for i in range(3):
        row = torch.autograd.grad(first[i].sum(), arguments, create_graph=True)
        for j in range(3):
            third = torch.autograd.grad(row[j].sum(), arguments, retain_graph=True)
            total[i, j] = sum(abs(a * b.numpy()) for a, b in zip(inputs, third, strict=True))
    return total


@pytest.mark.usefixtures("with_and_without_kernel")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("rho", "kappa", "tau", "p"),
    [(0.0, 1.0, 1 / 16, 2048), (0.0, 1.0, 0.05, 1024), (1e-19, 1.0, 0.05, 1024)],
)
def test_derivative_in_kappa_at_a_right_angle(
    rho: float, kappa: float, tau: float, p: int, dtype: torch.dtype
) -> None:
    inputs = [torch.tensor([a], dtype=dtype) for a in (rho, kappa, tau)]
    truth = arb.score(*(float(a) for a in inputs), p)[2]
    assert abs(derivatives(inputs, p)[0][1, 0] / truth - 1) <= 32 * torch.finfo(dtype).eps


@pytest.mark.usefixtures("with_and_without_kernel")
def test_derivative_in_kappa_where_squares_underflow() -> None:
    """dq/dkappa = rho t/p, although kappa^2 and t^2 are zero in float32."""
    for rho, kappa, tau, p in ((-1.0, 5.6e-30, 1.8e29, 2), (-5.3e-4, 2.9e-18, 3.6e26, 10**7)):
        inputs = [torch.tensor([a]) for a in (rho, kappa, tau)]
        truth = float(inputs[0].double() / inputs[2].double()) / p
        assert abs(derivatives(inputs, p)[0][1, 0] / truth - 1) <= 1e-6


@pytest.mark.usefixtures("with_and_without_kernel")
@pytest.mark.parametrize("dtype", DTYPES)
def test_hessian_is_symmetric(dtype: torch.dtype) -> None:
    """Two derivatives in either order, at points where they differed by their own size."""
    rho = torch.tensor([1e-6, -0.3, 0.0, -1.0, 0.7, 1.0], dtype=dtype)
    kappa = torch.tensor([1e-3, 40.0, 1.0, 1e5, 1e-3, 300.0], dtype=dtype)
    tau = torch.tensor([1e-4, 0.1, 1 / 16, 1.1e-5, 7.0, 0.5], dtype=dtype)
    for p in (3, 28, 1024):
        hessian = derivatives([rho, kappa, tau], p)[1]
        assert (hessian == hessian.swapaxes(0, 1)).all(), p


@pytest.mark.usefixtures("with_and_without_kernel")
def test_hessian_where_two_orders_differed() -> None:
    inputs = [torch.tensor([a]) for a in (1e-6, 1e-3, 1e-4)]
    truth = symmetric(np.array([arb.hessian(*(float(a) for a in inputs), 28)]).T)
    assert (abs(derivatives(inputs, 28)[1] / truth - 1) <= 1e-5).all()


@pytest.mark.slow
@pytest.mark.parametrize("p", [3, 17, 128, 1024, 2048])
def test_hessian_in_training(p: int) -> None:
    """To 1e-4 in float32 and 1e-11 in float64, relative to the entry; near a zero of the entry,
    to 16 roundings of the inputs, which is far less than these bars elsewhere."""
    rng = np.random.default_rng(p)
    n = 60
    rho = np.concatenate([[-1.0, 0.0, 1.0], rng.uniform(-1, 1, n - 3)])
    inputs = [single(a) for a in (rho, p * 10 ** rng.uniform(-1, 1, n), rng.uniform(0.05, 0.2, n))]
    truth = symmetric(np.array([arb.hessian(*x, p) for x in zip(*inputs, strict=True)]).T)
    change = changes(inputs, p)
    for dtype, bar in ((torch.float32, 1e-4), (torch.float64, 1e-11)):
        ours = derivatives([torch.from_numpy(a).to(dtype) for a in inputs], p)[1]
        allowed = np.maximum(bar * abs(truth), 16 * torch.finfo(dtype).eps * change)
        assert (abs(ours - truth) <= allowed).all()


def assert_derivatives(inputs: list[np.ndarray], p: int, roundings: int) -> None:
    """Compare first and second derivatives with Arb, to so many roundings of the result and of the
    inputs."""
    points = list(zip(*inputs, strict=True))
    gradient = np.array([arb.score(*x, p)[1:] for x in points]).T
    hessian = symmetric(np.array([arb.hessian(*x, p) for x in points]).T)
    steps = sum(abs(a * row) for a, row in zip(inputs, hessian, strict=True))
    change = changes(inputs, p)
    for dtype in DTYPES if all((single(a) == a).all() for a in inputs) else [torch.float64]:
        first, second = derivatives([torch.from_numpy(a).to(dtype) for a in inputs], p)
        eps, lost = roundings * torch.finfo(dtype).eps, 1e-36 if dtype == torch.float32 else 0.0
        assert (abs(first - gradient) <= eps * (abs(gradient) + steps)).all(), dtype
        assert (abs(second - hessian) <= eps * (abs(hessian) + change) + lost).all(), dtype


@pytest.mark.slow
@pytest.mark.usefixtures("with_and_without_kernel")
def test_derivatives_with_the_largest_errors() -> None:
    """Just above the smallest order of the expansion, where a search over all dimensions finds the
    largest errors of its second derivative."""
    for x in ((0.016999457820477324, 2.58e-6, 31.95367503660177), (0.0, 0.29, 27.890150630230885)):
        assert_derivatives([np.array([a]) for a in x], 63, 64)


@pytest.mark.slow
@pytest.mark.usefixtures("with_and_without_kernel")
@pytest.mark.parametrize("p", [2, 3, 17, 61, 128, 1024])
def test_derivatives_everywhere(p: int) -> None:
    rng = np.random.default_rng([1, p])
    n = 120
    rho, kappa = rng.uniform(-1, 1, n), 10 ** rng.uniform(-5, 5, n)
    tau = 10 ** rng.uniform(-4, 2, n)
    rho[:15], rho[15:30], rho[30:40] = -1, 1, 0
    rho[40:60] *= 10 ** rng.uniform(-20, 0, 20)
    # The tilt cancels the concentration.
    kappa[60:80] = (1 + 10 ** rng.uniform(-6, 0, 20)) / tau[60:80]
    assert_derivatives([single(a) for a in (rho, kappa, tau)], p, 48)
