"""Programs in processes of their own, which start without the time of the imports.

One server does the imports when the first program comes, for all processes that run tests, and
forks a child for every program. Triton's kernels are interpreted in the server, which needs no GPU:
the import of a kernel decides.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

# The path of the server's socket.
ADDRESS = "RESULTANT_TEST_PROGRAMS"

SERVER = """
import contextlib, gc, json, os, select, signal, socket, sys, traceback

listener = socket.socket(fileno=int(sys.argv[1]))


def asked():
    # The end of the standard input is that of the process that started this one.
    return sys.stdin not in select.select([listener, sys.stdin], [], [])[0]


if not asked():
    sys.exit()
gc.disable()

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

# Children do not look for garbage among the modules.
gc.freeze()
gc.set_threshold(100_000, 20, 20)
gc.enable()


def run(program, arguments):
    sys.argv = ["program", *arguments]
    torch.set_num_threads(1)
    try:
        exec(program, {"__name__": "__main__"})
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def serve(connection):
    folder, program, arguments = json.loads(connection.makefile().readline())
    child = os.fork()
    if child == 0:
        connection.close()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number, name in ((1, "output"), (2, "errors")):
            os.dup2(os.open(os.path.join(folder, name), os.O_WRONLY), number)
        code = run(program, arguments)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    connection.sendall(f"{status}\\n".encode())


# Children that end leave nothing behind.
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while asked():
    connection, _ = listener.accept()
    if os.fork() == 0:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        listener.close()
        serve(connection)
        os._exit(0)
    connection.close()
# Without the farewells of libraries.
os._exit(0)
"""


def start_server() -> None:
    """Start the server of this process and of processes that it starts, if there is none."""
    if ADDRESS in os.environ:
        return
    environment = {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    with socket.socket(socket.AF_UNIX) as listener:
        folder = tempfile.TemporaryDirectory(prefix="programs-")
        path = os.path.join(folder.name, "socket")
        listener.bind(path)
        listener.listen()
        server = subprocess.Popen(
            [sys.executable, "-c", SERVER, str(listener.fileno())],
            env={**os.environ, **environment, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.PIPE,
            pass_fds=[listener.fileno()],
        )
    os.environ[ADDRESS] = path
    # Kept to the end of this process.
    _started.append((server, folder))


_started: list[object] = []


def run_program(program: str, *arguments: object) -> tuple[str, str]:
    """Run a program to its end and return its output and its errors; a program that fails is a
    failure of the test."""
    start_server()
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as connection:
        output, errors = (Path(folder, name) for name in ("output", "errors"))
        output.touch()
        errors.touch()
        connection.connect(os.environ[ADDRESS])
        request = json.dumps([folder, program, list(map(str, arguments))])
        connection.sendall(f"{request}\n".encode())
        status = connection.makefile().readline().strip()
        assert status == "0", errors.read_text() or f"status {status}"
        return output.read_text(), errors.read_text()


def run_interpreted(check: str) -> None:
    """Run a program that checks kernels, where kernels are interpreted."""
    pytest.importorskip("triton")
    run_program(check)
