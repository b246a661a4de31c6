"""Batch norm, residual and ReLU: the kernels in Triton's interpreter and on a GPU."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from programs import run_interpreted
from resultant.networks.norm import NormRelu, _NormRelu, channels_last, halved

RUNS, CHANNELS = 3, 24
# Without a next block, into a block of this stage, into the next stage.
SHORTCUTS = (None, CHANNELS, 2 * CHANNELS)
CHECK = """
import torch
from networks import test_norm as test
from resultant.networks.kernels import norm as kernel

# Few rows and programs, so that a program takes several steps and the last one is not full.
for kernel.ROWS, kernel.PROGRAMS, shape in ((256, 512, (2, 9, 1)), (32, 3, (6, 7, 5))):
    for shortcut in test.SHORTCUTS:
        for residual in (False, True):
            test.check("cpu", torch.float32, 2e-6, residual, shortcut, shape)
"""


def distance(a: Tensor, b: Tensor) -> float:
    """Return the relative distance in the mean square."""
    a, b = (v.detach().double().cpu() for v in (a, b))
    return float((a - b).norm() / b.norm())


def check(
    device: str,
    dtype: torch.dtype,
    bar: float,
    residual: bool,
    shortcut: int | None,
    shape: tuple[int, int, int],
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


@pytest.mark.slow
def test_interpreted() -> None:
    run_interpreted(CHECK)


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(5, 7, 9), (80, 32, 32)])
@pytest.mark.parametrize("shortcut", SHORTCUTS)
@pytest.mark.parametrize("residual", [False, True])
# At most two roundings of 2^-9 each in bfloat16.
@pytest.mark.parametrize(("dtype", "bar"), [(torch.float32, 2e-6), (torch.bfloat16, 2.0**-8)])
def test_on_a_gpu(
    dtype: torch.dtype,
    bar: float,
    residual: bool,
    shortcut: int | None,
    shape: tuple[int, int, int],
) -> None:
    check("cuda", dtype, bar, residual, shortcut, shape)
    out, _ = NormRelu(1, 4).cuda()(torch.randn(2, 4, 3, 3, device="cuda"))
    assert "_NormRelu" in type(out.grad_fn).__name__
