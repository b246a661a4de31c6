"""Public functions in forward mode, against grad and Hessians of autograd, and traced."""

# pyright: reportCallIssue=false

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, func
from torch.distributions import kl_divergence

import resultant
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
    "log_bessel_ie": lambda x: resultant.log_bessel_ie(2.5, 9 * x),
    "bessel_ratio": lambda x: resultant.bessel_ratio(2.5, 9 * x),
    "bessel_ratio_inverse": lambda x: resultant.bessel_ratio_inverse(2.5, x),
    "complement": lambda x: resultant.bessel_ratio_inverse(2.5, complement=x),
    "bessel_ratio_integral": lambda x: resultant.bessel_ratio_integral(2.5, x, 3 * x),
    "log_normalizer": lambda x: resultant.log_normalizer(7, 9 * x),
    "mean_resultant": lambda x: resultant.mean_resultant(7, 9 * x),
    "concentration": lambda x: resultant.concentration(7, x),
    "vmf_score": lambda x: resultant.vmf_score(x, 9 * x, x, 7),
    "vmf_score_slope": lambda x: resultant.vmf_score_slope(x, 9 * x, x, 7),
    "vmf_score_and_slope": lambda x: torch.stack(resultant.vmf_score_and_slope(x, 9 * x, x, 7)),
    "slope_without_shift": lambda x: resultant.vmf_score_slope(x, 1.0, 0.1, 100),
    "decompose": lambda x: torch.stack(list(resultant.decompose(x, 9 * x, x, 7))),
    "joint_expansion": lambda x: resultant.joint_expansion(x, 9 * x, x, 64),
    "fixed_expansion": lambda x: resultant.fixed_expansion(x, 9 * x, x, 64),
    "free_energy_expansion": lambda x: resultant.free_energy_expansion(x, 9 * x, x, 64),
    "directional_cumulants": lambda x: torch.stack(resultant.directional_cumulants(x, 9 * x, 7)),
    "ratio_approximation": lambda x: resultant.ratio_approximation(2.5, 9 * x),
    "ambient_gradient": lambda x: resultant.ambient_gradient(Z[0], Z[1], 9 * x, x),
    "tangent_gradient": lambda x: resultant.tangent_gradient(Z[0], Z[1], 9 * x, x),
    "target_gain": lambda x: resultant.target_gain(x, 0.5, "power"),
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
    """Return the values of all functions."""
    return torch.cat([function(X).flatten() for function in FUNCTIONS.values()])


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
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
@pytest.mark.parametrize(
    "name",
    [
        *("bessel_ratio", "bessel_ratio_inverse", "log_bessel_i", "vmf_score"),
        *("vmf_score_slope", "slope_without_shift", "entropy", "log_prob", "class_scores"),
    ],
)
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
