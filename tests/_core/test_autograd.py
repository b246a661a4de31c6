"""The distribution in forward mode, functions in torch.jit.trace, and the state of torch; other
public names are in `test_contracts`."""

# pyright: reportCallIssue=false

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, func
from torch.autograd import forward_ad
from torch.distributions import kl_divergence

import resultant
from resultant._core import autograd, modes
from resultant._core.autograd import opaque
from resultant._core.modes import untraced

X = torch.tensor([0.2, 0.55, 0.9], dtype=torch.float64)
Z = torch.nn.functional.normalize(torch.arange(1.0, 9.0, dtype=torch.float64).view(2, 4), dim=1)
KAPPA = torch.tensor([0.5, 3.0, 7.0, 9.5], dtype=torch.float64)
STATE = resultant.ClassState(torch.eye(4, dtype=torch.float64), KAPPA, torch.ones(4))


def turned(x: Tensor) -> Tensor:
    return torch.nn.functional.normalize(Z[:, :3] * x, dim=1) @ torch.eye(3, 4).double()


def law(x: Tensor) -> resultant.VonMisesFisher:
    return resultant.VonMisesFisher(Z[0], 5 * x)


FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "log_bessel_i": lambda x: resultant.log_bessel_i(2.5, 9 * x),
    "bessel_ratio": lambda x: resultant.bessel_ratio(2.5, 9 * x),
    "bessel_ratio_inverse": lambda x: resultant.bessel_ratio_inverse(2.5, x),
    "vmf_score": lambda x: resultant.vmf_score(x, 9 * x, x, 7),
    "vmf_score_slope": lambda x: resultant.vmf_score_slope(x, 9 * x, x, 7),
    "slope_without_shift": lambda x: resultant.vmf_score_slope(x, 1.0, 0.1, 100),
    "class_scores": lambda x: resultant.class_scores(turned(x), STATE, 0.5, "angular"),
    "log_prob": lambda x: law(x).log_prob(Z[1]),
    "entropy": lambda x: law(x).entropy(),
    "kl_divergence": lambda x: kl_divergence(law(x), law(2 * x)),
    "mean": lambda x: law(x).mean,
    "variance": lambda x: law(x).variance,
    "stddev": lambda x: law(x).stddev,
    "covariance_matrix": lambda x: law(x).covariance_matrix,
}


def results() -> Tensor:
    """Return the values of all functions; `special/test_build.py` compares two builds by them."""
    return torch.cat([function(X).flatten() for function in FUNCTIONS.values()])


@pytest.mark.slow
@pytest.mark.parametrize("name", list(FUNCTIONS)[list(FUNCTIONS).index("log_prob") :])
def test_forward_mode(name: str) -> None:
    """jvp is grad along a direction; forward over reverse is reverse over reverse."""

    def total(x: Tensor) -> Tensor:
        return FUNCTIONS[name](x).sin().sum()

    tangent = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    change = func.jvp(total, (X,), (tangent,))[1]
    torch.testing.assert_close(change, func.grad(total)(X) @ tangent, rtol=1e-10, atol=1e-12)
    hessian = func.hessian(total)(X)
    torch.testing.assert_close(
        hessian, torch.autograd.functional.hessian(total, X), rtol=1e-9, atol=1e-11
    )


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("name", ["bessel_ratio_inverse", "vmf_score", "log_prob", "class_scores"])
def test_a_traced_function_computes_anew(name: str) -> None:
    traced: Any = torch.jit.trace(FUNCTIONS[name], X)
    for at in (X, X * 0.7):
        torch.testing.assert_close(traced(at), FUNCTIONS[name](at), rtol=1e-12, atol=1e-14)


@pytest.mark.slow
def test_untraced_functions_run_between_graphs() -> None:
    traced = []

    @untraced
    def double(a: Tensor, factor: float = 2.0) -> Tensor:
        traced.append(torch.compiler.is_compiling())
        return factor * a

    def whole(a: Tensor) -> Tensor:
        return double(a + 1, factor=3.0) - 1

    a = torch.arange(3.0)
    expected = whole(a)
    compiled = torch.compile(whole, backend="eager")
    for _ in range(2):
        assert torch.equal(compiled(a), expected)
    assert traced == [False] * 3
    assert double.__name__ == "double"


@pytest.mark.parametrize("function", [resultant.bessel_ratio, resultant.log_bessel_i])
def test_no_derivative_in_the_order(function: Callable[..., Tensor]) -> None:
    """Refused in both modes, also where another argument has a derivative; never left out."""
    nu, x = torch.tensor(3.0, dtype=torch.float64), X[1]
    one, expected = torch.ones_like(x), func.grad(lambda v: function(3.0, v))(x)
    assert torch.equal(func.jvp(lambda v: function(nu, v), (x,), (one,))[1], expected)
    for tangent in (0 * one, one):
        with pytest.raises(ValueError, match="expected nu without tangent"):
            func.jvp(function, (nu, x), (tangent, one))
    with forward_ad.dual_level(), pytest.raises(ValueError, match="expected nu without tangent"):
        function(forward_ad.make_dual(nu, one), x)
    with pytest.raises(ValueError, match="expected nu without gradient"):
        function(nu.clone().requires_grad_(), x)


def test_no_derivative_in_a_setting() -> None:
    """A tensor for a number is read as one: its derivative is refused and not left out."""
    g, beta = torch.tensor([1.0, 2.0]), torch.tensor(0.3)
    number: Any = beta
    assert torch.equal(resultant.target_gain(g, number), resultant.target_gain(g, 0.3))
    settings: list[Callable[[Any], object]] = [
        lambda b: resultant.target_gain(g, b),
        lambda b: resultant.Rule(0.1, beta=b),
        lambda b: resultant.ProCoLoss(3, 4, beta=b),
        lambda b: resultant.ProCoLoss(3, 4, prior=b, class_counts=[3, 2, 1]),
    ]
    for call in settings:
        with pytest.raises(ValueError, match=r"expected (beta|prior) without gradient"):
            call(beta.clone().requires_grad_())
        with forward_ad.dual_level(), pytest.raises(ValueError, match="without gradient"):
            call(forward_ad.make_dual(beta, torch.ones_like(beta)))


def test_cosines_that_round_to_one_have_derivatives() -> None:
    """A query at the mean of its class has them, in every mode."""
    torch.manual_seed(0)
    z = torch.nn.functional.normalize(torch.randn(100, 64), dim=1)
    state = resultant.ClassState(z, torch.full((100,), 20.0), torch.ones(100))

    def own(z: Tensor) -> Tensor:
        return resultant.class_scores(z, state, 0.1).diagonal()

    expected = (func.grad(lambda z: own(z).sum())(z) * z).sum(1)
    assert (expected > 1).all()
    with forward_ad.dual_level():
        dual = forward_ad.unpack_dual(own(forward_ad.make_dual(z, z))).tangent
    torch.testing.assert_close(dual, expected, rtol=1e-5, atol=0)
    torch.testing.assert_close(func.jvp(own, (z,), (z,))[1], expected, rtol=1e-5, atol=0)


def test_zeros_without_memory() -> None:
    zeros = torch._efficientzerotensor(3, dtype=torch.float64)
    assert torch.equal(resultant.bessel_ratio(0.5, zeros), torch.zeros_like(X))


@pytest.mark.parametrize("missing", [("_functorch",), ("_len_torch_dispatch_stack",)])
def test_a_torch_without_private_names(
    missing: tuple[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The general way is taken, with the same results."""
    names = ("bessel_ratio", "vmf_score", "class_scores", "log_prob")
    expected = [FUNCTIONS[name](X) for name in names]
    for name in missing:
        monkeypatch.delattr(torch._C, name)
    monkeypatch.delattr(forward_ad, "_current_level")
    assert not modes.is_plain() and not modes.is_constant(X)
    for name, value in zip(names, expected, strict=True):
        torch.testing.assert_close(FUNCTIONS[name](X), value, rtol=1e-13, atol=0)


def test_operators_have_names_of_their_own() -> None:
    """The same in every process, whichever folder is imported first."""
    with pytest.raises(ValueError, match="got 'ratio' twice"):
        opaque("ratio")(torch.sin)
    assert all(isinstance(name, str) for name in autograd._VALUES)
