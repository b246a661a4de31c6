"""Small commands again and again in one process: nothing may grow.

Property: memory, open files, threads and temporary space after many rounds are those after the
first rounds. All of them are written to ``soak.csv`` after every round.
"""

from __future__ import annotations

import ctypes
import gc
import io
import os
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

from torture.commands import COMMANDS, Bench
from torture.runner import Trial

ROUND = ("train", "extract", "analyze", "compare")
# Rounds before anything is measured: caches fill.
WARM = 3
# Bytes of memory that one round may add on average; one leaked matrix of features is more.
GROWTH = 128 << 10
# Memory of the allocator's pieces, before an average means anything.
NOISE = 24 << 20


class Usage(NamedTuple):
    """Resources of this process."""

    memory: int  # bytes
    files: int
    threads: int  # of all libraries
    temporary: int  # bytes of temporary files, folders included


class Soak:
    """train, extract, analyze and compare again and again in one process"""

    def __init__(self, bench: Bench, names: tuple[str, ...] = ROUND) -> None:
        self.bench, self.commands = bench, names
        self.first: Usage | None = None
        self.rounds = 0
        self.begun = time.monotonic()
        self.log = bench.log / "soak.csv"

    def prepare(self) -> None:
        self.before = tempfile.tempdir
        tempfile.tempdir = str(self.bench.temporary)
        self.log.write_text(f"seconds,round,{','.join(Usage._fields)}\n")

    def trials(self, rng: random.Random) -> Iterator[Trial]:
        try:
            while True:
                yield Trial(f"round {self.rounds}", self.round)
        finally:
            tempfile.tempdir = self.before

    def round(self) -> str:
        self.rounds += 1
        for name in self.commands:
            said = io.StringIO()
            with redirect_stdout(said), redirect_stderr(said):
                status = COMMANDS[name].run(self.bench.inputs, self.bench.out)
            if status:
                return f"{name}: status {status}: {said.getvalue()[-300:]}"
        usage = self.usage()
        with open(self.log, "a") as file:
            row = round(time.monotonic() - self.begun), self.rounds, *usage
            file.write(",".join(map(str, row)) + "\n")
        # Every other round finds the results of the one before.
        if self.rounds % 2 == 0:
            self.bench.clear()
        if self.rounds == WARM:
            self.first = usage
        return "" if self.first is None else self.grown(self.first, usage)

    def grown(self, first: Usage, now: Usage) -> str:
        allowed = NOISE + GROWTH * (self.rounds - WARM)
        if now.memory - first.memory > allowed:
            return f"memory grew by {now.memory - first.memory >> 20} MiB in {self.rounds} rounds"
        for name in ("files", "threads", "temporary"):
            if getattr(now, name) > getattr(first, name):
                return f"{name} grew from {getattr(first, name)} to {getattr(now, name)}"
        return ""

    def usage(self) -> Usage:
        gc.unfreeze()
        gc.collect()
        # Memory that is free goes back to the system first.
        ctypes.CDLL(None).malloc_trim(0)
        lines = Path("/proc/self/status").read_text().splitlines()
        memory = next(1024 * int(line.split()[1]) for line in lines if line.startswith("RssAnon"))
        files = len(os.listdir("/proc/self/fd"))
        threads = len(os.listdir("/proc/self/task"))
        left = (*self.bench.temporary.rglob("*"), *map(Path, self.bench.leftovers()))
        return Usage(memory, files, threads, sum(4096 + path.lstat().st_size for path in left))
