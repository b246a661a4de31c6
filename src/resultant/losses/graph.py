"""Losses of a batch and their gradient as a CUDA graph: some hundred kernels, whose launches take
the host longer than the device needs for all of them."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from resultant._core.modes import is_plain
from resultant.losses.bank import ProCoBank
from resultant.losses.step_streamed import WithGradient

# Losses [V, N] of features [V, N, p] and labels [N].
Step = Callable[[Tensor, Tensor], Tensor]

# Calls before recording, in which libraries and kernels initialise themselves.
CALLS = 3
# Graphs kept at most, as the last batch of an epoch may be shorter.
MOST = 4
# Bytes of directions and scores beyond which kernels take longer than their launches, and a graph
# would keep much memory from the rest of the training.
LARGEST = 1 << 27


def should_replay(bank: ProCoBank, z: Tensor) -> bool:
    """Return True if a step of z [V, N, p] can be recorded on this device and in this context."""
    return (
        is_plain()
        and type(z) in (Tensor, nn.Parameter)
        and z.is_cuda
        and z.requires_grad
        and torch.is_grad_enabled()
        and forward_ad.unpack_dual(z).tangent is None
        and not torch.cuda.is_current_stream_capturing()
        and bank.ranks.size == 1
        and not bank.shard_classes
        and z.shape[1] > 0
        and len(z) * bank.num_classes * sum(z.shape[1:]) * 4 <= LARGEST
    )


class Recorded:
    """One graph and the tensors that it reads and writes."""

    def __init__(
        self, step: Step, z: Tensor, y: Tensor, state: Sequence[Tensor], pool: Any
    ) -> None:
        self.z, self.y = z.detach().clone().requires_grad_(), y.clone()
        self.graph = torch.cuda.CUDAGraph()
        before = [a.clone() for a in state]
        try:
            # The gradient is computed here, where autocast may be on; the loss disables autocast.
            with (
                torch.enable_grad(),
                torch.autocast(z.device.type, enabled=False),
                torch.autograd.graph.disable_saved_tensors_hooks("a step being recorded"),
            ):
                self.record(step, pool)
        finally:
            # None of these calls counts as a step.
            for a, b in zip(state, before, strict=True):
                a.copy_(b)

    def record(self, step: Step, pool: Any) -> None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(CALLS):
                self.run(step)
        torch.cuda.current_stream().wait_stream(side)
        # Threads that pin memory continue during the capture.
        with torch.cuda.graph(self.graph, pool, side, "thread_local"):
            self.losses, self.gradient = self.run(step)

    def run(self, step: Step) -> tuple[Tensor, Tensor]:
        # A loss depends on its own row of z alone.
        losses = step(self.z, self.y)
        return losses.detach(), torch.autograd.grad(losses.sum(), self.z)[0]

    def __call__(self, z: Tensor, y: Tensor) -> Tensor:
        """Return the losses of a batch, with their gradient, by a replay."""
        with torch.no_grad(), torch.cuda.device(z.device):
            self.z.copy_(z)
            self.y.copy_(y)
            self.graph.replay()
            # Other graphs write to the same memory.
            known = self.losses.clone(), self.gradient.clone()
        return WithGradient.apply(z, known)  # type: ignore[return-value]


class Graphs:
    """The graphs of a step by shapes, at most `MOST`, each recorded after ``patience`` calls of its
    shape: recording takes as long as many steps. Copies begin without graphs."""

    def __init__(self, patience: int = 2) -> None:
        self.patience, self.pool = patience, None
        self.settings: Hashable = ()
        self.recorded: dict[Hashable, Recorded] = {}
        self.met: Counter[Hashable] = Counter()

    def find(
        self, step: Step, z: Tensor, y: Tensor, state: Sequence[Tensor], settings: Hashable
    ) -> Recorded | None:
        """Return the graph of ``step(z, y)``, which changes the ``state`` alone, in place, at these
        ``settings``, or None without one."""
        if settings != self.settings:
            self.settings = settings
            self.recorded.clear()
            self.met.clear()
        key = z.shape, z.dtype, y.dtype
        if key not in self.recorded and self._is_due(key):
            with torch.no_grad(), torch.cuda.device(z.device):
                self.pool = self.pool or torch.cuda.graph_pool_handle()
                try:
                    self.recorded[key] = Recorded(step, z, y, state, self.pool)
                except RuntimeError as error:
                    # Out of memory, or hooks of the caller: the loss is the same without a graph.
                    self.patience = 1 << 62
                    got = f"no CUDA graph of the loss could be recorded: {error}"
                    warnings.warn(got, stacklevel=2)
        return self.recorded.get(key)

    def _is_due(self, key: Hashable) -> bool:
        if len(self.met) > 64:
            # Batches of ever new shapes.
            self.met.clear()
        self.met[key] += 1
        return self.met[key] > self.patience and len(self.recorded) < MOST

    def __reduce__(self) -> tuple[type[Graphs], tuple[int]]:
        return Graphs, (self.patience,)
