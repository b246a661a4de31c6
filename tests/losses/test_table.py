"""Every way through a step against one naive loss: {plain, streamed, graph, compiled, sharded, two
ranks} x {train, eval} x {one, two views} x {gradient or not} x {nothing, weights, ignored samples,
indices of a miner}."""

from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import normalize

from loss_batches import COUNTS, TAU, C, N, batch
from losses.test_paths import BARS, DEVICES, DTYPES, P, set_up
from losses.test_proco import LogI
from programs import run_processes
from resultant.losses import ProCoLoss

EXTRAS = ("nothing", "weights", "ignored", "indices")
# Also the number of a class.
IGNORED = 2
LOG_PRIOR = 0.7 * (COUNTS.double() / COUNTS.sum()).log()


class Cell(NamedTuple):
    training: bool
    views: int
    gradient: bool
    extra: str


CELLS = [Cell(*cell) for cell in product((True, False), (1, 2), (True, False), EXTRAS)]


class Naive:
    """Sums and counts of the classes of ``old``, as plain tensors, and losses of them."""

    def __init__(self, loss: ProCoLoss) -> None:
        self.start = 0.9 * loss.bank.state().mu.cpu()
        self.total = torch.zeros(C, P, dtype=torch.float64)
        self.count = torch.zeros(C, dtype=torch.float64)

    def step(self, z: Tensor, y: Tensor, training: bool) -> Tensor:
        """Return the losses [V, N] of unit vectors z [V, N, p] of labels y [N]."""
        losses = []
        for view in z:
            if training:
                self.total = self.total.index_add(0, y, view.detach())
                self.count = self.count.index_add(0, y, torch.ones(len(y)).double())
            mean = self.total / self.count.clamp_min(1).unsqueeze(-1)
            mean = torch.where(self.count.unsqueeze(-1) > 0, mean, self.start)
            R = mean.norm(dim=-1)
            kappa = torch.where(R < 1 - 1e-12, P * R / (1 - R**2), 1e5).clamp_max(1e5)
            mu = mean / R.unsqueeze(-1)
            tilted = (kappa.unsqueeze(-1) * mu + view.unsqueeze(1) / TAU).norm(dim=-1)
            nu = P / 2 - 1
            log_i: Any = LogI.apply
            high, low = (log_i(x, nu) - nu * x.log() for x in (tilted, kappa))
            losses.append(
                torch.nn.functional.cross_entropy(high - low + LOG_PRIOR, y, reduction="none")
            )
        return torch.stack(losses)


class Case(NamedTuple):
    """A batch, its options, and what is expected of a part of it."""

    z: Tensor  # [V, N, p], not normalized
    y: Tensor
    options: dict[str, Any]
    losses: Tensor  # of the samples that are not ignored, on z
    kept: Tensor
    weights: Tensor

    def expected(self, part: slice = slice(None)) -> Tensor:
        """Return the mean over a part of the samples."""
        losses = torch.zeros(self.z.shape[:2], dtype=torch.float64)
        losses[:, self.kept] = self.losses
        losses, weights = losses[:, part], self.weights[part]
        return (losses * weights).sum() / (weights.sum() * len(losses))


def case(naive: Naive, cell: Cell, dtype: torch.dtype) -> Case:
    """Draw a batch, and take the naive step."""
    z, y = batch(cell.views, p=P, dtype=torch.float64)
    z = (z * (0.5 + torch.rand(*z.shape[:-1], 1).double())).to(dtype)
    kept, weights, options = torch.ones(N, dtype=torch.bool), torch.ones(N).double(), {}
    if cell.extra == "weights":
        weights = torch.linspace(0, 2, N).double()
        options["weights"] = weights.to(dtype)
    elif cell.extra == "indices":
        options["indices_tuple"] = tuple(torch.randint(0, N, (40,)) for _ in range(3))
        weights = torch.bincount(torch.cat(options["indices_tuple"]), minlength=N).double()
    elif cell.extra == "ignored":
        kept = y != IGNORED
        weights = kept.double()
        # Whatever vectors they hold.
        z[:, ~kept] = (
            torch.tensor([torch.nan, 0.0, torch.inf, 3.0], dtype=dtype)
            .repeat(N)[: int((~kept).sum())]
            .unsqueeze(-1)
        )
    z.requires_grad_(cell.gradient)
    x = normalize(z.double()[:, kept], dim=-1)
    return Case(z, y, options, naive.step(x, y[kept], cell.training), kept, weights)


def made(cell: Cell, **options: Any) -> ProCoLoss:
    ignore = IGNORED if cell.extra == "ignored" else None
    counts = 1000 * COUNTS
    return ProCoLoss(C, P, TAU, class_counts=counts, prior=0.7, ignore_index=ignore, **options)


def check(cell: Cell, loss: Any, called: Any, device: str = "cpu", rank: int = 0) -> None:
    """Take a training step without extras and the step of a cell, and compare them."""
    dtype = DTYPES[device]
    naive, bar = Naive(loss if loss.bank.classes == range(C) else made(cell)), BARS[dtype]
    part = slice(None)
    if dist.is_initialized():
        part = slice(10) if rank == 0 else slice(10, None)
    for now in (Cell(True, 2, True, cell.extra), cell):
        at = case(naive, now, dtype)
        loss.train(now.training)
        options = {name: moved(a, part, device) for name, a in at.options.items()}
        z = at.z[:, part] if now.views > 1 or now.gradient else at.z[0, part]
        got = called(z.to(device), at.y[part].to(device), **options)
        expected = at.expected(part)
        torch.testing.assert_close(got.cpu().double(), expected, rtol=bar, atol=bar)
        if now.gradient:
            (first,) = torch.autograd.grad(expected, at.z, retain_graph=True)
            (gradient,) = torch.autograd.grad(got, at.z)
            limit = 20 * bar * float(first.abs().max())
            torch.testing.assert_close(gradient, first, rtol=0, atol=limit)
            assert not gradient[:, ~at.kept].any()
    classes = loss.bank.here
    count = loss.state().count.cpu().double()
    torch.testing.assert_close(count, naive.count[classes], rtol=0, atol=0)
    seen = naive.count[classes] > 0
    old = loss.bank.old.cpu()[seen, :-1]
    torch.testing.assert_close(
        old, naive.total[classes][seen], rtol=0, atol=1e-6 if dtype == torch.float32 else 1e-12
    )


def moved(a: Any, part: slice, device: str) -> Any:
    """Return weights, or the indices of a miner within a part of the batch."""
    if isinstance(a, Tensor):
        return a[part].to(device)
    first, last, _ = part.indices(N)
    return tuple(i[(i >= first) & (i < last)].to(device) - first for i in a)


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("path", ["plain", "streamed", "graph", "compiled"])
def test_one_process(path: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    set_up(path, device, monkeypatch)
    for cell in CELLS:
        loss: Any = made(cell, cuda_graph=path == "graph").to(device)
        called = loss
        if path == "compiled":
            torch.compiler.reset()
            called = torch.compile(loss, backend="eager", fullgraph=True)
        check(cell, loss, called, device)
        assert path != "graph" or loss.graphs.recorded


RANKS = """
from losses.test_table import CELLS, check, made, torch

def main(rank):
    for cell in CELLS:
        for shard in (False, True):
            torch.manual_seed(0)
            loss = made(cell, shard_classes=shard)
            check(cell, loss, loss, "cpu", rank)
"""


@pytest.mark.slow
def test_two_ranks_and_shards(tmp_path: Path) -> None:
    run_processes(RANKS, 2, tmp_path)
