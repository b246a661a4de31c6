"""Programs run by several processes that form a process group of gloo."""

from __future__ import annotations

from pathlib import Path

from programs import run_program

START = """
import os, sys, torch, torch.distributed as dist, warnings
from safetensors.torch import load_file, save_file

warnings.simplefilter("error", FutureWarning)
processes, out = int(sys.argv[1]), sys.argv[2]
"""
RUN = """
children = []
for rank in range(processes):
    children.append(os.fork())
    if not children[-1]:
        address = f"file://{out}/group-{processes}-{os.getppid()}"
        dist.init_process_group("gloo", init_method=address, rank=rank, world_size=processes)
        main(rank)
        dist.destroy_process_group()
        os._exit(0)
assert [os.waitpid(child, 0)[1] for child in children] == [0] * processes
"""


def run_processes(program: str, processes: int, out: Path) -> None:
    """Run ``main(rank)`` of a program, which knows the number of ``processes`` and a folder
    ``out``, in several processes."""
    run_program(START + program + RUN, processes, out)
