"""Programs in processes of their own, and checks of Triton's kernels on CPU tensors."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


def run_program(program: str, *arguments: object) -> tuple[str, str]:
    """Run a program to its end and return its output and its errors; a program that fails is a
    failure of the test."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr or f"status {done.returncode}"
    return done.stdout, done.stderr


def run_interpreted(check: str) -> None:
    """Run a check of kernels on CPU tensors, by Triton's interpreter (``conftest.py`` chooses it
    where there is no GPU)."""
    pytest.importorskip("triton")
    if os.environ.get("TRITON_INTERPRET") != "1":
        pytest.skip("kernels are compiled here: the tests of the marker gpu run them")
    exec(check, {"__name__": "__main__"})
