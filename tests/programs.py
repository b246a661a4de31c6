"""Programs in processes of their own, which start without the time of the imports.

A server per test process has done the imports and forks a child for every program. Triton's
kernels are interpreted in the server, which needs no GPU: the import of a kernel decides.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

SERVER = """
import contextlib, json, os, sys, traceback

import torch
# Loaded by the first step of an optimizer.
import torch._dynamo

from resultant._core.vision import declare_operators

declare_operators()
with contextlib.suppress(ImportError):
    from triton.runtime import interpreter

    patch = interpreter._patch_lang_tensor

    def patch_lang_tensor(tensor, scope):
        # Triton's interpreter makes an int of an array of one number, which NumPy no longer does.
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())

    interpreter._patch_lang_tensor = patch_lang_tensor
    patch_all, patched = interpreter._patch_lang, set()

    def patch_lang(function):
        # Triton's interpreter patches its language at every call of a function. Once per module is
        # enough where every kernel is interpreted, and a quarter faster.
        if id(function.__globals__) not in patched:
            patched.add(id(function.__globals__))
            patch_all(function)
        return interpreter._LangPatchScope()

    interpreter._patch_lang = patch_lang

import shallow
import resultant.training.cifar


def run(program, arguments):
    sys.argv = ["program", *arguments]
    torch.set_num_threads(1)
    try:
        exec(program, {"__name__": "__main__"})
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


for line in sys.stdin:
    folder, program, arguments = json.loads(line)
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number, name in ((1, "output"), (2, "errors")):
            os.dup2(os.open(os.path.join(folder, name), os.O_WRONLY), number)
        code = run(program, arguments)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@functools.cache
def start_server() -> subprocess.Popen[str]:
    environment = {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", SERVER],
        env={**os.environ, **environment, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def run_program(program: str, *arguments: object) -> tuple[str, str]:
    """Run a program to its end and return its output and its errors; a program that fails is a
    failure of the test."""
    server = start_server()
    assert server.stdin is not None and server.stdout is not None
    with tempfile.TemporaryDirectory() as folder:
        output, errors = (Path(folder, name) for name in ("output", "errors"))
        output.touch()
        errors.touch()
        print(
            json.dumps([folder, program, list(map(str, arguments))]), file=server.stdin, flush=True
        )
        status = server.stdout.readline().strip()
        assert status == "0", errors.read_text() or f"status {status}"
        return output.read_text(), errors.read_text()


def run_interpreted(check: str) -> None:
    """Run a program that checks kernels, where kernels are interpreted."""
    pytest.importorskip("triton")
    run_program(check)
