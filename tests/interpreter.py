"""Triton kernels in Triton's interpreter, where there is no GPU."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys

import pytest

# Kernels are interpreted or not from their import on, hence another process. The process is started
# once, because its imports take longer than most programs, and forks a child for every program.
SERVER = """
import json, os, sys, traceback

from triton.runtime import interpreter

patch = interpreter._patch_lang_tensor

def patch_lang_tensor(tensor, scope):
    # Triton's interpreter makes an int of an array of one number, which NumPy no longer does.
    patch(tensor, scope)
    scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())

interpreter._patch_lang_tensor = patch_lang_tensor

import resultant

for line in sys.stdin:
    read, write = os.pipe()
    if os.fork() == 0:
        outcome = "checked"
        sys.stdout = sys.stderr
        try:
            exec(json.loads(line), {"__name__": "__main__"})
        except BaseException:
            outcome = traceback.format_exc()
        os.write(write, outcome.encode())
        os._exit(0)
    os.close(write)
    with open(read) as end:
        print(json.dumps(end.read()), flush=True)
    os.wait()
"""


@functools.cache
def start_server() -> subprocess.Popen[str]:
    environment = {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.Popen(
        [sys.executable, "-c", SERVER],
        env={**os.environ, **environment, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def run_interpreted(check: str) -> None:
    """Run a program that checks kernels, where kernels are interpreted."""
    pytest.importorskip("triton")
    server = start_server()
    assert server.stdin is not None and server.stdout is not None
    server.stdin.write(json.dumps(check) + "\n")
    server.stdin.flush()
    outcome = json.loads(server.stdout.readline() or '"the interpreter could not be started"')
    assert outcome == "checked", outcome
