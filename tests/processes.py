"""Programs run by several processes that form a process group of gloo."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

# The program is imported once, which takes longer than most programs, and then forked.
START = """
import os, sys, torch, torch.distributed as dist
from safetensors.torch import load_file, save_file
processes, out = int(sys.argv[1]), sys.argv[2]
torch.set_num_threads(1)
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
sys.exit(any(os.waitpid(child, 0)[1] for child in children))
"""


def run_processes(program: str, processes: int, out: Path) -> None:
    """Run ``main(rank)`` of a program, which knows the number of ``processes`` and a folder
    ``out``, in several processes."""
    paths = [str(Path(__file__).parents[1] / "src"), str(Path(__file__).parent)]
    environment = {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "error::FutureWarning", "-c", START + program + RUN]
        + [str(processes), str(out)],
        env={**os.environ, **environment},
        stderr=subprocess.PIPE,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
