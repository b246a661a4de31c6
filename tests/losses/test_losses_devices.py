"""The contrastive loss in other precisions, compiled, and on a GPU: the same values."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from loss_batches import C, P, batch
from loss_batches import seeded as seeded
from resultant.classes.rule import REALIZATIONS
from resultant.losses.proco import ProCoLoss


def test_float32_is_close_to_float64_after_many_batches() -> None:
    single, double = ProCoLoss(C, 128), ProCoLoss(C, 128)
    a = b = torch.zeros(())
    for _ in range(50):
        z, y = batch(2, p=128, dtype=torch.float32)
        a, b = single(z, y), double(z.double(), y)
    assert a.dtype == torch.float32 and b.dtype == torch.float64
    torch.testing.assert_close(a.double(), b, rtol=2e-6, atol=0)


def test_autocast_changes_nothing() -> None:
    z, y = batch(2, dtype=torch.float32)
    z.requires_grad_()
    results = []
    for enabled in (False, True):
        loss = ProCoLoss(C, P, realization="angular", leave_out=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            total = loss(z, y)
            scores = loss.scores(z)
        results.append((total, scores, loss.bank.old, torch.autograd.grad(total, z)[0]))
        assert total.dtype == scores.dtype == torch.float32
    for a, b in zip(*results, strict=True):
        assert torch.equal(a, b)


def test_bfloat16_queries_are_scored_in_float32() -> None:
    z, y = batch(dtype=torch.bfloat16)
    loss = ProCoLoss(C, P).bfloat16()
    assert loss.bank.old.dtype == loss.log_prior.dtype == torch.float64
    total = loss(z.requires_grad_(), y)
    total.backward()
    assert total.dtype == torch.float32 and z.grad is not None and z.grad.dtype == torch.bfloat16


@pytest.mark.parametrize("leave_out", [False, True])
def test_compile(leave_out: bool) -> None:
    names = ("native", "angular") if leave_out else REALIZATIONS
    # In a dimension whose expansions are short, and quickly traced.
    eager = ProCoLoss(C, 512, realization=names, runs=(len(names),), leave_out=leave_out)
    other = copy.deepcopy(eager)
    compiled = torch.compile(other, fullgraph=True, backend="aot_eager")
    for _ in range(2):
        z, y = batch(2, len(names), p=512, dtype=torch.float32)
        z.requires_grad_()
        expected, got = eager(z, y), compiled(z, y)
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)
        grads = [torch.autograd.grad(a.sum(), z)[0] for a in (expected, got)]
        torch.testing.assert_close(grads[1], grads[0], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(other.bank.old, eager.bank.old)
        torch.testing.assert_close(other.bank.new, eager.bank.new)


def test_compile_one_after_another() -> None:
    """Sizes that differ between two compiled losses become symbols for the second one."""
    torch.compiler.reset()
    for dim, runs in ((64, ()), (512, (2,))):
        eager = ProCoLoss(C, dim, runs=runs)
        compiled = torch.compile(copy.deepcopy(eager), fullgraph=True, backend="eager")
        z, y = batch(2, *runs, p=dim, dtype=torch.float32)
        torch.testing.assert_close(compiled(z, y), eager(z, y), rtol=1e-5, atol=1e-5)


def test_negative_targets_name_their_classes() -> None:
    stack = ProCoLoss(C, P, realization=("angular", "temperature"), beta=60.0, runs=(2,))
    z, y = batch(2)
    with pytest.raises(ValueError, match=r"expected target gains > 0 .*: run \(1,\) class \d \(-"):
        stack(z, y)
    power = ProCoLoss(C, P, realization="preserve", beta=60.0, family="power")
    power(z[0], y)
    power.check()
    unchecked = ProCoLoss(C, P, realization="temperature", beta=60.0)
    # As on a device, where values are not looked at.
    torch.compile(unchecked, backend="eager")(z[0], y)
    with pytest.raises(ValueError, match=r"expected target gains > 0 .* of 6 not: class \d \(-"):
        unchecked.check()
    unchecked.check()  # said once


def on_device(loss: ProCoLoss, z: Tensor, y: Tensor) -> Callable[[], tuple[Tensor, Tensor]]:
    def step() -> tuple[Tensor, Tensor]:
        total = loss(z, y)
        return total, torch.autograd.grad(total.sum(), z)[0]

    return step


@pytest.mark.gpu
@pytest.mark.parametrize("leave_out", [False, True])
def test_devices_agree(leave_out: bool) -> None:
    names = REALIZATIONS
    here = ProCoLoss(C, 128, realization=names, runs=(5,), beta=0.3, leave_out=leave_out)
    there = copy.deepcopy(here).cuda()
    for _ in range(3):
        z, y = batch(2, 5, p=128, dtype=torch.float32)
        a, grad_a = on_device(here, z.requires_grad_(), y)()
        b, grad_b = on_device(there, z.detach().cuda().requires_grad_(), y.cuda())()
        torch.testing.assert_close(b.cpu(), a, rtol=2e-5, atol=0)
        torch.testing.assert_close(grad_b.cpu(), grad_a, rtol=1e-3, atol=1e-5)
        here.start_epoch()
        there.start_epoch()
    for a, b in zip(here.bank.buffers(), there.bank.buffers(), strict=True):
        torch.testing.assert_close(b.cpu(), a, rtol=1e-14, atol=1e-14)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("estimator", "leave_out"), [("proco", False), ("proco", True), ("mle", False), ("mle", True)]
)
def test_graph_and_no_synchronisation(estimator: str, leave_out: bool) -> None:
    settings: dict[str, Any] = {"estimator": estimator, "leave_out": leave_out}
    eager = ProCoLoss(C, 128, realization=REALIZATIONS, runs=(5,), **settings).cuda()
    captured = copy.deepcopy(eager)
    z, y = (a.cuda() for a in batch(2, 5, p=128, dtype=torch.float32))
    step = on_device(captured, z.requires_grad_(), y)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        step()
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        total, grad = step()
    captured.load_state_dict(eager.state_dict())
    for _ in range(3):
        other, labels = batch(2, 5, p=128, dtype=torch.float32)
        with torch.no_grad():
            z.copy_(other)
            y.copy_(labels)
        graph.replay()
        expected, expected_grad = on_device(eager, z, y)()
        torch.testing.assert_close(total, expected, rtol=1e-6, atol=0)
        torch.testing.assert_close(grad, expected_grad, rtol=1e-4, atol=1e-7)
        eager.start_epoch()
        captured.start_epoch()
    torch.testing.assert_close(captured.bank.old, eager.bank.old)


@pytest.mark.gpu
def test_compile_on_device() -> None:
    eager = ProCoLoss(C, 128, realization=REALIZATIONS, runs=(5,), beta=0.5).cuda()
    compiled = torch.compile(copy.deepcopy(eager), fullgraph=True)
    for _ in range(2):
        z, y = (a.cuda() for a in batch(2, 5, p=128, dtype=torch.float32))
        z.requires_grad_()
        expected, got = eager(z, y), compiled(z, y)
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)
        grads = [torch.autograd.grad(a.sum(), z)[0] for a in (expected, got)]
        torch.testing.assert_close(grads[1], grads[0], rtol=1e-3, atol=1e-5)


@pytest.mark.gpu
def test_negative_targets_on_device() -> None:
    loss = ProCoLoss(C, P, realization="temperature", beta=60.0).cuda()
    z, y = (a.cuda() for a in batch())
    assert loss(z, y).isnan()
    with pytest.raises(ValueError, match=r"expected target gains > 0 .* of 6 not: class \d \(-"):
        loss.check()


@pytest.mark.gpu
@pytest.mark.parametrize("realization", ["native", "angular"])
def test_memory(realization: str) -> None:
    n, classes, p = 256, 8142, 1024
    # A library takes the memory it keeps at its first product.
    torch.ones(2, 64, 64, device="cuda").matmul(torch.ones(2, 64, 64, device="cuda"))
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    loss = ProCoLoss(classes, p, 0.07, realization).cuda()
    z = nn.functional.normalize(torch.randn(2, n, p, device="cuda"), dim=-1).requires_grad_()
    loss(z, torch.randint(0, classes, (n,), device="cuda")).backward()
    assert torch.cuda.max_memory_allocated() - before < 0.3e9
