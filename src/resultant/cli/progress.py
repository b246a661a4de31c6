"""What is shown of long work: a bar on a terminal, a line an epoch or a step elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

if TYPE_CHECKING:
    from resultant.training.job import Progress

# Columns of what is not a terminal.
WIDTH = 160
# Seconds after which a file is told where the work stands.
SILENCE = 30.0

# A step of some work, and the share of it that is done.
Step = Callable[[str, float], object]


def terminal(stderr: bool = False) -> Console:
    """Where to print results, or with ``stderr`` how far the work is; a file has no width, and gets
    lines that are long enough for a table."""
    console = Console(stderr=stderr)
    return console if console.is_terminal else Console(stderr=stderr, width=WIDTH)


class Shown:
    """A bar for the length of a ``with`` block, on a terminal; elsewhere there is none."""

    def __init__(self, console: Console, *columns: ProgressColumn, quiet: bool = False) -> None:
        self.console, self.quiet = console, quiet
        shown = console.is_terminal and not quiet
        self.bar = Bar(*columns, console=console, transient=True, disable=not shown)

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.bar.stop()


class Watch(Shown):
    """``watch(progress)`` after every epoch, ``watch.tick(share)`` within one: elsewhere than on a
    terminal that is a line now and then. That a job is continued is a line everywhere."""

    def __init__(self, console: Console, title: str, epochs: int, quiet: bool = False) -> None:
        super().__init__(
            console,
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:.0f} %"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[said]}"),
            quiet=quiet,
        )
        self.title, self.done, self.epochs = title, 0, epochs
        self.told = time.monotonic()
        self.task = self.bar.add_task(title, total=float(epochs), said="")

    def __call__(self, progress: Progress) -> None:
        self.done = progress.before + progress.epoch
        if not progress.epoch:
            self.bar.update(self.task, completed=self.done)
            self.print(progress.resumed)
            return
        text = said(progress)
        self.bar.update(self.task, completed=self.done, said=text)
        self.tell(text)

    def tick(self, share: float) -> None:
        self.bar.update(self.task, completed=self.done + share)
        if time.monotonic() - self.told > SILENCE:
            self.tell(f"{100 * (self.done + share) / self.epochs:.1f} %")

    def tell(self, text: str) -> None:
        self.told = time.monotonic()
        if not self.console.is_terminal:
            self.print(text)

    def print(self, text: str) -> None:
        if not self.quiet:
            self.console.print(f"{self.title}: {text}", soft_wrap=True, highlight=False)


class Steps(Shown):
    """``steps(step, share)``: a bar on a terminal, a line a finished step elsewhere."""

    def __init__(self, console: Console, steps: int) -> None:
        super().__init__(
            console, TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
        )
        self.task = self.bar.add_task("", total=steps)
        self.done: set[str] = set()
        self.started = time.monotonic()

    def __call__(self, step: str, share: float) -> None:
        if share >= 1 and step not in self.done:
            self.done.add(step)
            if not self.console.is_terminal:
                seconds = time.monotonic() - self.started
                self.console.print(f"{seconds:6.1f} s  {step}", highlight=False)
        part = 0.0 if step in self.done else share
        self.bar.update(self.task, description=step, completed=len(self.done) + part)

    def of(self, side: str) -> Step:
        """The same for the steps of one of two sides."""
        return lambda step, share: self(f"{side}: {step}", share)


def said(progress: Progress) -> str:
    """Where a job stands, in a line: epoch, loss (of several runs the range), speed, time left."""
    epoch = f"epoch {progress.before + progress.epoch}/{progress.before + progress.epochs}"
    low, high = min(progress.loss.values()), max(progress.loss.values())
    loss = f"loss {low:.4f}" if len(progress.loss) == 1 else f"loss {low:.4f} to {high:.4f}"
    left = timedelta(seconds=round(progress.seconds_left))
    return f"{epoch}, {loss}, {progress.views_per_second:,.0f} views/s, {left} left"
