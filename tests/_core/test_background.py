"""Calls in a thread: values, errors, and a process that ends."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from resultant._core.background import require_process, start


def test_calls_run_in_a_thread() -> None:
    assert start(threading.get_ident).result() != threading.get_ident()
    assert start(pow, 2, 5).result() == 32
    with pytest.raises(ZeroDivisionError):
        start(divmod, 1, 0).result()
    require_process()


def test_a_long_call_does_not_outlive_the_process() -> None:
    code = (
        "from resultant._core.background import require_process, start\n"
        "def call():\n    while True:\n        require_process()\n"
        "start(call)\nraise SystemExit(3)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 3
