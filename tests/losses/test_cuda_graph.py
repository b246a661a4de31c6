"""A loss replayed as a CUDA graph against the plain loss.

On the CPU a function that computes the step again takes the place of the graph.
"""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from contextlib import nullcontext

import pytest
import torch
from torch import Tensor, nn

from resultant.losses import _cuda_graph, proco
from resultant.losses.proco import ProCoLoss

C, P = 7, 32


class Played:
    """Stand-in for a graph that computes the recorded step again."""

    recorded: _cuda_graph.Recorded
    step: _cuda_graph.Step

    def replay(self) -> None:
        with torch.enable_grad():
            loss, gradient = self.recorded.run(self.step)
        self.recorded.loss.copy_(loss)
        self.recorded.gradient.copy_(gradient)


def play(recorded: _cuda_graph.Recorded, step: _cuda_graph.Step) -> None:
    recorded.graph.recorded, recorded.graph.step = recorded, step  # type: ignore[attr-defined]
    for _ in range(_cuda_graph.CALLS):
        recorded.loss, recorded.gradient = recorded.run(step)


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "cpu":
        monkeypatch.setattr(torch.cuda, "CUDAGraph", Played)
        monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
        monkeypatch.setattr(_cuda_graph.Recorded, "record", play)
        monkeypatch.setattr(proco, "replays", lambda z, y: not torch.is_inference_mode_enabled())
    return request.param


def twins(device: str = "cpu", **settings: object) -> tuple[ProCoLoss, ProCoLoss]:
    counts = torch.arange(1, C + 1)
    plain, replayed = (
        ProCoLoss(C, P, class_counts=counts, cuda_graph=graph, **settings)  # type: ignore[arg-type]
        for graph in (False, True)
    )
    return plain.to(device), replayed.to(device)


def batch(*lead: int, n: int = 20, seed: int = 0, device: str = "cpu") -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(C, (n,), generator=generator)
    x = torch.randn(*lead, n, P, generator=generator) + 2 * torch.eye(C, P)[y]
    return nn.functional.normalize(x, dim=-1).to(device), y.to(device)


def same(a: ProCoLoss, b: ProCoLoss) -> None:
    for one, other in zip(a.buffers(), b.buffers(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12, equal_nan=True)


def test_no_effect_on_the_cpu() -> None:
    plain, replayed = twins(realization="angular")
    z, y = batch(2)
    for _ in range(2):
        losses = [loss(z.requires_grad_(), y) for loss in (plain, replayed)]
        assert torch.equal(*losses)
        assert torch.equal(*(torch.autograd.grad(a, z)[0] for a in losses))
    same(plain, replayed)
    assert replayed.replay is not None and not replayed.replay.recorded


def test_copies() -> None:
    _, loss = twins()
    z, y = batch(2)
    loss(z, y)
    for other in (copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))):
        assert other.replay is not None and other.replay is not loss.replay
        assert torch.equal(other(z, y), copy.deepcopy(loss)(z, y))


def test_a_move_drops_the_graphs() -> None:
    _, loss = twins()
    holder = nn.ModuleList([loss])
    for move in (loss.to, holder.to):
        assert loss.replay is not None
        loss.replay.recorded["of these buffers"] = None  # type: ignore[assignment]
        move("cpu")
        assert not loss.replay.recorded


@pytest.mark.slow
@pytest.mark.parametrize("leave_out", [False, True])
@pytest.mark.parametrize("realization", ["native", "temperature", "preserve", "angular", "cosine"])
def test_equals_the_plain_loss(device: str, realization: str, leave_out: bool) -> None:
    """Losses, gradients and statistics agree over epochs and shapes, also for a scaled loss."""
    plain, replayed = twins(device, realization=realization, leave_out=leave_out)
    for step in range(6):
        if step == 3:
            plain.start_epoch()
            replayed.start_epoch()
        z, y = batch(2, n=20 - step % 2, seed=step, device=device)
        results = []
        for loss in (plain, replayed):
            total = loss(z.requires_grad_(), y)
            assert total.shape == ()
            results.append((total.detach(), torch.autograd.grad(3 * total, z)[0]))
        torch.testing.assert_close(results[1][0], results[0][0], rtol=1e-6, atol=0)
        torch.testing.assert_close(results[1][1], results[0][1], rtol=1e-4, atol=1e-7)
        same(plain, replayed)
    assert replayed.replay is not None and len(replayed.replay.recorded) == 2
    replayed.check()


def test_losses_stay_valid_after_the_next_call(device: str) -> None:
    plain, replayed = twins(device)
    first, second = (batch(2, seed=seed, device=device) for seed in (0, 1))
    results = []
    for loss in (plain, replayed):
        zs = [z.clone().requires_grad_() for z, _ in (first, second)]
        losses = [loss(z, y) for z, (_, y) in zip(zs, (first, second), strict=True)]
        results.append((*losses, *torch.autograd.grad(torch.stack(losses).sum(), zs)))
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-4, atol=1e-7)


@pytest.mark.gpu
def test_no_synchronisation_and_few_graphs() -> None:
    _, loss = twins("cuda")
    z, y = batch(2, device="cuda")
    loss(z.requires_grad_(), y).backward()
    torch.cuda.set_sync_debug_mode("error")
    try:
        loss(z, y).backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert loss.replay is not None
    for n in range(4, 4 + 2 * _cuda_graph.MOST):
        loss(*batch(n=n, device="cuda"))
    assert len(loss.replay.recorded) == _cuda_graph.MOST
    # The first graphs are kept.
    loss(z, y).backward()
    assert next(iter(loss.replay.recorded.values())).z.shape == z.shape


def test_reads_the_current_banks(device: str) -> None:
    """A step reads the state after it is loaded, and after it is moved away and back."""
    plain, replayed = twins(device)
    z, y = batch(2, device=device)
    replayed(z, y)
    replayed.load_state_dict(plain.state_dict())
    torch.testing.assert_close(replayed(z, y), plain(z, y), rtol=1e-6, atol=0)
    replayed.cpu()
    kept = [torch.empty_like(plain.bank.old) for _ in range(3)]  # takes the old addresses
    replayed.to(device)
    torch.testing.assert_close(replayed(z, y), plain(z, y), rtol=1e-6, atol=0)
    same(plain, replayed)
    del kept


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(dtype: torch.dtype) -> None:
    """The gradient of a scaled loss is rounded after the scaling, also under autocast."""
    plain, replayed = twins("cuda")
    z, y = batch(2, device="cuda")
    z = z.to(dtype).requires_grad_()
    with torch.autocast("cuda", dtype):
        a, b = plain(z, y), replayed(z, y)
    torch.testing.assert_close(b, a, rtol=1e-6, atol=0)
    grads = [torch.autograd.grad(2.0**12 * loss, z)[0] for loss in (a, b)]
    assert grads[1].dtype is dtype and grads[1].isfinite().all()
    torch.testing.assert_close(grads[1], grads[0], rtol=2e-2, atol=1e-3)


def test_backward_twice_is_an_error(device: str) -> None:
    for loss in twins(device):
        z, y = batch(2, device=device)
        total = loss(z.requires_grad_(), y)
        total.backward(retain_graph=True)
        total.backward()
        with pytest.raises(RuntimeError, match="second time"):
            total.backward()


def test_changed_settings_take_effect(device: str) -> None:
    plain, replayed = twins(device, realization="angular")
    z, y = batch(2, device=device)
    for temperature in (0.1, 0.2):
        for loss in (plain, replayed):
            loss.temperature = temperature
        torch.testing.assert_close(replayed(z, y), plain(z, y), rtol=1e-6, atol=0)
    with torch.inference_mode():
        torch.testing.assert_close(replayed(z, y), plain(z, y), rtol=1e-6, atol=0)


FIRST = """
import torch
from resultant import ProCoLoss

z = torch.nn.functional.normalize(torch.randn(8, 32, device="cuda"), dim=-1).requires_grad_()
y = torch.randint(7, (8,), device="cuda")
for cuda_graph in (False, True):
    loss = ProCoLoss(7, 32, realization="angular", cuda_graph=cuda_graph).cuda()
    (gradient,) = torch.autograd.grad(loss(z, y), z)
graph = torch.cuda.CUDAGraph()
loss.replay = None
with torch.cuda.graph(graph):
    (gradient,) = torch.autograd.grad(loss(z, y), z)
graph.replay()
assert gradient.isfinite().all()
"""


@pytest.mark.gpu
def test_graphs_in_a_process_without_other_products() -> None:
    """No backward pass has used cuBLAS before the capture."""
    subprocess.run([sys.executable, "-c", FIRST], check=True, timeout=120)
