"""The processes of a job under torchrun; one process without it is the first of one."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import Tensor


def distributed() -> bool:
    """Whether there is a process group."""
    return dist.is_available() and dist.is_initialized()


def rank() -> int:
    return dist.get_rank() if distributed() else 0


def world_size() -> int:
    return dist.get_world_size() if distributed() else 1


def broadcast_from_rank0(*tensors: Tensor) -> None:
    """Give every process the values of the first."""
    if distributed():
        for a in tensors:
            dist.broadcast(a, 0)


def total(a: Tensor) -> Tensor:
    """The sum of ``a`` over the processes, in place."""
    if distributed():
        dist.all_reduce(a)
    return a


@contextmanager
def processes(device: torch.device) -> Iterator[torch.device]:
    """Join the process group that the environment describes, as torchrun sets it, if it does.

    Yields the device of this process: of CUDA devices that of its local rank.
    """
    if not dist.is_available() or not {"RANK", "WORLD_SIZE"} <= os.environ.keys():
        yield device
        return
    cuda = device.type == "cuda"
    if cuda:
        local = int(os.environ.get("LOCAL_RANK", "0"))
        if local >= torch.cuda.device_count():
            rule = f"expected a CUDA device for each process of a machine, of local rank {local}"
            raise ValueError(f"{rule}, got {torch.cuda.device_count()} devices")
        device = torch.device("cuda", local)
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if cuda else "gloo", device_id=device if cuda else None)
    yield device
    # Not after an error: the others may be waiting, and torchrun ends them. A thread of gloo that
    # drops a tensor while Python ends aborts the process. The barrier lets them drop what they did
    # before; and they end with the group, which a network that is garbage would still hold.
    dist.barrier()
    gc.collect()
    dist.destroy_process_group()
