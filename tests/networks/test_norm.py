"""Batch norm, residual and ReLU: the kernels in Triton's interpreter and on a GPU."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from programs import run_interpreted
from resultant.networks.norm import NormRelu, channels_last, halved

CHECK = """
import copy

import torch
from resultant.networks.kernels import norm as kernel
from resultant.networks import norm
from networks.test_norm import distance, reference

torch.manual_seed(0)
# Few rows and programs, so that a program takes several steps and the last one is not full.
few, full = ((False, 1), (True, 2)), ((False, 1), (True, 2), (False, 2), (True, 1))
for kernel.ROWS, kernel.PROGRAMS, cases in (
    (256, 512, (((6, 24, 7, 5), full), ((3, 70, 4, 4), few), ((2, 64, 9, 1), few))),
    (32, 3, (((6, 24, 7, 5), few),)),
):
    for shape, kinds in cases:
        for residual, parts in kinds:
            C = shape[1]
            x = norm.channels_last(torch.randn(shape) * 2 + 1)
            r = torch.randn_like(x) if residual else None
            gamma, beta = torch.rand(C) + 0.5, torch.randn(C)
            mean, var = torch.randn(C), torch.rand(C)
            before = mean.double(), var.double()
            out, saved = kernel.forward(x, r, gamma, beta, mean, var, 0.1, 1e-5)
            g = [torch.randn_like(x) for _ in range(parts)]
            second = g[1] if parts == 2 else None
            results = kernel.backward(x, out, saved, g[0], second, residual, C)
            exact, *gradients = reference(x, r, gamma, beta, *before, sum(g))
            assert distance(out, exact) < 1e-6, (shape, residual, parts)
            for a, b in zip(results, gradients):
                assert (a is None) == (b is None)
                assert a is None or distance(a, b) < 1e-6, (shape, residual, parts)
            assert distance(mean, before[0]) < 1e-6 and distance(var, before[1]) < 1e-6

# The autograd function: the gradient of the shortcut to the next stage has half the size.
for shape, wides in (((3, 8, 6, 4), (4, 8, None)), ((2, 8, 5, 7), (8,))):
    for residual in (False, True):
        for wide in wides:
            x = norm.channels_last(torch.randn(shape)).requires_grad_()
            r = norm.channels_last(torch.randn(shape)).requires_grad_() if residual else None
            module = norm.NormRelu(2, 4)
            torch.nn.init.normal_(module.weight)
            other = copy.deepcopy(module)
            plain = module(x, r, wide)
            parameters = (other.weight, other.bias, other.running_mean, other.running_var)
            fused = norm._NormRelu.apply(x, r, *parameters, wide)
            weights = [None if a is None else torch.randn_like(a) for a in plain]
            results = []
            for of, outputs in ((module, plain), (other, fused)):
                pairs = [(a, w) for a, w in zip(outputs, weights) if a is not None]
                leaves = [a for a in (x, r, of.weight, of.bias) if a is not None]
                total = sum((a * w).sum() for a, w in pairs)
                gradients = torch.autograd.grad(total, leaves)
                results.append([*(a for a, _ in pairs), *gradients, *of.buffers()])
            assert len(results[0]) == len(results[1])
            for a, b in zip(*results):
                assert a.shape == b.shape and distance(b, a) < 2e-6, (shape, residual, wide)
"""


def distance(a: Tensor, b: Tensor) -> float:
    """Return the relative distance in the mean square."""
    a, b = (v.detach().double().cpu() for v in (a, b))
    return float((a - b).norm() / b.norm())


def reference(
    x: Tensor,
    residual: Tensor | None,
    gamma: Tensor,
    beta: Tensor,
    mean: Tensor,
    var: Tensor,
    g: Tensor,
) -> tuple[Tensor | None, ...]:
    """Return the output in float64 and the gradients of x, residual, gamma and beta; update the
    moments."""
    leaves = [
        None if a is None else a.double().requires_grad_() for a in (x, residual, gamma, beta)
    ]
    wide_x, r, wide_gamma, wide_beta = leaves
    assert wide_x is not None
    out = F.batch_norm(wide_x, mean, var, wide_gamma, wide_beta, True, 0.1, 1e-5)
    out = F.relu(out if r is None else out + r)
    out.backward(g.double())
    return out.detach(), *(None if a is None else a.grad for a in leaves)


@pytest.mark.slow
def test_interpreted() -> None:
    run_interpreted(CHECK)


def test_plain_path_is_batch_norm_of_each_run() -> None:
    torch.manual_seed(0)
    module, norms = NormRelu(2, 3), [nn.BatchNorm2d(3) for _ in range(2)]
    for parameter in module.parameters():
        nn.init.normal_(parameter)
    for run, one in enumerate(norms):
        one.weight.data, one.bias.data = module.weight.data[run], module.bias.data[run]
    for training in (True, True, False):
        module.train(training)
        x, r = torch.randn(2, 5, 6, 4, 4)
        out, nothing = module(x, r)
        parts = [one.train(training)(x[:, 3 * i : 3 * i + 3]) for i, one in enumerate(norms)]
        torch.testing.assert_close(out, F.relu(torch.cat(parts, 1) + r))
        assert nothing is None
    for run, one in enumerate(norms):
        torch.testing.assert_close(module.running_mean[run], one.running_mean)
        torch.testing.assert_close(module.running_var[run], one.running_var)


@pytest.mark.parametrize("size", [(6, 4), (5, 7)])
def test_halved(size: tuple[int, int]) -> None:
    """Each run is padded with zero channels, equally many before and after."""
    x = torch.randn(2, 3, 4, *size)
    padded = F.pad(x[..., ::2, ::2], (0, 0, 0, 0, 2, 2))
    assert torch.equal(halved(x.flatten(1, 2), 3, 8), padded.flatten(1, 2))


def test_shortcut_of_the_next_block() -> None:
    module = NormRelu(3, 4)
    x = torch.randn(2, 12, 4, 4)
    out, same = module(x, None, 4)
    assert same is out
    out, half = module(x, None, 8)
    assert torch.equal(half, halved(out, 3, 8))


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(5, 7, 9), (80, 32, 32)])
@pytest.mark.parametrize("shortcut", [None, 24, 48])
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
    """The fused path against the plain one in float64."""
    pytest.importorskip("triton")
    torch.manual_seed(0)
    module = NormRelu(3, 24).cuda()
    for parameter in module.parameters():
        nn.init.normal_(parameter)
    plain = copy.deepcopy(module).cpu().double()
    n, h, w = shape
    drawn = torch.randn(1 + residual, n, 72, h, w, device="cuda") * 2 + 1
    inputs = list(drawn.to(dtype))
    wide = [a.cpu().double().requires_grad_() for a in inputs]
    inputs = [channels_last(a).requires_grad_() for a in inputs]
    outputs = [a for a in module(*inputs, shortcut=shortcut) if a is not None]
    exact = [a for a in plain(*wide, shortcut=shortcut) if a is not None]
    assert "_NormRelu" in type(outputs[0].grad_fn).__name__
    assert len(outputs) == len(exact) == 1 + (shortcut is not None)
    # No gradient where rounding may decide the sign of the output.
    with torch.no_grad():
        before = copy.deepcopy(plain).normalized(wide[0]) + (wide[1] if residual else 0)
    sure = (before.abs() > 1e-4).to(device="cuda", dtype=dtype)
    masks = [sure, halved(sure, 3, 48) if shortcut == 48 else sure]
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
