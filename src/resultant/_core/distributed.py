"""The processes of a job under torchrun; without torchrun, one process of rank 0."""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

# None stands for all processes.
Group = dist.ProcessGroup | None


def distributed() -> bool:
    """Return True if there is a process group."""
    return dist.is_available() and dist.is_initialized()


def rank(group: Group = None) -> int:
    """Return the rank of this process in a group, by default that of all processes."""
    return dist.get_rank(group) if distributed() else 0


def world_size(group: Group = None) -> int:
    """Return the number of processes of a group, by default of all."""
    return dist.get_world_size(group) if distributed() else 1


def broadcast_from_rank0(*tensors: Tensor) -> None:
    """Copy the values of rank 0 to every process, in place."""
    if distributed():
        for a in tensors:
            dist.broadcast(a, 0)


def all_reduce_sum(a: Tensor, group: Group = None) -> Tensor:
    """Sum ``a`` over the processes, in place."""
    if distributed():
        dist.all_reduce(a, group=group)
    return a


def all_gather_host(a: Tensor, group: Group = None) -> Tensor:
    """Stack the tensors ``a`` of every process, on the CPU, without waiting for a device."""
    if world_size(group) == 1:
        return a.unsqueeze(0)
    parts = a.new_empty(world_size(group), *a.shape)
    dist.all_gather(list(parts), a, group=_host_group(group or dist.group.WORLD))
    return parts


def all_gather_int(n: int) -> list[int]:
    """Return the number ``n`` of every process, without waiting for a device."""
    return all_gather_host(torch.tensor(n)).tolist()


@cache
def _host_group(group: Group) -> Any:
    """Return a group of the same processes that exchanges tensors of the CPU."""
    if "cpu:" in dist.get_backend_config(group):
        return group
    ranks = dist.get_process_group_ranks(group)
    return dist.new_group(ranks, backend="gloo", use_local_synchronization=True)


def wait_for_all() -> None:
    """Wait until every process is here, also longer than the ten minutes of other exchanges."""
    if world_size() > 1:
        dist.barrier(group=_patient_group(dist.group.WORLD))


@cache
def _patient_group(_: dist.ProcessGroup | None) -> Any:
    return dist.new_group(backend="gloo", timeout=timedelta(days=365))


def gather(a: Tensor, sizes: list[int], group: Group = None) -> Tensor:
    """Join tensors [n, ...] in the order of the ranks; ``sizes`` are n of every process."""
    if world_size(group) == 1:
        return a
    most = max(sizes)
    padded = torch.cat([a, a.new_zeros(most - len(a), *a.shape[1:])])
    parts = a.new_empty(len(sizes), most, *a.shape[1:])
    dist.all_gather(list(parts), padded, group=group)
    return torch.cat([part[:n] for part, n in zip(parts, sizes, strict=True)])


def all_reduce_max(a: Tensor, group: Group = None) -> Tensor:
    """Take the largest of the values of all processes, in place."""
    if distributed():
        dist.all_reduce(a, dist.ReduceOp.MAX, group)
    return a


@contextmanager
def processes(device: torch.device) -> Iterator[torch.device]:
    """Join the group of torchrun, if any, and yield the device of this process."""
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
    # Sizes of batches are exchanged on the host, also where tensors travel between devices.
    backend = "cpu:gloo,cuda:nccl" if cuda else "gloo"
    dist.init_process_group(backend, device_id=device if cuda else None)
    # While no process waits yet.
    _patient_group(dist.group.WORLD)
    yield device
    # Not after an error: the other processes may be waiting, and torchrun ends them. A thread of
    # gloo that releases a tensor while Python exits aborts the process: the barrier lets such
    # threads finish, and they end with the group, which an uncollected network would keep alive.
    wait_for_all()
    _host_group.cache_clear()
    _patient_group.cache_clear()
    gc.collect()
    dist.destroy_process_group()
