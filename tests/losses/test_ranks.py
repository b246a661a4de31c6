"""Losses in several processes: what goes wrong in one of them, groups, modules under
DistributedDataParallel, epochs of samplers, and starts of shares. Functions that take a rank run in
processes of their own."""

import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from loss_batches import COUNTS, TAU, C, N, P, batch
from programs import run_processes
from resultant.losses import ProCoBank, ProCoLoss
from resultant.losses.bank import START_ROWS


def shared_batch(n: int = N) -> tuple[Tensor, Tensor]:
    """Return the same batch in all processes."""
    torch.manual_seed(4)
    return batch(2, n=n)


def failing(rank: int) -> None:
    """An error of rank 1 is raised in both, by name and not after a timeout, and leaves the
    statistics as they are; the next step is taken."""
    z, y = shared_batch()
    nan = z.clone()
    nan[1, 3] = math.nan
    wrong = {
        "labels": (z, y + C, {}),
        "vectors": (nan, y, {}),
        "shape": (z[..., 1:], y, {}),
        "weights": (z, y, {"weights": -torch.ones(N)}),
    }
    for shard in (False, True):
        for training in (True, False):
            loss = ProCoLoss(C, P, class_counts=COUNTS, shard_classes=shard).train(training)
            before = loss.bank.old.clone()
            for views, labels, options in wrong.values():
                if rank == 1 or training or shard:
                    expected = ValueError if rank == 1 else RuntimeError
                    message = "expected " if rank == 1 else "got an error on rank 1: ValueError: e"
                    with pytest.raises(expected, match=message):
                        loss(views, labels, **options) if rank == 1 else loss(z, y)
                assert torch.equal(loss.bank.old, before)
            assert loss(z, y).isfinite()
    bank = ProCoBank(C, P)
    with pytest.raises(ValueError if rank == 1 else RuntimeError):
        bank.update(z, y + C * rank)
    assert bank.update(z, y).mu.isfinite().all()


def late(rank: int) -> None:
    """A class without a temperature makes the loss NaN, and is an error of all in the next step:
    an error in the middle of a step would leave the other ranks in their exchanges."""
    z, y = shared_batch()
    for leave_out in (False, True):
        loss = ProCoLoss(C, P, realization="temperature", beta=60.0, leave_out=leave_out)
        assert loss(z, y).isnan()
        with pytest.raises((ValueError, RuntimeError), match=r"target gains > 0 .* of 6 not: clas"):
            loss(z, y)


def empty(rank: int) -> None:
    """A rank without samples has loss zero, and its queries are those of the others."""
    z, y = shared_batch()
    for shard in (False, True):
        loss = ProCoLoss(C, P, TAU, class_counts=COUNTS, shard_classes=shard)
        x = (z if rank == 0 else z[:, :0]).clone().requires_grad_()
        value = loss(x, y if rank == 0 else y[:0])
        value.backward()
        assert x.grad is not None and (rank == 0) == bool(value > 0)
        assert int(loss.state().count.sum()) == (y.bincount(minlength=C)[loss.bank.here].sum() * 2)


def groups(rank: int) -> None:
    """Two groups of two processes have statistics of their own, in samples, shards and epochs."""
    pairs: list[Any] = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    mine, other = (pairs[(rank // 2 + i) % 2] for i in range(2))
    z, y = shared_batch(48)
    half = torch.arange(48) // 24 == rank // 2
    quarter = torch.arange(48) // 12 == rank
    counts = [4] * C  # an epoch of the 24 samples of a group
    for shard in (False, True):
        options = {"class_counts": counts, "leave_out": True}
        loss = ProCoLoss(C, P, TAU, shard_classes=shard, process_group=mine, **options)
        single = alone(options)
        for _ in range(2):
            x = z.clone().requires_grad_()
            value = loss(x[:, quarter], y[quarter])
            (gradient,) = torch.autograd.grad(value, x)
            losses = single(z[:, half], y[half])
            expected = losses[:, quarter[half]].mean()
            torch.testing.assert_close(value, expected, rtol=1e-11, atol=0)
            assert gradient[:, quarter].any() and not gradient[:, ~quarter].any()
        assert int(loss.bank.epoch) == 1
        classes = loss.bank.here
        torch.testing.assert_close(loss.bank.old, single.bank.old[classes], rtol=1e-12, atol=1e-12)
        assert len(loss.bank.classes) == (3 if shard else 6)
    with pytest.raises(
        ValueError, match="group that this process belongs to, or None, got another"
    ):
        ProCoLoss(C, P, process_group=other)


def alone(options: dict) -> ProCoLoss:
    """Return a loss of this process alone, with a loss for each sample."""
    own: Any = [dist.new_group([rank]) for rank in range(dist.get_world_size())][dist.get_rank()]
    return ProCoLoss(C, P, TAU, reduction="none", process_group=own, **options)


def data_parallel(rank: int) -> None:
    """A loss inside a module under DistributedDataParallel is right, with its classes in shards and
    without; shards are no buffers, which DDP would copy from rank 0."""
    values: list[list[Tensor]] = []
    for shard in (False, True):
        for wrapped in (False, True):
            torch.manual_seed(0)
            module: nn.Module = WithLoss(shard)
            module = DistributedDataParallel(module) if wrapped else module
            torch.manual_seed(10 + rank)
            row = []
            for _ in range(4):
                z, y = batch(dtype=torch.float32)
                value = module(z, y)
                value.backward()
                row.append(value.detach())
            values.append(row)
            inner: WithLoss = getattr(module, "module", module)  # type: ignore[assignment]
            total = inner.loss.bank.old[:, -1].sum().round()
            if shard:
                dist.all_reduce(total)
            assert total == 4 * 2 * N
    for row in values[1:]:
        torch.testing.assert_close(torch.stack(row), torch.stack(values[0]), rtol=1e-5, atol=0)


class WithLoss(nn.Module):
    def __init__(self, shard: bool) -> None:
        super().__init__()
        self.layer = nn.Linear(P, P)
        self.loss = ProCoLoss(C, P, class_counts=10 * COUNTS, shard_classes=shard)

    def forward(self, z: Tensor, y: Tensor) -> Tensor:
        return self.loss(self.layer(z), y)


# Built before a process group exists.
EARLY = [ProCoLoss(C, P, class_counts=[3] * C, shard_classes=shard) for shard in (True, False)]


def early(rank: int) -> None:
    z, y = shared_batch()
    message = "shares of the classes for 2 processes, got a loss built for 1: call .*init_process_"
    shards, whole = EARLY
    for call in (lambda: shards(z, y), lambda: shards.eval()(z, y), shards.state_dict):
        with pytest.raises(RuntimeError, match=message):
            call()
    # Without shards the processes of a step are those of the step.
    torch.testing.assert_close(whole(z, y), ProCoLoss(C, P, class_counts=[3] * C)(z, y))
    assert int(whole.state().count.sum()) == 2 * 2 * len(y)


def samplers(rank: int) -> None:
    """Epochs begin where those of a sampler do that pads them, or drops their rest; where the two
    cannot be told apart, a warning says so."""
    size = 47  # 15 or 16 samples of each of three ranks
    counts = [size - 5, 1, 1, 1, 1, 1]
    for drop in (False, True):
        for batch_size in (4, 1):
            loss = ProCoLoss(C, P, class_counts=counts)
            length = size // 3 if drop else -(-size // 3)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                for epoch in range(3):
                    for rows in torch.arange(length).split(batch_size):
                        loss(torch.randn(len(rows), P), torch.zeros(len(rows)).long())
                        assert batch_size == 1 or int(loss.bank.epoch) == epoch
            messages = [str(w.message) for w in caught if "sample per rank" in str(w.message)]
            assert len(messages) == (batch_size == 1)
            assert batch_size > 1 or "call start_epoch() before every epoch" in messages[0]
            if drop and batch_size == 1:
                # An epoch that is a multiple of the ranks has one end.
                loss = ProCoLoss(C, P, class_counts=[40, 1, 1, 1, 1, 1])
                for step in range(45):
                    loss(torch.randn(1, P), torch.zeros(1).long())
                    assert int(loss.bank.epoch) == step // 15


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mains", "processes"),
    [((failing, late, empty, data_parallel, early), 2), ((samplers,), 3), ((groups,), 4)],
)
def test_in_processes(
    mains: tuple[Callable[[int], None], ...], processes: int, tmp_path: Path
) -> None:
    """One function after the other; the traceback names the one that fails."""
    calls = "; ".join(f"ranks.{main.__name__}(rank)" for main in mains)
    run_processes(
        f"from losses import test_ranks as ranks\ndef main(rank): {calls}", processes, tmp_path
    )


def test_starts_of_a_share_are_those_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the number of processes; each process draws few classes that it does not hold."""
    classes, dim = 3 * START_ROWS + 17, 2
    whole = ProCoBank(classes, dim, seed=5)
    drawn: list[int] = []

    def counting(*size: int, inner: Callable = torch.randn, **options: object) -> Tensor:
        drawn.append(size[0])
        return inner(*size, **options)

    monkeypatch.setattr(torch, "randn", counting)
    for processes in (2, 5, 7):
        for rank in range(processes):
            drawn.clear()
            monkeypatch.setattr("resultant._core.distributed.world_size", lambda _, n=processes: n)
            monkeypatch.setattr("resultant._core.distributed.rank", lambda _, r=rank: r)
            share = ProCoBank(classes, dim, seed=5, shard_classes=True)
            assert torch.equal(share.old, whole.old[share.here])
            # Of two banks.
            assert sum(drawn) <= 2 * (len(share.classes) + 2 * START_ROWS)
