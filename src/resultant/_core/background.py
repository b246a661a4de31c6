"""A function that runs in a thread while this thread does other work."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any


def start(function: Callable[..., Any], *arguments: Any) -> Future[Any]:
    """Call a function in a thread; the future has its value, or raises its error."""
    future: Future[Any] = Future()

    def call() -> None:
        try:
            future.set_result(function(*arguments))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=call).start()
    return future


def require_process() -> None:
    """Raise if the process ends, which waits for its threads: long calls ask now and then."""
    if not threading.main_thread().is_alive():
        raise InterruptedError("expected the process to go on, got its end")
