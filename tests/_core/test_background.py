"""Calls in another process: values, errors, a process that dies, and calls in this process."""

from __future__ import annotations

import os

import pytest

from resultant._core.background import Background, Foreground, calls


def test_calls_run_elsewhere_in_order() -> None:
    background = Background("operator:neg")
    try:
        assert [f.result() for f in [background.submit(n) for n in (1, 2)]] == [-1, -2]
        with pytest.raises(TypeError, match="bad operand"):
            background.submit("text").result()
        assert background.submit(3).result() == -3
    finally:
        background.close()
    assert background.process.poll() is not None


def test_a_call_of_a_dead_process_is_made_here() -> None:
    background = Background("os:kill")
    background.process.kill()
    background.process.wait()
    background.target = "operator:neg"
    assert background.submit(5).result() == -5
    background.close()


def test_closing_ends_a_running_call() -> None:
    background = Background("time:sleep")
    future = background.submit(600)
    background.close()
    assert background.process.poll() is not None and future.done()


def test_loaded_modules_need_no_process() -> None:
    with calls("operator:neg", ["os", "time"]) as foreground:
        assert isinstance(foreground, Foreground) and foreground.submit(os.getpid()).done()
