"""The processes of a job under torchrun; without torchrun, one process of rank 0."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import Tensor


def distributed() -> bool:
    """Return True if there is a process group."""
    return dist.is_available() and dist.is_initialized()


def rank() -> int:
    return dist.get_rank() if distributed() else 0


def world_size() -> int:
    return dist.get_world_size() if distributed() else 1


def broadcast_from_rank0(*tensors: Tensor) -> None:
    """Copy the values of rank 0 to every process, in place."""
    if distributed():
        for a in tensors:
            dist.broadcast(a, 0)


def total(a: Tensor) -> Tensor:
    """Sum ``a`` over the processes, in place."""
    if distributed():
        dist.all_reduce(a)
    return a


@contextmanager
def processes(device: torch.device) -> Iterator[torch.device]:
    """Join the process group that torchrun has described in the environment, if any.

    Yields the device of this process: the CUDA device of its local rank, or ``device``.
    """
    if not dist.is_available() or not {"RANK", "WORLD_SIZE"} <= os.environ.keys():
        yield device
        return
    cuda = device.type == "cuda"
    if cuda:
        local = int(os.environ.get("LOCAL_RANK", "0"))
        if local >= torch.cuda.device_count():
            rule = f"expected a CUDA device for the process of local rank {local}"
            raise ValueError(f"{rule}, got {torch.cuda.device_count()} devices")
        device = torch.device("cuda", local)
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if cuda else "gloo", device_id=device if cuda else None)
    yield device
    # Not after an error: the other processes may be waiting, and torchrun ends them. A thread of
    # gloo that releases a tensor while Python exits aborts the process: the barrier lets such
    # threads finish, and they end with the group, which an uncollected network would keep alive.
    dist.barrier()
    gc.collect()
    dist.destroy_process_group()
