"""Consoles, and the progress of long work: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress as Bar,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from resultant._core.text import one_line, shortened, visible

if TYPE_CHECKING:
    from resultant.training.job import Progress

# Of output that is not a terminal: columns, and seconds between lines of progress.
WIDTH, SILENCE = 160, 30.0


class PlainConsole(Console):
    """A console without markup and without characters that steer a terminal."""

    def __init__(self, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, markup=False, emoji=False)
        if not self.is_terminal:
            self.width = WIDTH

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(visible(text), **options)

    def on_broken_pipe(self) -> None:
        # Work goes on without a reader, as in ``resultant analyze | head -n 1``.
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.file.fileno())


def percent(fraction: float | None) -> str:
    """Return a fraction in percent without the sign, and a dash for None."""
    return "-" if fraction is None else f"{100 * fraction:.2f}"


class ProgressBar(Bar):
    """A bar on a terminal for the length of a ``with`` block; nothing elsewhere."""

    def __init__(self, console: Console, *columns: ProgressColumn) -> None:
        shown = console.is_terminal and not console.quiet
        super().__init__(*columns, console=console, transient=True, disable=not shown)


class EpochProgress(ProgressBar):
    """Progress in epochs, called after an epoch; in a file a line per epoch and per 30 seconds."""

    def __init__(self, console: Console, title: str, epochs: int) -> None:
        super().__init__(
            console,
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.percentage:.0f} %"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[text]}", markup=False),
        )
        self.title, self.done, self.epochs = one_line(title), 0, epochs
        self.printed = time.monotonic()
        self.task = self.add_task(self.title, total=float(epochs), text="")

    def __call__(self, progress: Progress) -> None:
        self.done = progress.before + progress.epoch
        text = ""
        if progress.epoch:
            low, high = min(progress.loss.values()), max(progress.loss.values())
            loss = f"{low:.4f}" if len(progress.loss) == 1 else f"{low:.4f} to {high:.4f}"
            left = timedelta(seconds=round(progress.seconds_left))
            speed = f"{progress.views_per_second:,.0f} views/s, {left} left"
            if progress.accuracy:
                low, high = min(progress.accuracy.values()), max(progress.accuracy.values())
                loss += f", accuracy {percent(low)}" + f" to {percent(high)}" * (low < high) + " %"
            text = f"epoch {self.done}/{progress.before + progress.epochs}, loss {loss}, {speed}"
        self.update(self.task, completed=self.done, text=text)
        self.line(text or progress.resumed, everywhere=not text)

    def tick(self, fraction: float) -> None:
        """Show the part of the epoch that is done."""
        self.update(self.task, completed=self.done + fraction)
        self.line(f"{100 * (self.done + fraction) / self.epochs:.1f} %", SILENCE)

    def decoding(self, done: int, total: int) -> None:
        """Show the number of decoded images, which are decoded before the first epoch."""
        text = f"decoding, {done:,}/{total:,} images"
        self.update(self.task, text=text)
        self.line(text, SILENCE)

    def line(self, text: str, silence: float = -1.0, everywhere: bool = False) -> None:
        """Print a line in a file, or everywhere, after these many seconds without a line."""
        if time.monotonic() - self.printed > silence:
            self.printed = time.monotonic()
            if everywhere or not self.console.is_terminal:
                self.console.print(f"{self.title}: {text}", soft_wrap=True)


class Screen(ProgressBar):
    """The results and the named steps of a command for the length of a ``with`` block."""

    def __init__(self, quiet: bool = False, json: Path | None = None) -> None:
        self.results = PlainConsole()
        # One console on a terminal: results stand above the bar of the steps.
        log = self.results if self.results.is_terminal else PlainConsole(stderr=True)
        self.results.quiet, log.quiet = quiet or str(json) == "-", quiet
        text = TextColumn("{task.description}", markup=False)
        super().__init__(log, SpinnerColumn(), text, TimeElapsedColumn())
        self.name, self.started = "", time.monotonic()
        self.task = self.add_task("", total=None)

    def step(self, name: str) -> None:
        """Begin a step."""
        name = shortened(one_line(name), 200)
        if name == self.name:
            return
        self.name = name
        self.update(self.task, description=name)
        if not self.console.is_terminal:
            seconds = time.monotonic() - self.started
            self.console.print(f"{seconds:6.1f} s  {name}")
