"""Progress of long work, on a terminal and elsewhere."""

from __future__ import annotations

import io
import os
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table

from resultant.cli.progress import EpochProgress, PlainConsole, Screen
from resultant.training.job import Progress


def progress(epoch: int, loss: dict[str, float]) -> Progress:
    return Progress(epoch, 8, 30.0 * epoch, 12345.6, loss, before=2)


@pytest.mark.parametrize(("terminal", "quiet"), [(True, False), (False, False), (False, True)])
def test_epochs(terminal: bool, quiet: bool) -> None:
    """A bar on a terminal that also moves within an epoch, a line per epoch in a file; a job that
    continues another is announced everywhere."""
    file = io.StringIO()
    look: dict[str, Any] = {"width": 140, "highlight": False}
    console = Console(file=file, force_terminal=terminal, quiet=quiet, **look)
    with EpochProgress(console, "work", 10) as shown:
        shown(progress(0, {}))
        assert shown.tasks[0].completed == 2
        shown(progress(1, {"a": 1.25}))
        shown(progress(2, {"a": 1.25, "b": 1.5}))
        shown.tick(0.5)
        assert (shown.tasks[0].completed, shown.tasks[0].total) == (4.5, 10)
    lines = [
        "work: continues after epoch 2/10\n",
        "work: epoch 3/10, loss 1.2500, 12,346 views/s, 0:03:30 left\n",
        "work: epoch 4/10, loss 1.2500 to 1.5000, 12,346 views/s, 0:03:00 left\n",
    ]
    if terminal:
        assert lines[0] in file.getvalue() and "1.5000, 12,346 views/s" in file.getvalue()
    else:
        assert file.getvalue() == ("" if quiet else "".join(lines))
    assert Progress(0, 0, 0.0, 0.0, before=10).resumed == "already trained to epoch 10/10"


def test_steps_and_results(capsys: pytest.CaptureFixture[str]) -> None:
    """In files, results are on standard output and a line per step on standard error."""
    for quiet, json, out, steps in (
        (False, None, "result\n", 1),
        (True, None, "", 0),
        (False, Path("-"), "", 1),
    ):
        with Screen(quiet, json) as screen:
            screen.step("fit")
            screen.step("fit")
            screen.results.print("result")
        shown = capsys.readouterr()
        assert shown.out == out and re.fullmatch(steps * r" +\d+\.\d s  fit\n", shown.err)


def test_work_goes_on_without_a_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in ``resultant analyze | head -n 1``."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as file:
        monkeypatch.setattr("sys.stdout", file)
        console = PlainConsole()
        console.print("first")
        console.print("second")
        assert console.quiet


def test_names_are_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    """Neither in lines, nor in tables and steps, and they steer no terminal."""
    name = "o[/x] [red]a :smile: \x1b[2J"
    console = PlainConsole()
    console.print(name)
    table = Table(name, title=name)
    table.add_row(name)
    console.print(table)
    shown = capsys.readouterr().out
    assert shown.count("o[/x] [red]a :smile:") == 4 and "\x1b" not in shown
