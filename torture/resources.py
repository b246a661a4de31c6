"""Machines that fail: full disks, little memory, read-only folders, clocks, signals, neighbours.

Property: a command ends with status 0 or with one line and no traceback, and the same command,
given again on a healthy machine, ends with the results of an undisturbed run.
"""

from __future__ import annotations

import errno
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from torture import ROOT
from torture.commands import COMMANDS, Bench
from torture.runner import Trial
from torture.watched import NEEDS_SPACE, Call, Outcome, Watcher

TORN = re.compile(r"^(\s+at |\s*File \"|\*\*\* SIG|Traceback)", re.MULTILINE)
STATUS = {signal.SIGTERM: 143, signal.SIGINT: 130}
TRAININGS = ("train", "train-images")


class Resources:
    """full disks, little memory, read-only folders, clocks, signals, neighbours, lost workers"""

    def __init__(
        self,
        bench: Bench,
        names: tuple[str, ...] = tuple(COMMANDS),
        *,
        programs: bool = True,
        together: int = 10,
    ) -> None:
        self.bench, self.commands, self.programs = bench, names, programs
        self.together = together
        self.expected: dict[str, dict[str, str]] = {}
        self.seconds: dict[str, float] = {}
        self.writes: dict[str, int] = {}

    def prepare(self) -> None:
        for name in self.commands:
            self.bench.clear()
            number = 0

            def count(call: Call) -> int:
                nonlocal number
                number += self.needs_space(call)
                return 0

            end = self.bench.run(name, count)
            if end.status:
                raise RuntimeError(f"expected {name} to work undisturbed, got: {end.errors}")
            self.expected[name], self.seconds[name] = self.bench.results(), end.seconds
            self.writes[name] = number

    def trials(self, rng: random.Random) -> Iterator[Trial]:
        """Every fault of every command once, a full disk at every write, then all at random."""
        every = [(name, k) for name in self.commands for k in range(self.writes[name])]
        faults = (self.memory, self.read_only, self.clock, self.stopped, self.ended, self.many)
        once = [fault(name, rng) for name in self.commands for fault in faults]
        if self.programs:
            once.append(Trial("a rank of two dies", lambda: self.rank_dies(rng.uniform(0, 3))))
        if self.programs and find_spec("ray"):
            once.append(Trial("a task of Ray dies", self.task_dies))
            once.append(Trial("SIGTERM with Ray", self.ray_terminated))
        if "train-images" in self.commands:
            once.append(Trial("a process that decodes images dies", self.worker_dies))
        trainings = sorted(set(TRAININGS).intersection(self.commands))
        once += [self.diverged(name, k) for name in trainings for k in range(2)]
        yield from self.bench.shared(once)
        writes = self.bench.shared(every)
        for name, k in rng.sample(writes, len(writes)):
            yield self.full(name, k)
        while True:
            yield rng.choice(faults)(rng.choice(self.commands), rng)

    def full(self, name: str, k: int) -> Trial:
        number = 0

        def watch(call: Call) -> int:
            nonlocal number
            if self.needs_space(call):
                number += 1
            return errno.ENOSPC if number > k and self.needs_space(call) else 0

        text = f"{name}: a disk that is full from write {k} on"
        return Trial(text, lambda: self.disturbed(name, watch, {1, 2}))

    def needs_space(self, call: Call) -> bool:
        folders = str(self.bench.out), str(self.bench.temporary)
        return call.name in NEEDS_SPACE and call.paths[-1].startswith(folders)

    def read_only(self, name: str, rng: random.Random) -> Trial:
        number = rng.choice((errno.EROFS, errno.EACCES))

        def watch(call: Call) -> int:
            return number if call.paths[-1].startswith(str(self.bench.out)) else 0

        text = f"{name}: a folder that gives {errno.errorcode[number]}"
        return Trial(text, lambda: self.disturbed(name, watch, {1, 2}))

    def memory(self, name: str, rng: random.Random) -> Trial:
        size = int(2 ** rng.uniform(20, 30))
        text = f"{name}: {size >> 20} MiB of memory"
        return Trial(text, lambda: self.disturbed(name, statuses={0, 1, 2}, memory=size))

    def clock(self, name: str, rng: random.Random) -> Trial:
        seed = rng.getrandbits(32)
        true = time.time

        def run() -> str:
            jumps = random.Random(seed)
            # In the child: a clock that jumps by years, forwards and backwards.
            time.time = lambda: true() + jumps.choice((-1, 1)) * jumps.uniform(0, 10**8)
            try:
                return self.disturbed(name, statuses={0})
            finally:
                time.time = true

        return Trial(f"{name}: a clock that jumps", run)

    def stopped(self, name: str, rng: random.Random) -> Trial:
        moments = sorted(rng.uniform(0, self.seconds[name]) for _ in range(3))
        pair = (0, signal.SIGSTOP), (0.05, signal.SIGCONT)
        signals = [(moment + delay, number) for moment in moments for delay, number in pair]
        return self.signalled(f"{name}: stopped and continued", name, signals, {0})

    def ended(self, name: str, rng: random.Random) -> Trial:
        number = rng.choice((signal.SIGTERM, signal.SIGINT))
        moment = rng.uniform(0, 1.1 * self.seconds[name])
        text = f"{name}: {number.name} after {moment:.2f} s"
        return self.signalled(text, name, [(moment, number)], {0, STATUS[number]})

    def signalled(
        self, text: str, name: str, signals: list[tuple[float, signal.Signals]], statuses: set[int]
    ) -> Trial:
        def start(child: int) -> None:
            def send() -> None:
                begun = time.monotonic()
                for moment, number in signals:
                    time.sleep(max(0, begun + moment - time.monotonic()))
                    with suppress(ProcessLookupError):
                        os.kill(child, number)

            threading.Thread(target=send, daemon=True).start()

        return Trial(text, lambda: self.disturbed(name, statuses=statuses, start=start))

    def many(self, name: str, rng: random.Random) -> Trial:
        return Trial(f"{name}: {self.together} at once", lambda: self.at_once(name))

    def at_once(self, name: str) -> str:
        self.bench.clear()
        children = []
        for i in range(self.together):
            folder = self.bench.scratch / f"one-{i}"
            folder.mkdir(exist_ok=True)
            child = os.fork()
            if child == 0:
                for number in (1, 2):
                    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
                    os.dup2(os.open(folder / str(number), flags), number)
                sys.stdout, sys.stderr = (os.fdopen(n, "w") for n in (1, 2))
                status = 70
                with suppress(BaseException):
                    status = self.bench._run(name)
                sys.stderr.flush()
                os._exit(status)
            children.append((child, folder / "2"))
        ends = [(os.waitpid(c, 0)[1], path.read_text(errors="replace")) for c, path in children]
        statuses = [os.waitstatus_to_exitcode(status) for status, _ in ends]
        for status, errors in zip(statuses, (e for _, e in ends), strict=True):
            if status not in (0, 2) or TORN.search(errors):
                return f"status {status}: {errors[-400:]}"
        if 0 not in statuses:
            return f"none of them succeeds: {ends[0][1][-300:]}"
        return self.again(name)

    def worker_dies(self) -> str:
        """Kill the process that decodes images, at its first image."""
        from resultant.images import decoding, store

        tasks, decode = store.tasks, decoding.Decoding.__getitems__

        def die(self: decoding.Decoding, rows: list[int]) -> None:
            os.kill(os.getpid(), signal.SIGKILL)

        def cure() -> None:
            store.tasks = tasks
            decoding.Decoding.__getitems__ = decode  # type: ignore[method-assign]

        store.tasks = lambda dataset, rows, number, workers: tasks(dataset, rows, number, 1)
        decoding.Decoding.__getitems__ = die  # type: ignore[method-assign,assignment]
        try:
            return self.disturbed("train-images", statuses={1}, cured=cure)
        finally:
            cure()

    def diverged(self, name: str, k: int) -> Trial:
        def run() -> str:
            from resultant.training import stack

            original, steps = stack.Stack.step, 0

            def step(self: stack.Stack, *arguments: object, **options: object) -> object:
                nonlocal steps
                result = original(self, *arguments, **options)  # type: ignore[arg-type]
                if steps == k:
                    next(iter(self.tensors().values())).fill_(float("nan"))
                steps += 1
                return result

            stack.Stack.step = step  # type: ignore[method-assign]
            try:
                cure = partial(setattr, stack.Stack, "step", original)
                return self.disturbed(name, statuses={2}, cured=cure)
            finally:
                stack.Stack.step = original

        return Trial(f"{name}: NaN in step {k}", run)

    def disturbed(
        self,
        name: str,
        watcher: Watcher = lambda call: 0,
        statuses: set[int] = frozenset({0}),  # type: ignore[assignment]
        cured: Callable[[], None] = lambda: None,
        memory: int | None = None,
        start: Callable[[int], None] = lambda child: None,
    ) -> str:
        """Run a command on a failing machine, then again on a healthy one."""
        self.bench.clear()
        end = self.bench.run(name, watcher, memory=memory, start=start)
        cured()
        return problem(end, statuses) or self.again(name)

    def again(self, name: str) -> str:
        end = self.bench.run(name)
        if end.status:
            return f"given again, status {end.status}: {end.errors[-400:]}"
        results, expected = self.bench.results(), self.expected[name]
        if results != expected:
            every = sorted({*results, *expected})
            changed = [path for path in every if results.get(path) != expected.get(path)]
            return f"given again, other results: {changed}"
        left = self.bench.leftovers()
        return f"given again, leaves {left}" if left else ""

    def rank_dies(self, moment: float) -> str:
        """Kill one of two processes of torchrun; the other ends, and the same call resumes."""
        self.bench.clear()
        status, errors = self.two_ranks()
        if status:
            return f"undisturbed, status {status}: {errors[-400:]}"
        expected = self.bench.results()
        self.bench.clear()
        status, errors = self.two_ranks(moment)
        said = [line for line in errors.splitlines() if "resultant: " in line]
        # The launcher has a traceback of its own.
        if status == 0 or len(said) > 1 or re.search(r'File ".*/resultant/', errors):
            return f"status {status} after a rank was killed: {errors[-1500:]}"
        status, errors = self.two_ranks()
        if status:
            return f"given again, status {status}: {errors[-400:]}"
        return "" if self.bench.results() == expected else "given again, other results"

    def two_ranks(self, moment: float | None = None) -> tuple[int, str]:
        words = COMMANDS["train-images"].arguments(self.bench.inputs, self.bench.out)
        program = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
        program += ["-m", "resultant", *words, "--epochs", "6"]
        job = self.program(program)
        if moment is not None:
            self.kill_rank(job.pid, moment)
        _, errors = job.communicate(timeout=600)
        return job.returncode, errors

    def program(self, words: list[str]) -> subprocess.Popen[str]:
        paths = f"{ROOT / 'src'}:{ROOT}:{os.environ.get('PYTHONPATH', '')}"
        environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
        nothing, pipe = subprocess.DEVNULL, subprocess.PIPE
        return subprocess.Popen(words, env=environment, stdout=nothing, stderr=pipe, text=True)

    def kill_rank(self, launcher: int, moment: float) -> None:
        """Kill a process of the launcher some seconds after training has begun."""
        checkpoint = self.bench.out / "train"
        until = time.monotonic() + 120
        while not any(checkpoint.rglob("metrics.jsonl")) and time.monotonic() < until:
            time.sleep(0.1)
        time.sleep(moment / 10)
        children = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
        if children:
            os.kill(int(children[-1]), signal.SIGKILL)

    def task_dies(self) -> str:
        """Kill two workers of Ray; the analysis ends with a result or one message."""
        job, killed = self.on_ray(), 0
        while job.poll() is None and killed < 2:
            for worker in ray_workers(job.pid)[:1]:
                with suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGKILL)
                    killed += 1
            time.sleep(0.2)
        return self.end_on_ray(job, {0, 1, 2})

    def ray_terminated(self) -> str:
        """Send SIGTERM while the workers of Ray work."""
        job = self.on_ray()
        while job.poll() is None and not ray_workers(job.pid):
            time.sleep(0.2)
        job.terminate()
        return self.end_on_ray(job, {143})

    def on_ray(self) -> subprocess.Popen[str]:
        import pyarrow.parquet as pq

        from torture.readers import feature_table

        self.bench.clear()
        pq.write_table(feature_table(), self.bench.scratch / "train-0.parquet")
        words = ["analyze", str(self.bench.scratch / "*.parquet"), "--engine", "ray"]
        words += ["--out", str(self.bench.out / "report")]
        return self.program([sys.executable, "-m", "resultant", *words])

    def end_on_ray(self, job: subprocess.Popen[str], statuses: set[int]) -> str:
        _, errors = job.communicate(timeout=600)
        said = [line for line in errors.splitlines() if line.startswith("resultant: ")]
        right = job.returncode in statuses and len(said) == bool(job.returncode)
        torn = TORN.search(errors)
        return "" if right and not torn else f"status {job.returncode}: {errors[-800:]}"


def ray_workers(ancestor: int) -> list[int]:
    """Return the workers of Ray below a process that have work."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            name = (folder / "cmdline").read_text()
            if name.startswith("ray::") and "IDLE" not in name:
                found.append(int(folder.name))
    return [process for process in found if descends(process, ancestor)]


def descends(process: int, ancestor: int) -> bool:
    """Return True if a process was started below another."""
    while process > 1:
        if process == ancestor:
            return True
        try:
            process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return False
    return False


def problem(end: Outcome, statuses: set[int]) -> str:
    """Return what is wrong with the end of a disturbed command, or an empty text."""
    if end.timed_out:
        return "does not end"
    if end.status not in statuses or TORN.search(end.errors):
        return f"status {end.status}: {end.errors[-600:]}"
    said = [line for line in end.errors.splitlines() if line.startswith("resultant: ")]
    if end.status and len(said) != 1:
        return f"status {end.status} with {len(said)} lines: {end.errors[-300:]}"
    return ""
