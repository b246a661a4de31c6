"""References that are fitted in a process of their own, which loads scikit-learn but not torch.

Loading scikit-learn takes as long as loading torch: the process starts first, and both load at a
time, each on a core. Requests and answers are lines of JSON, each followed by the bytes of its
arrays. The process ends with the one that started it, whatever ends that.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import fields
from itertools import count
from queue import SimpleQueue
from typing import Any

import numpy as np

from resultant._core.preload import preload
from resultant.classifiers.references import Fit, Task, fit_references, nearest

# Loaded while the request is on its way.
MODULES = (
    *("scipy.optimize", "sklearn.linear_model", "sklearn.discriminant_analysis"),
    "sklearn.neighbors",
)


class ReferenceProcess:
    """The other process; see `ReferenceFits`.

    Raises:
        ChildProcessError: The process has ended, or cannot load scikit-learn.
        MemoryError: The process had too little memory.
    """

    def __init__(self) -> None:
        cores = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
        number = int(cores) if cores.isdigit() else os.cpu_count() or 1
        # The other half of the cores is for the work that goes on meanwhile.
        threads = str(max(1, number // 2))
        code = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import serve; serve()"
        self.process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads},
            # An interrupt of the terminal ends this process, which ends the other.
            start_new_session=True,
        )
        self.asked = 0
        self.answers: list[tuple[Any, dict[str, np.ndarray]]] = []

    def __enter__(self) -> ReferenceProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        with suppress(OSError):
            self.process.communicate()

    def kill(self) -> None:
        """End the process; it is gone when the context ends."""
        self.process.kill()

    def begin(self, task: Task) -> int:
        """Send a task; return its number."""
        arrays = {
            f.name: a for f in fields(task) if isinstance(a := getattr(task, f.name), np.ndarray)
        }
        for key, pair in task.samples.items():
            arrays |= {f"{key}/{i}": rows for i, rows in enumerate(pair)}
        values = {n: getattr(task, n) for n in ("num_classes", "metric", "iterations", "total")}
        return self._ask({"task": values}, arrays)

    def finish(self, number: int) -> list[Fit]:
        """Return the fits of a task."""
        fits, arrays = self._answer(number)
        for i, fit in enumerate(fits):
            fit["arrays"] = {n: arrays[f"{i}/{n}"] for n in fit["arrays"]}
        return [Fit(**fit) for fit in fits]

    def neighbours(self, number: int, rows: np.ndarray, k: int) -> np.ndarray:
        """Return the classes [n, k] of the nearest rows of the final kNN, the nearest first."""
        return self._answer(self._ask({"number": number, "k": k}, {"rows": rows}))[1]["near"]

    def _ask(self, values: Any, arrays: dict[str, np.ndarray]) -> int:
        assert self.process.stdin is not None
        try:
            send(self.process.stdin, values, arrays)
        except OSError:
            raise self._lost() from None
        self.asked += 1
        return self.asked - 1

    def _answer(self, number: int) -> tuple[Any, dict[str, np.ndarray]]:
        assert self.process.stdout is not None
        while len(self.answers) <= number:
            # Answers come in the order of the requests.
            try:
                self.answers.append(receive(self.process.stdout))
            except (OSError, EOFError):
                raise self._lost() from None
        values, arrays = self.answers[number]
        self.answers[number] = None, {}
        if isinstance(values, dict):
            kind = MemoryError if values["kind"] == "MemoryError" else ChildProcessError
            rule = "expected the references to be fitted"
            raise kind(f"{rule}, got {values['kind']}: {values['error']}")
        return values, arrays

    def _lost(self) -> ChildProcessError:
        self.process.kill()
        rule = "expected the process that fits the references to live"
        got = f"got its end with status {self.process.wait()}, perhaps for lack of memory"
        return ChildProcessError(f"{rule}, {got}; --references none does without")


def send(stream: Any, values: Any, arrays: dict[str, np.ndarray]) -> None:
    """Write values as JSON, and arrays."""
    kinds = {name: (a.dtype.str, a.shape) for name, a in arrays.items()}
    stream.write(json.dumps([values, kinds]).encode() + b"\n")
    for a in arrays.values():
        if a.size:
            stream.write(np.ascontiguousarray(a).data)
    stream.flush()


def receive(stream: Any) -> tuple[Any, dict[str, np.ndarray]]:
    """Read the next values and arrays.

    Raises:
        EOFError: The other side has closed the stream.
    """
    line = stream.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    values, kinds = json.loads(line)
    arrays = {}
    for name, (kind, shape) in kinds.items():
        arrays[name] = a = np.empty(shape, kind)
        if a.size and stream.readinto(a.data) < a.nbytes:
            raise EOFError
    return values, arrays


def serve() -> None:
    """Answer the requests of the standard input."""
    requests: SimpleQueue[tuple[Any, dict[str, np.ndarray]]] = SimpleQueue()

    def read() -> None:
        try:
            while True:
                requests.put(receive(sys.stdin.buffer))
        finally:
            # The other process has ended.
            os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    # What libraries print is no answer.
    answers, sys.stdout = sys.stdout.buffer, sys.stderr
    with suppress(ImportError):
        # One that is missing is the answer to the first request.
        preload(MODULES)
    tasks: dict[int, Task] = {}
    for number in count():
        values, arrays = requests.get()
        answer, found = None, {}
        try:
            if "task" in values:
                keys = dict.fromkeys(n.partition("/")[0] for n in arrays if "/" in n)
                samples = {key: (arrays.pop(f"{key}/0"), arrays.pop(f"{key}/1")) for key in keys}
                tasks[number] = Task(**{**values["task"], **arrays, "samples": samples})
                fits = fit_references(tasks[number])
                answer = [{**vars(fit), "arrays": list(fit.arrays)} for fit in fits]
                found = {f"{i}/{n}": a for i, f in enumerate(fits) for n, a in f.arrays.items()}
            else:
                rows = tasks[values["number"]].rows("knn", True)
                found = {"near": nearest(*rows, arrays["rows"], values["k"])}
        except Exception as error:
            answer, found = {"kind": type(error).__name__, "error": str(error)}, {}
        send(answers, answer, found)
