"""A loss and its gradient as a CUDA graph, recorded at the first call of each shape.

A step of the loss is some thirty kernels. Launching them one by one takes the host longer than the
device needs for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch
from torch import Tensor

from resultant._core import distributed
from resultant.losses._with_gradient import with_gradient

# A loss [] of features and labels.
Step = Callable[[Tensor, Tensor], Tensor]

# Calls before recording, in which libraries and kernels initialise themselves.
CALLS = 3
# Graphs kept at most, as the last batch of an epoch may be shorter; other shapes are not recorded.
MOST = 4


def replays(z: Tensor, y: Tensor) -> bool:
    """Return whether a step can be recorded on this device and in this context."""
    return (
        not torch.compiler.is_compiling()
        and not torch.is_inference_mode_enabled()
        and isinstance(z, Tensor)
        and isinstance(y, Tensor)
        and z.is_cuda
        and z.device == y.device
        and not torch.cuda.is_current_stream_capturing()
        and distributed.world_size() == 1
    )


class Recorded:
    """One graph and the tensors that it reads and writes."""

    def __init__(self, step: Step, z: Tensor, y: Tensor, state: Sequence[Tensor]) -> None:
        self.z, self.y = z.detach().clone().requires_grad_(), y.clone()
        before = [a.to("cpu", copy=True) for a in state]
        self.graph = torch.cuda.CUDAGraph()
        try:
            # The gradient is computed here, where autocast may be on; the loss disables autocast.
            with torch.enable_grad(), torch.autocast(z.device.type, enabled=False):
                self.record(step)
        finally:
            # None of these calls counts as a step.
            for a, b in zip(state, before, strict=True):
                a.copy_(b)

    def record(self, step: Step) -> None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(CALLS):
                self.run(step)
        torch.cuda.current_stream().wait_stream(side)
        # Threads that pin memory continue during the capture.
        with torch.cuda.graph(self.graph, stream=side, capture_error_mode="thread_local"):
            self.loss, self.gradient = self.run(step)

    def run(self, step: Step) -> tuple[Tensor, Tensor]:
        loss = step(self.z, self.y)
        return loss.detach(), torch.autograd.grad(loss, self.z)[0]


class Replay:
    """The graphs of a step by shapes and settings. Copies begin without graphs."""

    def __init__(self) -> None:
        self.recorded: dict[Hashable, Recorded] = {}

    def __call__(
        self,
        step: Step,
        z: Tensor,
        y: Tensor,
        state: Sequence[Tensor],
        settings: Sequence[Tensor | Hashable],
    ) -> Tensor:
        """Return ``step(z, y)``, replayed if a graph of these shapes and settings exists.

        The step changes the tensors ``state`` in place and nothing else. It depends on ``settings``
        and, for tensors among them, on the values at the time of the call.
        """
        key = (
            *(z.shape, z.dtype, z.device, y.shape, y.dtype),
            *(a.data_ptr() if isinstance(a, Tensor) else a for a in (*state, *settings)),
        )
        recorded = self.recorded.get(key)
        if recorded is None:
            if len(self.recorded) == MOST:
                return step(z, y)
            with torch.cuda.device(z.device), torch.no_grad():
                recorded = self.recorded[key] = Recorded(step, z, y, state)
        with torch.no_grad():
            recorded.z.copy_(z)
            recorded.y.copy_(y)
            recorded.graph.replay()
            gradient = recorded.gradient.clone() if z.requires_grad else recorded.gradient
        return with_gradient(z, recorded.loss.clone(), gradient)

    def __deepcopy__(self, memo: dict[int, Any]) -> Replay:
        return Replay()

    def __reduce__(self) -> tuple[type[Replay], tuple[()]]:
        return Replay, ()
