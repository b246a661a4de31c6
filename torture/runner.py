"""Trials of every kind within a time, and one report."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol


class Trial(NamedTuple):
    """One attempt: what is done, and a function that returns the failure, or an empty text."""

    text: str
    run: Callable[[], str]
    number: int = 1


class Kind(Protocol):
    """One kind of torture; the docstring of a kind is its line in the help."""

    def prepare(self) -> None:
        """Make what all trials share."""

    def trials(self, rng: random.Random) -> Iterator[Trial]:
        """Yield trials without an end."""
        ...


@dataclass
class Tally:
    """The result of a kind: trials, failures and the seconds they took."""

    name: str
    seed: int
    count: int = 0
    seconds: float = 0.0
    failures: list[str] = field(default_factory=list)

    def line(self) -> str:
        number = f"{len(self.failures)} failures" if self.failures else "no failure"
        trials = f"{self.count:,} trials in {self.seconds:.0f} s, seed {self.seed}"
        return f"{self.name}: {trials}: {number}"


def torment(
    name: str,
    kind: Kind,
    seed: int,
    *,
    seconds: float = float("inf"),
    trials: float = float("inf"),
    say: Callable[[str], None] = lambda text: None,
    log: Path | None = None,
) -> Tally:
    """Run the trials of a kind until the time or their number is reached.

    Args:
        name: Name of the kind.
        kind: The kind.
        seed: Seed of all random choices.
        seconds: Time after which no trial begins.
        trials: Number of trials.
        say: Called with every failure.
        log: File that gets a line per trial: number of trials, seconds, text, failure.
    """
    begun, tally = time.monotonic(), Tally(name, seed)
    kind.prepare()
    for number, trial in enumerate(kind.trials(random.Random(seed)), start=1):
        failure = trial.run()
        tally.count += trial.number
        tally.seconds = time.monotonic() - begun
        if log:
            with log.open("a") as file:
                file.write(f"{trial.number}\t{tally.seconds:.1f}\t{trial.text}\t{failure!r}\n")
        if failure:
            tally.failures.append(f"{trial.text}: {failure}")
            say(f"FAILED {name} trial {number} of seed {seed}: {tally.failures[-1]}")
        if tally.seconds > seconds or number >= trials:
            break
    return tally
