"""Programs in processes of their own, and checks of Triton's kernels on CPU tensors."""

from __future__ import annotations

import os
import subprocess
import sys

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
