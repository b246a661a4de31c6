"""Mutated files of every format for every reader.

Property: a reader succeeds or ends with an error of one line; no traceback, no write, no socket,
no program, no memory beyond the stated bound. Files that break it are minimised and kept in
``torture/kept/READER/``, where the tests read them again.
"""

from __future__ import annotations

import hashlib
import random
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from resultant.cli import main as cli
from torture import KEPT
from torture.commands import Bench, Guard
from torture.mutations import mutate, replace_file
from torture.readers import READERS, features
from torture.runner import Trial
from torture.watched import Outcome, run

SECONDS = 20.0
# Memory that reading a file may take beyond the size of the file, and per byte of the file.
MEMORY, PER_BYTE = 256 << 20, 64
LINE = 2100
# Mutations that one child reads, and the line after each.
BATCH, END = 16, "END OF FILE "


class Files:
    """mutated files of every format for every reader, 10,000 in the long form"""

    def __init__(self, bench: Bench, names: tuple[str, ...] = tuple(READERS)) -> None:
        self.bench, self.readers = bench, names
        self.known: set[str] = set()

    def prepare(self) -> None:
        self.folder = self.bench.scratch / "files"
        self.folder.mkdir()

    def trials(self, rng: random.Random) -> Iterator[Trial]:
        """Files that once broke a reader and valid files, then mutations of each format in turn."""
        for name, path in kept():
            yield Trial(f"kept {path}", lambda n=name, p=path: self.broken(self.read(n, p), p))
        for name in self.readers:
            yield Trial(f"{name}, unchanged", lambda n=name: self.valid(n))
        while True:
            for name in self.readers:
                seeds = [rng.getrandbits(48) for _ in range(BATCH)]
                text = f"{name}, mutations {seeds[0]} and {BATCH - 1} more"
                yield Trial(text, lambda n=name, s=seeds: self.mutated(n, s), BATCH)
            name = rng.choice([name for name in self.readers if READERS[name].read is features])
            seed = rng.getrandbits(48)
            text = f"{name} by analyze, mutation {seed}"
            yield Trial(text, lambda n=name, s=seed: self.one_mutated(n, s, whole=True))

    def valid(self, name: str) -> str:
        path = self.fresh(name)
        end = self.read(name, path)
        return self.broken(end, path) or (end.errors if end.status else "")

    def mutated(self, name: str, seeds: list[int]) -> str:
        """Read several files in one child, and each in a child of its own if one is suspicious."""
        self.clear()
        paths = []
        for seed in seeds:
            folder = self.folder / str(seed)
            folder.mkdir()
            paths.append(self.mutation(name, seed, folder)[0])
        ends = read(READERS[name].read, paths, self.bench.scratch)
        if len(ends) == len(paths) and not any(map(self.broken, ends, paths)):
            return ""
        return "; ".join(filter(None, (self.one_mutated(name, seed) for seed in seeds)))

    def mutation(self, name: str, seed: int, folder: Path) -> tuple[Path, Path, str]:
        """Write a mutated input; return it, the changed file, and what took its place, if any."""
        rng = random.Random(seed)
        path = READERS[name].write(folder, self.bench.inputs)
        inside = [path, *folder.glob("*_labels.npy")]
        if path.is_dir():
            inside = sorted(p for p in path.rglob("*") if p.is_file())
        target = rng.choice(inside)
        how = replace_file(target, rng) if rng.random() < 0.03 else ""
        if not how:
            target.write_bytes(mutate(target.read_bytes(), rng))
        return path, target, how

    def one_mutated(self, name: str, seed: int, *, whole: bool = False) -> str:
        self.clear()
        path, target, how = self.mutation(name, seed, self.folder)
        end = self.analyzed(path) if whole else self.read(name, path)
        failure = self.broken(end, path)
        if not failure or (sign := signature(name, failure)) in self.known:
            return ""
        self.known.add(sign)
        if how:
            return f"mutation {seed}, {how} in the place of the file: {failure}"
        self.minimise(name, path, target, sign)
        return f"mutation {seed}: {failure} (kept as {keep(name, path, sign)})"

    def clear(self) -> None:
        shutil.rmtree(self.folder)
        self.folder.mkdir()

    def fresh(self, name: str) -> Path:
        self.clear()
        return READERS[name].write(self.folder, self.bench.inputs)

    def read(self, name: str, path: Path) -> Outcome:
        return read(READERS[name].read, [path], self.bench.scratch)[0]

    def analyzed(self, path: Path) -> Outcome:
        """Read a file by the command."""
        self.bench.clear()
        words = ["analyze", str(path), "--references", "none", "--out", str(self.bench.out / "a")]
        guard = Guard(self.bench.out, self.bench.temporary)
        self.guard = guard
        end = run(lambda: cli.main(words), self.bench.scratch, guard, seconds=120, memory=4 << 30)
        return with_refused(end, guard)

    def broken(self, end: Outcome, path: Path) -> str:
        size = sum(p.lstat().st_size for p in (path, *path.parent.rglob("*")) if p.is_file())
        return violation(end, min(size, 1 << 30))

    def minimise(self, name: str, path: Path, target: Path, sign: str) -> None:
        """Cut parts out of a file while the failure stays, within some seconds."""
        data, until = target.read_bytes(), time.monotonic() + SECONDS
        size = len(data) // 2
        while size:
            for start in range(0, len(data), size):
                if time.monotonic() > until:
                    size = 0
                    break
                target.write_bytes(data[:start] + data[start + size :])
                failure = self.broken(self.read(name, path), path)
                if failure and signature(name, failure) == sign:
                    data = target.read_bytes()
                    break
            else:
                size //= 2
        target.write_bytes(data)


def read(reader: Callable[[Path], object], paths: list[Path], scratch: Path) -> list[Outcome]:
    """Read files in a child that may not write, as a command would: errors become one line.

    A child that dies has fewer outcomes than files, and the last is its own.
    """
    guard = Guard()

    def command() -> int:
        status = 0
        for path in paths:
            cli.run = lambda arguments, path=path: int(reader(path) is not None and 0)
            status = cli.main([])
            sys.stderr.write(f"{END}{status}\n")
        return status

    end = run(command, scratch, guard, seconds=SECONDS, memory=4 << 30)
    *parts, rest = re.split(rf"{END}(\d+)\n", end.errors)
    outcomes = [
        end._replace(errors=errors, status=int(status), timed_out=False)
        for errors, status in zip(parts[::2], parts[1::2], strict=True)
    ]
    if len(outcomes) < len(paths):
        outcomes.append(end._replace(errors=rest))
    else:
        outcomes[-1] = end._replace(errors=outcomes[-1].errors + rest)
    return [with_refused(outcome, guard) for outcome in outcomes]


def with_refused(end: Outcome, guard: Guard) -> Outcome:
    """Name calls that were refused."""
    lines = "".join(f"REFUSED {call}\n" for call in guard.refused)
    return end._replace(errors=end.errors + lines)


def violation(end: Outcome, size: int) -> str:
    """Return the broken property, or an empty text."""
    lines = end.errors.splitlines()
    if end.traceback:
        return f"traceback: {' | '.join(lines[-4:])[-600:]}"
    if end.timed_out:
        return f"takes more than {SECONDS:g} s"
    if end.status < 0:
        return f"ends with signal {-end.status}"
    if refused := [line for line in lines if line.startswith("REFUSED")]:
        return f"does what it may not do: {refused[0]}"
    complaint = [line for line in lines if line.startswith("resultant: ")]
    if end.status and len(complaint) != 1:
        return f"status {end.status} with {len(complaint)} lines: {end.errors[-300:]!r}"
    if any(len(line) > LINE for line in lines):
        return f"a line of {max(map(len, lines)):,} characters"
    if re.search(r"[\x00-\x08\x0b-\x1f\x7f]", end.errors):
        return f"control characters on the terminal: {end.errors[-200:]!r}"
    if end.memory > MEMORY + PER_BYTE * size:
        return f"takes {end.memory >> 20} MiB of memory for a file of {size:,} bytes"
    return ""


def signature(name: str, failure: str) -> str:
    """A text that is the same for failures with one cause."""
    places = re.findall(r'File "[^"]*?([^/"]+)", line (\d+)', failure)
    kind = re.sub(r"0x\w+|\d+|'[^']*'|/\S+", "#", failure)
    return f"{name} {places or kind[:60]}"


def keep(name: str, path: Path, sign: str) -> str:
    """Keep an input with the regressions; return its place."""
    folder = KEPT / name.replace(" ", "-") / hashlib.sha256(sign.encode()).hexdigest()[:8]
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    source = path.parent
    size = sum(p.stat().st_size for p in source.rglob("*") if p.is_file() and not p.is_symlink())
    if size > 1 << 20:
        return f"nothing, {size:,} bytes are too many"
    shutil.copytree(source, folder)
    return str(folder.relative_to(KEPT.parent.parent))


def kept() -> list[tuple[str, Path]]:
    """Return the reader and the input of every regression."""
    found = []
    for folder in sorted(KEPT.glob("*/*")):
        name = folder.parent.name.replace("-", " ")
        inputs = [p for p in folder.iterdir() if not p.name.endswith("_labels.npy")]
        first = next((p for p in inputs if p.suffix == ".txt"), inputs[0])
        found.append((name, first))
    return found
