"""What is shown of long work, on a terminal and elsewhere."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from resultant.cli.progress import Steps, Watch, said
from resultant.training.job import Progress


def progress(epoch: int, loss: dict[str, float]) -> Progress:
    return Progress(epoch, 8, 30.0 * epoch, 12345.6, loss, before=2)


def test_watch_on_a_terminal() -> None:
    """A bar that also moves within an epoch."""
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=140)
    with Watch(console, "work", 10) as watch:
        watch(progress(2, {"a": 1.25, "b": 1.5}))
        watch.tick(0.5)
        task = watch.bar.tasks[0]
        assert (task.completed, task.total) == (4.5, 10)
    assert "epoch 4/10, loss 1.2500 to 1.5000, 12,346 views/s, 0:03:00 left" in file.getvalue()


@pytest.mark.parametrize("quiet", [False, True])
def test_watch_elsewhere(quiet: bool) -> None:
    """A line an epoch, however long, and no bar."""
    file = io.StringIO()
    with Watch(Console(file=file, width=20), "work", 10, quiet) as watch:
        watch.tick(0.5)
        watch(progress(1, {"a": 1.25}))
    expected = said(progress(1, {"a": 1.25}))
    assert expected == "epoch 3/10, loss 1.2500, 12,346 views/s, 0:03:30 left"
    assert file.getvalue() == ("" if quiet else f"work: {expected}\n")


@pytest.mark.parametrize("shown", [False, True])
def test_a_job_that_is_continued(shown: bool) -> None:
    """One line, on a terminal too, where the bar starts with what is done."""
    file = io.StringIO()
    console = Console(file=file, force_terminal=shown, width=140)
    with Watch(console, "work", 10) as watch:
        watch(progress(0, {}))
        assert watch.bar.tasks[0].completed == 2
    assert "work: continues after epoch 2/10\n" in file.getvalue()
    assert Progress(0, 0, 0.0, 0.0, before=10).resumed == "already trained to epoch 10/10"


def test_watch_breaks_a_long_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """An epoch that takes long is told of now and then, also before its end."""
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    file = io.StringIO()
    with Watch(Console(file=file, width=80), "work", 4) as watch:
        for step in range(1, 5):
            now += 20.0
            watch.tick(step / 4)
    assert file.getvalue() == "work: 12.5 %\nwork: 25.0 %\n"


def test_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line a step that is finished, once; on a terminal a bar that moves within one."""
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    file = io.StringIO()
    with Steps(Console(file=file, width=80), 3) as steps:
        for share in (0.5, 1.0, 1.0):
            now += 1.0
            steps("fit", share)
        steps.of("A")("fit", 1.0)
    assert file.getvalue() == "   2.0 s  fit\n   3.0 s  A: fit\n"
    console = Console(file=io.StringIO(), force_terminal=True)
    with Steps(console, 3) as steps:
        steps("fit", 1.0)
        steps("ask", 0.25)
        assert (steps.bar.tasks[0].completed, steps.bar.tasks[0].total) == (1.25, 3)
