"""Mutated files of every format for every reader.

Property: a reader returns, or raises an error that a command reports in one line; it executes
nothing, writes nothing, and takes neither a minute of the processor nor 8 GiB of addresses. Files
that break it are kept in ``torture/kept/READER/``.
"""

import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from resultant.cli.main import message_of
from torture import KEPT, ROOT
from torture.mutations import EXECUTED, mutate, replace_file
from torture.readers import READERS, write_inputs

SECONDS, ADDRESSES, LINE = 60, 8 << 30, 2100
# Seconds on the clock after which a child is taken to wait for ever.
HANGS = 900
# Mutations that one child reads.
BATCH = 64
# Errors that a command reports in one line.
REPORTED = (ValueError, OSError, MemoryError)


def trials(folder: Path, rng: random.Random) -> Iterator[tuple[str, str]]:
    """Read what once broke a reader, then valid files, then mutations of each format in turn."""
    inputs = write_inputs(folder / "inputs")
    for reader in READERS.values():
        # Raises if a valid input is refused: its mutations would all be, before they are read.
        reader.read(inputs / reader.input)
    for name, path in kept():
        yield f"kept {path}", read([(name, path)])[0]
    while True:
        for name, reader in READERS.items():
            batch = folder / "batch"
            batch.mkdir()
            seeds: list[int | None] = [None, *(rng.getrandbits(48) for _ in range(BATCH - 1))]
            paths = []
            for i, seed in enumerate(seeds):
                own = batch / str(i)
                own.mkdir()
                paths.append(reader.write(own, inputs))
                if seed is not None:
                    change(paths[-1], random.Random(seed))
            before = listing(batch)
            failures = read([(name, path) for path in paths])
            if listing(batch) != before or EXECUTED.exists():
                failures.append("a reader has written, or has executed a pickle")
            for seed, path, failure in zip(seeds, paths, failures, strict=False):
                where = f" (kept in {keep(name, path)})" if failure else ""
                text = f"{name}, {'unchanged' if seed is None else f'mutation {seed}'}"
                yield text, failure + where
            shutil.rmtree(batch)


def change(path: Path, rng: random.Random) -> None:
    """Mutate one file of an input."""
    inside = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    target = rng.choice([*inside, *path.parent.glob("*_labels.npy")])
    if rng.random() < 0.03:
        replace_file(target, rng)
    else:
        target.write_bytes(mutate(target.read_bytes(), rng))


def listing(folder: Path) -> list[tuple[str, int]]:
    return sorted((str(path), path.lstat().st_size) for path in folder.rglob("*"))


def read(inputs: list[tuple[str, Path]]) -> list[str]:
    """Read files in a child, each by its reader; return the failures, or empty texts."""
    words = (str(word) for pair in inputs for word in pair)
    command = [sys.executable, "-m", "torture.files", *words]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    child = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    watch = threading.Timer(HANGS, child.kill)
    watch.start()
    output, errors = child.communicate()
    watch.cancel()
    failures = [json.loads(line)["failure"] for line in output.splitlines() if line[:1] == "{"]
    if len(failures) < len(inputs):
        last = errors.strip().splitlines()[-1:] or [""]
        failures.append(f"the process ends with {child.returncode}: {last[0][:300]}")
        failures += read(inputs[len(failures) :]) if len(failures) < len(inputs) else []
    return failures


def read_here(words: list[str]) -> None:
    """Read files in this process, each by the reader named before it; print a line of JSON for
    each."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    signal.signal(signal.SIGPROF, timed_out)
    for name, path in zip(words[::2], words[1::2], strict=True):
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            READERS[name].read(Path(path))
            failure = ""
        except REPORTED as error:
            text = message_of(error)
            failure = "" if len(text) < LINE else f"an error of {len(text):,} characters"
            if re.search(r"[\x00-\x08\x0b-\x1f\x7f]", text):
                failure = f"control characters in an error: {text[:200]!r}"
        except Exception as error:
            failure = f"{type(error).__name__}: {str(error)[:300]!r}"
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(json.dumps({"failure": failure}), flush=True)


def timed_out(number: int, frame: object) -> None:
    raise RuntimeError(f"expected an end within {SECONDS} s of the processor")


def keep(name: str, path: Path) -> str:
    """Keep an input with the regressions, if it is of plain and small files; return its place."""
    files = [p for p in path.parent.rglob("*") if not p.is_dir()]
    if any(p.is_symlink() or not p.is_file() or p.stat().st_size > 1 << 20 for p in files):
        return "nothing: no plain or small file"
    folder = KEPT / name.replace(" ", "-") / f"{random.randrange(16**8):08x}"
    shutil.copytree(path.parent, folder)
    return str(folder.relative_to(ROOT))


def kept() -> list[tuple[str, Path]]:
    """Return the reader and the input of every regression."""
    found = []
    for folder in sorted(KEPT.glob("*/*")):
        inputs = [p for p in folder.iterdir() if not p.name.endswith("_labels.npy")]
        first = next((p for p in inputs if p.suffix == ".txt"), inputs[0])
        found.append((folder.parent.name.replace("-", " "), first))
    return found


if __name__ == "__main__":
    read_here(sys.argv[1:])
