"""Features in AnnData files (.h5ad): X and obsm are features, obs has the labels.

The HDF5 library may not return from a damaged file, or crash. Files are therefore read by a program
of their own (`anndata_program`), whose time and memory the system limits; one program serves all
files of this process.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from resultant._core import chunks
from resultant._core.text import one_line
from resultant.features.columns import MAX_WIDTH
from resultant.features.rows import MemoryRows, NonNumericArray, Rows

# Seconds of work for one request, and bytes of a file for one second more.
SECONDS, BYTES_PER_SECOND = 10, 1 << 24
# Seconds that a program has to end by itself.
ENDING = 1.0
PROGRAM = Path(__file__).with_name("anndata_program.py")


def read_anndata(path: Path) -> dict[str, Rows | NonNumericArray]:
    """Open X, the arrays of obsm and the columns of obs by name.

    The names of the observations are ``identities``.

    Raises:
        ValueError: h5py is missing, or the file is broken or reads another file.
    """
    if find_spec("h5py") is None:
        raise ValueError("expected h5py to read .h5ad: pip install resultant[anndata]")
    arrays: dict[str, Rows | NonNumericArray] = {}
    for about, values in _program.ask(path):
        name, shape = about["name"], tuple(about["shape"])
        if values is None:
            arrays[name] = H5Rows(path, about)
        elif "words" in about:
            pair = about["words"], torch.from_numpy(values)
            arrays[name] = NonNumericArray(shape, "strings", lambda pair=pair: pair)
        else:
            arrays[name] = MemoryRows(_tensor(path, values))
    return arrays


class H5Rows(Rows):
    """Rows of a dataset, or of a sparse matrix that is made dense piece by piece."""

    def __init__(self, path: Path, about: dict[str, Any]) -> None:
        self.path, self.shape = path, tuple(about["shape"])
        self.layout = np.dtype(about["dtype"])
        self.place = {"member": about["member"], "columns": about.get("columns", 0)}
        self.dtype = _tensor(path, np.empty(0, self.layout)).dtype

    def read(self, start: int, stop: int) -> Tensor:
        shape = stop - start, *self.shape[1:]
        rows = np.empty(shape, self.layout)
        _program.ask(self.path, rows, start=start, stop=stop, **self.place)
        return torch.from_numpy(rows)


def _tensor(path: Path, values: np.ndarray) -> Tensor:
    try:
        return torch.from_numpy(values)
    except TypeError as error:
        raise ValueError(f"{_rule(path)}, got: {one_line(error)}") from None


def _rule(path: Path) -> str:
    return f"expected {path} to be a whole AnnData file"


class _Program:
    """The program that reads AnnData files, started with the first request."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        # Threads of a caller share the program.
        self.lock = threading.Lock()

    def ask(
        self, path: Path, into: np.ndarray | None = None, **call: Any
    ) -> list[tuple[dict[str, Any], np.ndarray | None]]:
        """Send a request; return the arrays of the answer, which fill ``into`` if it is given.

        Raises:
            ValueError: The file is missing or broken, or the program has reached a limit.
        """
        if not path.exists():
            raise ValueError(f"{_rule(path)}, got no such file")
        size = path.stat().st_size
        seconds = SECONDS + size // BYTES_PER_SECOND
        memory = 2 * chunks.decoded_limit(size) + 2 * (0 if into is None else into.nbytes)
        # A relative path holds where this process is now.
        call.update(path=os.path.abspath(path), width=MAX_WIDTH)
        request = json.dumps({"seconds": seconds, "memory": memory, "call": call})
        with self.lock:
            process = self._started()
            assert process.stdin is not None and process.stdout is not None
            arrays = []
            try:
                process.stdin.write(request.encode() + b"\n")
                process.stdin.flush()
                answer = json.loads(process.stdout.readline())
                for about in answer.get("arrays", ()):
                    values = _room(about) if into is None else into
                    if values is not None:
                        _fill(values, process.stdout)
                    arrays.append((about, values))
            except (OSError, EOFError, json.JSONDecodeError):
                status = self.close()
                got = f"the end of the HDF5 library with status {status}"
                if status == -getattr(signal, "SIGXCPU", 0):
                    got = f"over {seconds} s of work of the HDF5 library"
                answer = {"error": f"{got}: it is damaged"}
            except BaseException:
                # Interrupted: the rest of an answer must not be taken for the next one.
                self.close()
                raise
        if "error" in answer:
            raise ValueError(f"{_rule(path)}, got: {one_line(answer['error'])}")
        return arrays

    def _started(self) -> subprocess.Popen[bytes]:
        if self.process is None:
            # By path, since the folder of the program imports torch; nothing is written.
            code = f"import sys, runpy; sys.path[:] = {sys.path!r}; "
            code += f"runpy.run_path({str(PROGRAM)!r}, run_name='__main__')"
            self.process = subprocess.Popen(
                [sys.executable, "-B", "-c", code],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                # Threads of linear algebra reserve memory; an interrupt of the terminal ends this
                # process, which ends the other.
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
                start_new_session=True,
            )
        return self.process

    def close(self) -> int:
        """End the program, also in the middle of a request; return its status."""
        process, self.process = self.process, None
        if process is None:
            return 0
        assert process.stdin is not None and process.stdout is not None
        # A program that has reached a limit has ended, or does so now.
        with suppress(OSError):
            process.stdin.close()
        try:
            process.wait(ENDING)
        except subprocess.TimeoutExpired:
            process.kill()
        process.stdout.close()
        return process.wait()

    def forget(self) -> None:
        """Leave the program to the process that this one was forked from."""
        if self.process is not None:
            # Not its parent: nothing to wait for.
            self.process.returncode = 0
        self.process, self.lock = None, threading.Lock()


def _room(about: dict[str, Any]) -> np.ndarray | None:
    return None if "member" in about else np.empty(about["shape"], about["dtype"])


def _fill(values: np.ndarray, source: Any) -> None:
    """Read the bytes of an array from the pipe."""
    rest = values.reshape(-1).view(np.uint8).data
    while rest:
        count = source.readinto(rest)
        if not count:
            raise EOFError
        rest = rest[count:]


_program = _Program()
atexit.register(_program.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_program.forget)
