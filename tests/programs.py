"""Programs in processes of their own, also in several that form a process group of gloo, and checks
of Triton's kernels on CPU tensors."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


def run_program(program: str, *arguments: object, **variables: str) -> tuple[str, str]:
    """Run a program to its end and return its output and its errors; a program that fails is a
    failure of the test. ``variables`` are added to its environment."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
        **variables,
    }
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr or f"status {done.returncode}"
    return done.stdout, done.stderr


def run_interpreted(check: str) -> None:
    """Run a program that checks kernels on CPU tensors, by Triton's interpreter."""
    pytest.importorskip("triton")
    run_program(check, TRITON_INTERPRET="1")


START = """
import os, signal, sys, torch, torch.distributed as dist, warnings
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
failed = 0
while children:
    child, status = os.wait()
    children.remove(child)
    for other in children if status and not failed else ():
        # It would wait for the one that failed.
        os.kill(other, signal.SIGKILL)
    failed = failed or status
assert not failed, f"a process ended with status {failed}"
"""


def run_processes(program: str, processes: int, out: Path) -> None:
    """Run ``main(rank)`` of a program, which knows the number of ``processes`` and a folder
    ``out``, in several processes."""
    run_program(START + program + RUN, processes, out)
