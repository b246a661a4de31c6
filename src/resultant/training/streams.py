"""Stacks of one device, side by side: a CUDA graph and a stream for each stack."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from resultant.training.stack import Stack


def capture(stacks: Sequence[Stack], epoch: int) -> None:
    """Record the step of every stack as a CUDA graph; only the stacked ResNet-32 on a GPU can."""
    config = stacks[0].config
    if stacks[0].device.type != "cuda" or config.architecture != "resnet32":
        return
    for stack in stacks:
        stack.batches.load(stack.batches.draw(epoch))
        stack.capture()
    torch.cuda.synchronize()


@contextmanager
def side_by_side(stacks: Sequence[Stack]) -> Iterator[None]:
    """Order the streams of the stacks after the current stream, and the current one after them."""
    streams = [stack.stream for stack in stacks if stack.stream is not None]
    for stream in streams:
        stream.wait_stream(torch.cuda.current_stream())
    yield
    for stream in streams:
        torch.cuda.current_stream().wait_stream(stream)


def step(stacks: Sequence[Stack]) -> None:
    """Train every stack by one batch, each on its stream."""
    for stack in stacks:
        with torch.cuda.stream(stack.stream):
            stack.replay()
