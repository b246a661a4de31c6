"""The fused residual block, against plain convolutions in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from resultant.networks.norm import EPS, MOMENTUM, channels_last, halved
from resultant.networks.stacked_resnet import FUSED

SHAPES = [(16, 3, 1), (16, 5, 4), (16, 150, 6), (32, 3, 1), (32, 7, 5), (32, 300, 2)]
gpu = pytest.mark.gpu


def rounded(x: Tensor) -> Tensor:
    return x.to(torch.bfloat16).to(x.dtype)


def activation(n: int, runs: int, c: int) -> Tensor:
    w = FUSED[c]
    return channels_last(torch.randn(n, runs * c, w, w, device="cuda").to(torch.bfloat16))


def weights(runs: int, c: int) -> Tensor:
    return torch.randn(runs, c, c, 3, 3, device="cuda") * (2 / (9 * c)) ** 0.5


def distance(a: Tensor, b: Tensor) -> float:
    """Return the relative distance in the mean square."""
    return float((a.double() - b.double()).norm() / b.double().norm())


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


class Case(NamedTuple):
    x: Tensor
    parameters: list[Tensor]
    buffers: list[Tensor]
    upstream: tuple[Tensor, Tensor]


def case(c: int, n: int, runs: int, following: int) -> Case:
    def normal() -> Tensor:
        return torch.randn(runs, c, device="cuda")

    x = activation(n, runs, c).relu()
    parameters, buffers = [], []
    for _ in range(2):
        parameters += [rounded(weights(runs, c)), 1 + 0.2 * normal(), 0.2 * normal()]
        buffers += [normal(), normal().abs() + 0.5]
    one = activation(n, runs, c)
    two = activation(n, runs, c) if following == c else halved(activation(n, runs, c), runs, 2 * c)
    return Case(x, parameters, buffers, (one, torch.randn_like(two)))


class Rounded(torch.autograd.Function):
    """Round to bf16 where the block stores or multiplies: a value on request, and its gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, value: bool) -> Tensor:  # type: ignore[override]
        return rounded(x) if value else x.clone()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        return rounded(g), None


def plain(x: Tensor, shortcut: Tensor, *arguments: Any) -> tuple[Tensor, Tensor]:
    """Compute the block in float64, rounded as on the GPU: else signs at the ReLUs differ."""
    w1, gamma1, beta1, mean1, var1, w2, gamma2, beta2, mean2, var2, following = arguments
    runs, c = gamma1.shape

    def layer(
        x: Tensor, w: Tensor, gamma: Tensor, beta: Tensor, mean: Tensor, var: Tensor
    ) -> Tensor:
        y = Rounded.apply(F.conv2d(x, w.flatten(0, 1), None, 1, 1, 1, runs), True)
        return F.batch_norm(
            y, mean.view(-1), var.view(-1), gamma.flatten(), beta.flatten(), True, MOMENTUM, EPS
        )

    h = Rounded.apply(layer(x, w1, gamma1, beta1, mean1, var1).relu(), True)
    out = layer(h, w2, gamma2, beta2, mean2, var2) + shortcut
    out = Rounded.apply(out, False).relu()
    return out, out if following == c else halved(out, runs, following)


def run(
    block: Callable[..., Any], case: Case, following: int, dtype: torch.dtype | None
) -> dict[str, Tensor]:
    def copy(t: Tensor) -> Tensor:
        return t.detach().to(dtype or t.dtype, copy=True)

    x, shortcut = (copy(case.x).requires_grad_() for _ in range(2))
    parameters = [copy(p).requires_grad_() for p in case.parameters]
    buffers = [copy(b) for b in case.buffers]
    first, second = ([*parameters[3 * k :][:3], *buffers[2 * k :][:2]] for k in range(2))
    outputs = block(x, shortcut, *first, *second, following)
    gradients = torch.autograd.grad(
        outputs, [x, shortcut, *parameters], [copy(u) for u in case.upstream]
    )
    names = ["dx", "d_shortcut", "dw1", "d_gamma1", "d_beta1", "dw2", "d_gamma2", "d_beta2"]
    moments = ["mean1", "var1", "mean2", "var2"]
    return {
        "out": outputs[0].detach(),
        "shortcut": outputs[1].detach(),
        **dict(zip(names, gradients, strict=True)),
        **dict(zip(moments, buffers, strict=True)),
    }


@gpu
@pytest.mark.parametrize(("c", "n", "runs"), SHAPES)
@pytest.mark.parametrize("stage", [1, 2])
def test_block(c: int, n: int, runs: int, stage: int) -> None:
    """Outputs, gradients and running moments, the same bits each time."""
    from resultant.networks.kernels.conv import FusedBlock

    following = c * stage
    data = case(c, n, runs, following)
    fused, again = (run(FusedBlock.apply, data, following, None) for _ in range(2))
    exact = run(plain, data, following, torch.float64)
    for name, value in fused.items():
        assert torch.equal(value, again[name]), name
        assert value.shape == exact[name].shape, name
        bar = 1e-5 if name.startswith(("mean", "var")) else 0.01
        assert distance(value, exact[name]) < bar, (name, distance(value, exact[name]))
