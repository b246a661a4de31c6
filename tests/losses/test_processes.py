"""Losses of several processes, also with their classes in shards, against those of one process."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from safetensors.torch import load_file
from torch.distributed import checkpoint

from loss_batches import COUNTS, TAU, C, N, P, batch
from programs import run_processes
from resultant._core import distributed
from resultant.classes.rule import REALIZATIONS
from resultant.losses import ProCoBank, ProCoLoss

# One process computes the whole problem; every rank compares its own queries.
EQUAL = """
from loss_batches import batch
from losses.test_ranks import samplers
from resultant.classes.rule import Rule
from resultant.losses import ProCoLoss
from resultant_reproduction.cifar.losses import StackedProCoLoss

class Runs(StackedProCoLoss):
    def forward(self, z, y):
        # Runs share their labels from the second epoch on.
        labels = y if int(self.bank.epoch) else torch.stack([y, 6 - y])
        return super().forward(torch.stack([z, z.roll(1, -1)], 1), labels).sum()

def losses(shard):
    for name, leave_out, family in (
        ("native", False, "linear"), ("native", True, "linear"), ("temperature", False, "power"),
        ("preserve", True, "linear"), ("angular", False, "linear"), ("cosine", True, "linear"),
    ):
        options = dict(family=family, leave_out=leave_out, shard_classes=shard, seed=3)
        yield ProCoLoss(7, 64, 0.1, name, 0.3, torch.arange(1, 8), 0.7, **options)
    yield ProCoLoss(7, 64, realization="preserve", leave_out=True, seed=1)
    yield Runs(7, 64, [Rule(0.1), Rule(0.1, "preserve")], seeds=(0, 1), leave_out=True)

def part_of(step, rank):
    # Ranks have different numbers of queries.
    first = (10, 4, 6)[step]
    ends = [0, first, *(first + (24 - first) * i // (processes - 1) for i in range(1, processes))]
    return slice(ends[rank], ends[rank + 1])

def results(loss, dtype, rank=None):
    torch.manual_seed(0)
    for step in range(3):
        loss.train(step < 2)
        z, y = batch(2, p=64, dtype=dtype)
        part = slice(None) if rank is None else part_of(step, rank)
        z = z[:, part].requires_grad_()
        value = loss(z, y[part])
        (gradient,) = torch.autograd.grad(value, z)
        yield value.detach() * z.shape[1], gradient * z.shape[1]
        loss.start_epoch()

precisions = (torch.float64, 1e-11), (torch.float32, 2e-4)
expected = [
    [(loss, list(results(loss, dtype))) for loss in losses(False)] for dtype, _ in precisions
]

def main(rank):
    for (dtype, bar), whole in zip(precisions, expected):
        queries = torch.ones(3, 64, dtype=dtype).cumsum(0).cumsum(1)
        for loss, (one, steps) in zip(losses(True), whole, strict=True):
            for step, (value, gradient) in enumerate(results(loss, dtype, rank)):
                dist.all_reduce(value)
                tight = bar / 10 if loss.bank.shard_classes else min(bar / 10, 1e-6)
                torch.testing.assert_close(value, steps[step][0], rtol=tight, atol=0)
                mine = steps[step][1][:, part_of(step, rank)]
                torch.testing.assert_close(gradient, mine, rtol=bar, atol=bar / 100)
            here = slice(loss.bank.classes.start, loss.bank.classes.stop)
            for name in ("old", "new"):
                held, rows = getattr(loss.bank, name), getattr(one.bank, name)[here]
                torch.testing.assert_close(held, rows, rtol=1e-14, atol=1e-14)
            if loss.bank.shard_classes:
                assert len(held) < 7
                scores = one.scores(queries)[:, here]
                torch.testing.assert_close(loss.scores(queries), scores, rtol=bar, atol=bar)
            else:
                # All ranks add in the same order.
                dist.broadcast(rows := held.clone(), 0)
                assert torch.equal(held, rows)
    samplers(rank)
    epochs(rank)

def epochs(rank):
    loss = ProCoLoss(7, 64, class_counts=[4] + [7] * 6)
    for step in range(6):
        z, y = batch(2, p=64)
        part = part_of(step % 3, rank)
        loss(z[:, part], y[part])
        # 24 samples of all ranks in every step; samplers pad an epoch of 46 samples to 48.
        assert int(loss.bank.epoch) == step // 2, (step, loss.bank.epoch)
    assert int(loss.bank.state(bank="new").count.sum()) == 2 * 48
    if rank == 0:
        dist.all_gather(list(torch.zeros(processes, 1, dtype=torch.int64)), torch.tensor([5]))
        return
    try:
        loss(z[:, part], y[part])
    except RuntimeError as error:
        assert "another exchange on ranks [0]: all ranks must take" in str(error), error
        return
    raise AssertionError
"""

# Two processes save what three processes and one go on from.
SAVE = """
import torch.distributed.checkpoint as checkpoint
from loss_batches import batch
from resultant.losses import ProCoLoss

def main(rank):
    loss = ProCoLoss(7, 16, shard_classes=True)
    torch.manual_seed(rank)
    loss(*batch(2))
    state = loss.state_dict()
    assert state["bank.old"].shape == (7, 17)
    checkpoint.save(state, checkpoint_id=f"{out}/shards")
    whole = {name: getattr(a, "full_tensor", lambda a=a: a)() for name, a in state.items()}
    if rank == 0:
        save_file(whole, f"{out}/whole.safetensors")
"""
LOAD = """
import torch.distributed.checkpoint as checkpoint
from loss_batches import batch
from resultant.losses import ProCoLoss

def main(rank):
    for read in (True, False):
        loss = ProCoLoss(7, 16, shard_classes=True, seed=5)
        state = loss.state_dict() if read else load_file(f"{out}/whole.safetensors")
        if read:
            checkpoint.load(state, checkpoint_id=f"{out}/shards")
        loss.load_state_dict(state)
        rows = slice(loss.bank.classes.start, loss.bank.classes.stop)
        assert torch.equal(loss.bank.old, load_file(f"{out}/whole.safetensors")["bank.old"][rows])
        assert loss.state().count.tolist() == loss.bank.old[:, -1].round().tolist()
"""


@pytest.mark.slow
def test_equals_one_process(tmp_path: Path) -> None:
    run_processes(EQUAL, 3, tmp_path)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_checkpoints_for_any_number_of_processes(tmp_path: Path) -> None:
    run_processes(SAVE, 2, tmp_path)
    run_processes(LOAD, 3, tmp_path)
    loss = ProCoLoss(7, P)
    loss.load_state_dict(load_file(tmp_path / "whole.safetensors"))
    again = ProCoLoss(7, P, shard_classes=True)
    again.load_state_dict(loss.state_dict())
    assert torch.equal(again.bank.old, loss.bank.old)
    assert int(loss.state().count.sum()) == 2 * 2 * N
    shards = ProCoLoss(7, P).state_dict()
    checkpoint.load(shards, checkpoint_id=tmp_path / "shards")
    assert torch.equal(shards["bank.old"], loss.bank.old)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_group_of_one_process(device: str, tmp_path: Path) -> None:
    """In a process of its own: NCCL waits without end for a network that it cannot use."""
    code = "import sys; from losses.test_processes import *; compare_in_a_group(*sys.argv[1:])"
    loopback = {"NCCL_SOCKET_IFNAME": "lo", "GLOO_SOCKET_IFNAME": "lo"}
    environment = {**os.environ, **loopback, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", code, device, str(tmp_path)]
    result = subprocess.run(command, env=environment, timeout=90, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def compare_in_a_group(device: str, folder: str) -> None:
    """Compare the losses in a process group of one process: gloo, and NCCL on a GPU."""
    backend = "cpu:gloo,cuda:nccl" if device == "cuda" else "gloo"
    options: dict[str, Any] = {"class_counts": COUNTS}
    plain = [ProCoLoss(C, P, TAU, name, **options).to(device) for name in REALIZATIONS]
    dist.init_process_group(backend, f"file://{folder}/group", rank=0, world_size=1)
    for one in plain:
        shard = ProCoLoss(C, P, TAU, one.realization, shard_classes=True, **options).to(device)
        for _ in range(2):
            z, y = (a.to(device) for a in batch(2, dtype=torch.float32))
            z.requires_grad_()
            a, b = one(z, y), shard(z, y)
            torch.testing.assert_close(b, a, rtol=2e-5, atol=0)
            grads = [torch.autograd.grad(loss, z)[0] for loss in (a, b)]
            torch.testing.assert_close(grads[1], grads[0], rtol=2e-4, atol=2e-6)
    dist.destroy_process_group()


def test_shares_of_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed, "world_size", lambda group: 3)
    monkeypatch.setattr(distributed, "rank", lambda group: 1)
    whole, bank = ProCoBank(7, P), ProCoBank(7, P, shard_classes=True)
    assert bank.shares == [range(3), range(3, 6), range(6, 7)]
    assert bank.classes == range(3, 6) and torch.equal(bank.old, whole.old[3:6])
    with pytest.raises(ValueError, match="every process a share, got 4 classes for 3 processes"):
        ProCoBank(4, P, shard_classes=True)
