"""Stacks of one device, side by side: a CUDA graph and a stream for each stack."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from resultant.training.stack import Stack


def capture(stacks: Sequence[Stack], epoch: int) -> None:
    """Record the step of every stack on a GPU as a CUDA graph.

    Image networks under several processes, or without ``fuse``, only warm up.
    """
    if stacks[0].device.type != "cuda":
        return
    for stack in stacks:
        stack.batches.rehearse(epoch)
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
