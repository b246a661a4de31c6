"""Every file operation of every command as a crash point: kill -9 and power failures.

A crash before operation k leaves the state of the disk at that moment. One run of a command gives
the states of all its operations, and every state that is different is restarted once; after that
children are killed at random operations, several times in a row.

Property: the same command, given again, ends with status 0, leaves no temporary files, and its
results are those of a run without a crash. A result that was reported as done survives.
"""

from __future__ import annotations

import hashlib
import random
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from torture.commands import COMMANDS, Bench
from torture.disk import Disk
from torture.runner import Trial
from torture.watched import Call, Kill, Outcome

KILL, LOST, KEPT = "kill -9", "power failure, names lost", "power failure, names kept"
FAILURES = KILL, LOST, KEPT
END = "the end"
# Commands whose outputs are complete or absent at any moment.
ATOMIC = ("analyze", "compare", "probe", "import-proco", "extract")
RANDOM_NAMES = re.compile(r"\d+-[a-z0-9_]{8}\.tmp|tmp[A-Za-z0-9_]{6,8}")


class Crashes:
    """kill -9 and power failures at every file operation, then at random"""

    def __init__(self, bench: Bench, names: tuple[str, ...] = tuple(COMMANDS)) -> None:
        self.bench, self.commands = bench, names
        self.states = bench.scratch / "states"
        self.expected: dict[str, dict[str, str]] = {}
        self.points: dict[str, int] = {}
        self.seconds: dict[str, float] = {}
        # States of the disk that differ: command, text and number of crash points.
        self.crashed: dict[Path, tuple[str, str, int]] = {}

    def prepare(self) -> None:
        self.states.mkdir()
        for name in self.commands:
            self.bench.clear()
            self.record(name, Disk(self.bench.out))

    def record(self, name: str, disk: Disk) -> None:
        """Run a command and keep the states of the disk before its operations."""
        k, known = 0, {}

        def watch(call: Call) -> int:
            nonlocal k
            if self.concerned(call):
                for failure in FAILURES:
                    self.keep(name, failure, f"operation {k}, {call.text}", disk, known)
                disk(call)
                k += 1
            return 0

        end = self.bench.run(name, watch)
        if end.status:
            raise RuntimeError(f"expected {name} to work without a crash, got: {end.errors}")
        self.expected[name], self.points[name] = self.bench.results(), k
        self.seconds[name] = end.seconds
        for failure in (LOST, KEPT):
            self.keep(name, failure, END, disk, known)
        disk.close()

    def keep(self, name: str, failure: str, where: str, disk: Disk, known: dict[str, Path]) -> None:
        """Keep the state of the disk after a crash, unless it is known."""
        state = self.states / f"{name}-{len(self.crashed)}"
        if failure == KILL:
            shutil.copytree(self.bench.out, state)
        else:
            disk.survivors(state, names_survive=failure == KEPT)
        digest = fingerprint(state)
        if digest in known and where != END:
            shutil.rmtree(state)
            state = known[digest]
            name, text, number = self.crashed[state]
            self.crashed[state] = name, text, number + 1
        else:
            known[digest] = state
            self.crashed[state] = name, f"{failure} before {where}", 1

    def concerned(self, call: Call) -> bool:
        """Return True for a call on an output."""
        return any(path.startswith(str(self.bench.out)) for path in call.paths)

    def trials(self, rng: random.Random) -> Iterator[Trial]:
        """All states once, then kills at random, of quick commands more often."""
        states = self.bench.shared(list(self.crashed))
        for state in rng.sample(states, len(states)):
            name, text, number = self.crashed[state]
            yield Trial(f"{name}: {text}", lambda s=state: self.restart(s), number)
        weights = [1 / self.seconds[name] for name in self.commands]
        while True:
            (name,) = rng.choices(self.commands, weights)
            number = self.points[name]
            faults = [
                (rng.choice(FAILURES), rng.randrange(number)) for _ in range(rng.randint(1, 3))
            ]
            over = rng.random() < 0.3
            text = ", then ".join(f"{failure} before operation {k}" for failure, k in faults)
            yield Trial(
                f"{name}: {text}{' over earlier results' * over}",
                lambda n=name, f=faults, o=over: self.crash(n, f, over=o),
                len(faults),
            )

    def restart(self, state: Path) -> str:
        """Give the command again after a crash."""
        name, text, _ = self.crashed[state]
        self.bench.clear()
        shutil.rmtree(self.bench.out)
        shutil.copytree(state, self.bench.out)
        if text.endswith(END) and self.bench.results() != self.expected[name]:
            return f"results that were reported as done are lost: {self.difference(name)}"
        return self.incomplete(name) or self.again(name, killed=text.startswith(KILL))

    def crash(self, name: str, faults: list[tuple[str, int]], *, over: bool) -> str:
        """Crash several times in a row."""
        bench = self.bench
        bench.clear()
        if over:
            bench.run(name)
        for failure, k in faults:
            disk = Disk(bench.out)
            end, done = self.killed(name, k, disk)
            if done and (end.status or bench.results() != self.expected[name]):
                return f"status {end.status}, changed {self.difference(name)}: {end.errors[-300:]}"
            if failure == KILL:
                disk.close()
            else:
                disk.fail(names_survive=failure == KEPT)
                if done and bench.results() != self.expected[name]:
                    return f"{failure} after the end loses {self.difference(name)}"
        killed = all(failure == KILL for failure, _ in faults)
        return self.incomplete(name) or self.again(name, killed=killed)

    def killed(self, name: str, k: int, disk: Disk) -> tuple[Outcome, bool]:
        """Run a command and kill it before operation k; True if it ended before."""
        seen = 0

        def watch(call: Call) -> int:
            nonlocal seen
            if self.concerned(call):
                if seen == k:
                    seen += 1
                    raise Kill
                seen += 1
                disk(call)
            return 0

        return self.bench.run(name, watch), seen <= k

    def incomplete(self, name: str) -> str:
        partial = self.bench.results()
        if name in ATOMIC and partial and partial != self.expected[name]:
            return f"outputs are incomplete: {self.difference(name)}"
        return ""

    def again(self, name: str, *, killed: bool) -> str:
        end = self.bench.run(name)
        if end.status or end.traceback:
            return f"given again, status {end.status}: {end.errors[-500:]}"
        if self.bench.results() != self.expected[name]:
            return f"given again, other results: {self.difference(name)}"
        # A power failure may undo the removal of temporary files.
        left = self.bench.leftovers() if killed else []
        return f"given again, leaves {left}" if left else ""

    def difference(self, name: str) -> list[str]:
        results, expected = self.bench.results(), self.expected[name]
        every = sorted({*results, *expected})
        return [path for path in every if results.get(path) != expected.get(path)]


def fingerprint(folder: Path) -> str:
    """A text that is the same for folders that differ in random names alone."""
    lines = []
    for path in folder.rglob("*"):
        name = RANDOM_NAMES.sub("*", str(path.relative_to(folder)))
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        lines.append(f"{name} {content}")
    return "\n".join(sorted(lines))
