"""Batch norm, residual and ReLU, and the fused residual block, against plain layers in float64: in
Triton's interpreter and on a GPU."""

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from resultant_reproduction.cifar.network import FUSED
from resultant_reproduction.cifar.norm import (
    EPS,
    MOMENTUM,
    NormRelu,
    _NormRelu,
    channels_last,
    halved,
)

RUNS, CHANNELS = 3, 24
# Without a next block, into a block of this stage, into the next stage.
SHORTCUTS = (None, CHANNELS, 2 * CHANNELS)


def distance(a: Tensor, b: Tensor) -> float:
    """Return the relative distance in the mean square."""
    a, b = (v.detach().double().cpu() for v in (a, b))
    return float((a - b).norm() / b.norm())


def check(
    device: str, dtype: torch.dtype, bar: float, residual: bool, shortcut: int | None, shape: Any
) -> None:
    """Compare the kernels with the plain path in float64: outputs, gradients and moments."""
    torch.manual_seed(0)
    module = NormRelu(RUNS, CHANNELS)
    for parameter in module.parameters():
        nn.init.normal_(parameter)
    plain = copy.deepcopy(module).double()
    module.to(device)
    n, h, w = shape
    drawn = torch.randn(1 + residual, n, RUNS * CHANNELS, h, w).mul(2).add(1).to(dtype)
    wide = [a.double().requires_grad_() for a in drawn]
    inputs = [channels_last(a.to(device)).requires_grad_() for a in drawn]
    x, r = inputs[0], inputs[1] if residual else None
    parameters = module.weight, module.bias, module.running_mean, module.running_var
    outputs = [a for a in _NormRelu.apply(x, r, shortcut, *parameters) if a is not None]
    # No gradient where rounding may decide the sign of the output.
    with torch.no_grad():
        before = copy.deepcopy(plain).normalized(wide[0]) + (wide[1] if residual else 0)
    exact = [a for a in plain(*wide, shortcut=shortcut) if a is not None]
    assert len(outputs) == len(exact) == 1 + (shortcut is not None)
    sure = (before.abs() > 1e-4).to(device=device, dtype=dtype)
    masks = [sure, halved(sure, RUNS, shortcut) if shortcut == 2 * CHANNELS else sure]
    gradients = [torch.randn_like(a) * m for a, m in zip(outputs, masks, strict=False)]
    torch.autograd.backward(outputs, gradients)
    torch.autograd.backward(exact, [g.cpu().double() for g in gradients])
    for a, b in zip(outputs, exact, strict=True):
        assert a.dtype == dtype and distance(a, b) < bar
    for a, b in zip(inputs, wide, strict=True):
        assert a.grad is not None and b.grad is not None and a.grad.dtype == dtype
        assert distance(a.grad, b.grad) < bar
    for (name, a), b in zip(module.named_parameters(), plain.parameters(), strict=True):
        assert a.grad is not None and b.grad is not None
        assert distance(a.grad, b.grad) < 1e-5, name
    for a, b in zip(module.buffers(), plain.buffers(), strict=True):
        assert distance(a, b) < 1e-6


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(5, 7, 9), (80, 32, 32)])
@pytest.mark.parametrize("shortcut", SHORTCUTS)
@pytest.mark.parametrize("residual", [False, True])
# At most two roundings of 2^-9 each in bfloat16.
@pytest.mark.parametrize(("dtype", "bar"), [(torch.float32, 2e-6), (torch.bfloat16, 2.0**-8)])
def test_on_a_gpu(
    dtype: torch.dtype, bar: float, residual: bool, shortcut: int | None, shape: tuple[int, ...]
) -> None:
    check("cuda", dtype, bar, residual, shortcut, shape)
    out, _ = NormRelu(1, 4).cuda()(torch.randn(2, 4, 3, 3, device="cuda"))
    assert "_NormRelu" in type(out.grad_fn).__name__


SHAPES = [(16, 3, 1), (16, 5, 4), (16, 150, 6), (32, 3, 1), (32, 7, 5), (32, 300, 2)]
gpu = pytest.mark.gpu


def rounded(x: Tensor) -> Tensor:
    return x.to(torch.bfloat16).to(x.dtype)


def activation(n: int, runs: int, c: int) -> Tensor:
    w = FUSED[c]
    return channels_last(torch.randn(n, runs * c, w, w, device="cuda").to(torch.bfloat16))


def weights(runs: int, c: int) -> Tensor:
    return torch.randn(runs, c, c, 3, 3, device="cuda") * (2 / (9 * c)) ** 0.5


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
    from resultant_reproduction.cifar.kernels.conv import FusedBlock

    following = c * stage
    data = case(c, n, runs, following)
    fused, again = (run(FusedBlock.apply, data, following, None) for _ in range(2))
    exact = run(plain, data, following, torch.float64)
    for name, value in fused.items():
        assert torch.equal(value, again[name]), name
        assert value.shape == exact[name].shape, name
        bar = 1e-5 if name.startswith(("mean", "var")) else 0.01
        assert distance(value, exact[name]) < bar, (name, distance(value, exact[name]))
