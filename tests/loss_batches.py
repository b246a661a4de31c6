"""Batches of unit vectors for the losses and the banks, their seed, and a stand-in for graphs."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from resultant.losses import graph, loss
from resultant.losses.bank import ProCoBank

C, P, N, TAU = 6, 16, 24, 0.1
COUNTS = torch.tensor([50.0, 20.0, 10.0, 6.0, 3.0, 1.0])


def batch(*lead: int, n: int = N, p: int = P, dtype: Any = torch.float64) -> tuple[Tensor, Tensor]:
    """Return unit vectors near the means of their classes, and labels; the last class is rare."""
    y = torch.randint(0, C - 1, (n,))
    y[: n // 12] = C - 1
    lean = torch.linspace(1.0, 4.0, C)[y].unsqueeze(-1)
    x = torch.randn(*lead, n, p) + lean * torch.eye(C, p)[y]
    return nn.functional.normalize(x.to(dtype), dim=-1), y


def cancelling(*lead: int) -> tuple[Tensor, Tensor]:
    """Return a batch in which class 2 has two opposite samples and no other."""
    z, y = batch(*lead)
    y[y == 2] = 1
    y[:2] = 2
    z[..., 1, :] = -z[..., 0, :]
    return z, y


def _record(recorded: graph.Recorded, step: graph.Step, pool: object) -> None:
    """Stand in for the recording of a CUDA graph: a replay computes the step again."""
    for _ in range(graph.CALLS):
        recorded.losses, recorded.gradient = recorded.run(step)

    def replay() -> None:
        with torch.enable_grad():
            losses, gradient = recorded.run(step)
        recorded.losses.copy_(losses)
        recorded.gradient.copy_(gradient)

    recorded.graph.replay = replay


def play_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replay steps on the CPU by a stand-in for CUDA graphs."""
    monkeypatch.setattr(torch.cuda, "CUDAGraph", SimpleNamespace)
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: None)
    monkeypatch.setattr(graph.Recorded, "record", _record)

    def takes(bank: ProCoBank, z: Tensor) -> bool:
        return z.requires_grad and torch.is_grad_enabled() and not torch.is_inference_mode_enabled()

    monkeypatch.setattr(loss, "should_replay", takes)
