"""Triton kernels in Triton's interpreter, where there is no GPU."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# Triton's interpreter makes an int of an array of one number, which NumPy no longer does.
NUMBERS = """
from triton.runtime import interpreter

patch = interpreter._patch_lang_tensor

def patch_lang_tensor(tensor, scope):
    patch(tensor, scope)
    scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())

interpreter._patch_lang_tensor = patch_lang_tensor
"""


def run_interpreted(check: str) -> None:
    """Run a program that checks kernels, in a process of its own: they are read as device code or
    not when they are imported."""
    pytest.importorskip("triton")
    environment = {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, "-c", NUMBERS + check + '\nprint("checked")\n'],
        env={**os.environ, **environment, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and done.stdout.endswith("checked\n"), done.stderr
