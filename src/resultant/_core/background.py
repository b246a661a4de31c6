"""A function that runs in a Python process of its own while this process does other work."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from resultant._core.preload import preload


class Background:
    """Calls of one function, one after the other, in a second process that loads its modules first.

    A call whose process has died is made here instead.

    Args:
        target: The function as ``module:name``; its module must be importable.
        modules: Modules that the process loads before the first call.
        without: Packages that these modules can do without.
    """

    def __init__(
        self, target: str, modules: Sequence[str] = (), without: Sequence[str] = ()
    ) -> None:
        self.target, self.closed = target, False
        arguments = target, tuple(modules), tuple(without)
        code = (
            f"import sys; sys.path[:] = {sys.path!r}; "
            f"from resultant._core.background import serve; serve(*{arguments!r})"
        )
        # A session of its own: an interrupt of the terminal reaches only this process, which ends
        # the other.
        self.process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.threads = ThreadPoolExecutor(1)

    def submit(self, argument: Any) -> Future[Any]:
        """Call the function; the future has its value, or raises its error."""
        return self.threads.submit(self._call, argument)

    def _call(self, argument: Any) -> Any:
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            pickle.dump(argument, self.process.stdin, pickle.HIGHEST_PROTOCOL)
            self.process.stdin.flush()
            value, error = pickle.load(self.process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError):
            if self.closed:
                raise
            return _load(self.target)(argument)
        if error is not None:
            raise error
        return value

    def close(self) -> None:
        """End the process, even in the middle of a call."""
        self.closed = True
        self.process.kill()
        self.threads.shutdown(cancel_futures=True)
        self.process.communicate()


class Foreground:
    """The same calls in this process, at once."""

    def __init__(self, target: str) -> None:
        self.target = target

    def submit(self, argument: Any) -> Future[Any]:
        """Call the function; the future has its value."""
        future: Future[Any] = Future()
        future.set_result(_load(self.target)(argument))
        return future


@contextmanager
def calls(
    target: str, modules: Sequence[str] = (), without: Sequence[str] = ()
) -> Iterator[Background | Foreground]:
    """Call a function in the background within a context, or here if its modules are loaded;
    arguments of `Background`."""
    if all(module in sys.modules for module in modules):
        yield Foreground(target)
        return
    background = Background(target, modules, without)
    try:
        yield background
    finally:
        background.close()


def serve(target: str, modules: Sequence[str], without: Sequence[str]) -> None:
    """Answer the calls of a `Background` until its pipe is closed."""
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    # Output of a library must not get between the results.
    sys.stdout = sys.stderr
    preload(modules, without)
    function = _load(target)
    while True:
        try:
            argument = pickle.load(source)
        except EOFError:
            return
        try:
            result = function(argument), None
        except Exception as error:
            result = None, error
        pickle.dump(result, sink, pickle.HIGHEST_PROTOCOL)
        sink.flush()


def _load(target: str) -> Any:
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)
