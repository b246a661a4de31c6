"""SIGTERM, which schedulers send before they end a job: stop at once, or at the next safe point."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class TerminatedError(BaseException):
    """Request to end the process; not an Exception, so that no handler of errors catches it."""


class _Request:
    waiting = False  # a safe point will come
    received = False


def requested() -> bool:
    """Return True if the process was asked to end and has not yet done so."""
    return _Request.received


@contextmanager
def terminable() -> Iterator[None]:
    """Raise `TerminatedError` in this context when SIGTERM arrives; see `deferred`."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _receive)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def deferred() -> Iterator[None]:
    """Let the first SIGTERM only make `requested` True; a second one ends the context at once."""
    _Request.waiting, _Request.received = True, False
    try:
        yield
    finally:
        _Request.waiting = False


def _receive(number: int, frame: FrameType | None) -> None:
    if _Request.waiting and not _Request.received:
        _Request.received = True
        return
    raise TerminatedError
