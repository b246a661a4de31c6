"""A loss that replays its step as a CUDA graph, beside one that does not; on the CPU a graph is
played by a function that computes the step again."""

from __future__ import annotations

import copy
import pickle
from contextlib import nullcontext

import pytest
import torch
from torch import Tensor, nn

from resultant.classes.rule import REALIZATIONS
from resultant.losses import _cuda_graph as _replay
from resultant.losses import proco as losses
from resultant.losses.proco import ProCoLoss

C, P = 7, 32


class Played:
    """What a graph does with the tensors of a recording."""

    recorded: _replay.Recorded
    step: _replay.Step

    def replay(self) -> None:
        with torch.enable_grad():
            loss, gradient = self.recorded.run(self.step)
        self.recorded.loss.copy_(loss)
        self.recorded.gradient.copy_(gradient)


def play(recorded: _replay.Recorded, step: _replay.Step) -> None:
    recorded.graph.recorded, recorded.graph.step = recorded, step  # type: ignore[attr-defined]
    for _ in range(_replay.CALLS):
        recorded.loss, recorded.gradient = recorded.run(step)


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "cpu":
        monkeypatch.setattr(torch.cuda, "CUDAGraph", Played)
        monkeypatch.setattr(torch.cuda, "device", lambda place: nullcontext())
        monkeypatch.setattr(_replay.Recorded, "record", play)
        monkeypatch.setattr(losses, "replays", lambda z, y: not torch.is_inference_mode_enabled())
    return request.param


def twins(device: str = "cpu", **settings: object) -> tuple[ProCoLoss, ProCoLoss]:
    counts = torch.arange(1, C + 1)
    each = (
        ProCoLoss(C, P, class_counts=counts, cuda_graph=graph, **settings)  # type: ignore[arg-type]
        for graph in (False, True)
    )
    plain, replayed = (loss.to(device) for loss in each)
    return plain, replayed


def batch(*lead: int, n: int = 20, seed: int = 0, device: str = "cpu") -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(C, (n,), generator=generator)
    x = torch.randn(*lead, n, P, generator=generator) + 2 * torch.eye(C, P)[y]
    return nn.functional.normalize(x, dim=-1).to(device), y.to(device)


def same(a: ProCoLoss, b: ProCoLoss) -> None:
    for one, other in zip(a.buffers(), b.buffers(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12, equal_nan=True)


def test_elsewhere_nothing_changes() -> None:
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


def test_a_move_forgets_the_graphs() -> None:
    _, loss = twins()
    holder = nn.ModuleList([loss])
    for move in (loss.to, holder.to):
        assert loss.replay is not None
        loss.replay.recorded["of these buffers"] = None  # type: ignore[assignment]
        move("cpu")
        assert not loss.replay.recorded


@pytest.mark.parametrize("leave_out", [False, True])
def test_equals_the_plain_loss(device: str, leave_out: bool) -> None:
    """Losses, gradients and statistics, over epochs and shapes, of loss functions of a loss."""
    plain, replayed = twins(device, realization=REALIZATIONS, runs=(5,), leave_out=leave_out)
    for step in range(6):
        if step == 3:
            plain.start_epoch()
            replayed.start_epoch()
        z, y = batch(2, 5, n=20 - step % 2, seed=step, device=device)
        found = []
        for loss in (plain, replayed):
            each = loss(z.requires_grad_(), y)
            assert each.shape == (5,)
            total = (each * torch.arange(1.0, 6.0, device=device)).sum()
            found.append((each.detach(), torch.autograd.grad(total, z)[0]))
        torch.testing.assert_close(found[1][0], found[0][0], rtol=1e-6, atol=0)
        torch.testing.assert_close(found[1][1], found[0][1], rtol=1e-4, atol=1e-7)
        same(plain, replayed)
    assert replayed.replay is not None and len(replayed.replay.recorded) == 2
    replayed.check()


def test_losses_outlive_the_next_call(device: str) -> None:
    plain, replayed = twins(device)
    first, second = (batch(2, seed=seed, device=device) for seed in (0, 1))
    found = []
    for loss in (plain, replayed):
        zs = [z.clone().requires_grad_() for z, _ in (first, second)]
        losses = [loss(z, y) for z, (_, y) in zip(zs, (first, second), strict=True)]
        found.append((*losses, *torch.autograd.grad(torch.stack(losses).sum(), zs)))
    for a, b in zip(*found, strict=True):
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
    for n in range(4, 4 + 2 * _replay.MOST):
        loss(*batch(n=n, device="cuda"))
    assert len(loss.replay.recorded) == _replay.MOST
    # The first ones stay.
    loss(z, y).backward()
    assert next(iter(loss.replay.recorded.values())).z.shape == z.shape


def test_follows_its_banks(device: str) -> None:
    """A state that is loaded, moved away and back is the one that is read."""
    plain, replayed = twins(device)
    z, y = batch(2, device=device)
    replayed(z, y)
    replayed.load_state_dict(plain.state_dict())
    torch.testing.assert_close(replayed(z, y), plain(z, y), rtol=1e-6, atol=0)
    replayed.cpu()
    kept = [torch.empty_like(plain.bank.old) for _ in range(3)]  # takes the place
    replayed.to(device)
    torch.testing.assert_close(replayed(z, y), plain(z, y), rtol=1e-6, atol=0)
    same(plain, replayed)
    del kept


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(dtype: torch.dtype) -> None:
    """Under autocast, and with a scaled loss, whose gradient is rounded after the scaling."""
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


def test_settings_that_change_are_followed(device: str) -> None:
    plain, replayed = twins(device, realization="angular")
    z, y = batch(2, device=device)
    for temperature in (0.1, 0.2):
        for loss in (plain, replayed):
            loss.temperature = temperature
        torch.testing.assert_close(replayed(z, y), plain(z, y), rtol=1e-6, atol=0)
    with torch.inference_mode():
        torch.testing.assert_close(replayed(z, y), plain(z, y), rtol=1e-6, atol=0)
