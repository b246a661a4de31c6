"""Batches of unit vectors for the losses and the banks, their seed, and a stand-in for graphs."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from class_samples import seeded as seeded
from resultant.losses import _cuda_graph, proco

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


class _Played:
    """Stand-in for a CUDA graph on the CPU, which computes the recorded step again."""

    recorded: _cuda_graph.Recorded
    step: _cuda_graph.Step

    def replay(self) -> None:
        with torch.enable_grad():
            losses, gradient = self.recorded.run(self.step)
        self.recorded.losses.copy_(losses)
        self.recorded.gradient.copy_(gradient)


def _record(recorded: _cuda_graph.Recorded, step: _cuda_graph.Step, pool: object) -> None:
    recorded.graph.recorded, recorded.graph.step = recorded, step  # type: ignore[attr-defined]
    for _ in range(_cuda_graph.CALLS):
        recorded.losses, recorded.gradient = recorded.run(step)


def play_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replay steps on the CPU by a stand-in for CUDA graphs."""
    monkeypatch.setattr(torch.cuda, "CUDAGraph", _Played)
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: None)
    monkeypatch.setattr(_cuda_graph.Recorded, "record", _record)

    def takes(z: Tensor, num_classes: int) -> bool:
        return z.requires_grad and torch.is_grad_enabled() and not torch.is_inference_mode_enabled()

    monkeypatch.setattr(proco, "should_replay", takes)
