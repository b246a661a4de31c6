"""``python -m torture``: run all kinds for a time and print one report."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

# Before torch is loaded: a process with one thread can be forked.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["CUDA_VISIBLE_DEVICES"] = ""

from torture import commands
from torture.crashes import Crashes
from torture.files import Files
from torture.numbers import Numbers
from torture.resources import Resources
from torture.runner import Kind, torment
from torture.soak import Soak
from torture.watched import supported

Make = Callable[..., Kind]
KINDS: dict[str, Make] = {
    "files": Files,
    "crashes": Crashes,
    "resources": Resources,
    "numbers": Numbers,
    "soak": Soak,
}
# Of the short form: the number of trials, and a command that takes a moment.
TRIALS = {"files": 48, "crashes": 9, "resources": 8, "numbers": 5, "soak": 4}
QUICK = ("import-proco",)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m torture", description=__doc__)
    kinds = "; ".join(f"{name}: {(kind.__doc__ or '').strip()}" for name, kind in KINDS.items())
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"all by default. {kinds}")
    duration = parser.add_mutually_exclusive_group()
    duration.add_argument("--minutes", type=float, default=5, help="for all kinds together")
    duration.add_argument("--hours", type=float)
    duration.add_argument("--short", action="store_true", help="a few trials of each")
    duration.add_argument("--trials", type=int, help="of every kind, instead of a time")
    parser.add_argument("--seed", type=int, help="of all choices; random by default")
    parser.add_argument("--part", default="0/1", help="I/N: this process, of N with other parts")
    parser.add_argument("--log", type=Path, help="folder for all trials and the use of memory")
    options = parser.parse_args()
    if unknown := set(options.kinds) - set(KINDS):
        parser.error(f"expected kinds among {', '.join(KINDS)}, got {', '.join(sorted(unknown))}")
    if not supported():
        parser.error("expected Linux on x86-64 or ARM64, whose kernel can watch a process")
    if options.log:
        options.log.mkdir(parents=True, exist_ok=True)
    chosen = options.kinds or list(KINDS)
    minutes = 60 * options.hours if options.hours else options.minutes
    part, parts = map(int, options.part.split("/"))
    seed = part + (int(time.time()) if options.seed is None else options.seed)
    say = partial(print, flush=True)
    length = f"{options.trials:,} trials" if options.trials else f"{minutes:g} minutes"
    length = "short form" if options.short else length
    say(f"seed {seed}, {length}: {', '.join(chosen)}")
    commands.warm(commands.SHORT if options.short else commands.LOADED)
    tallies = []
    with tempfile.TemporaryDirectory(prefix="torture-") as folder:
        inputs = Path(folder, "inputs")
        inputs.mkdir()
        commands.write_inputs(inputs)
        for name in chosen:
            bench = commands.Bench(Path(folder, name), inputs, options.log, (part, parts))
            kind = short_form(name, bench) if options.short else KINDS[name](bench)
            seconds = float("inf") if options.trials else 60 * minutes / len(chosen)
            trials = TRIALS[name] if options.short else options.trials or float("inf")
            log = options.log and options.log / f"{name}-{seed}.log"
            tally = torment(name, kind, seed, seconds=seconds, trials=trials, say=say, log=log)
            say(tally.line())
            tallies.append(tally)
    return int(any(tally.failures for tally in tallies))


def short_form(name: str, bench: commands.Bench) -> Kind:
    if name == "resources":
        return Resources(bench, QUICK, programs=False, together=3)
    return KINDS[name](bench) if name in ("files", "numbers") else KINDS[name](bench, QUICK)


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    # Without the farewells of libraries, which would hide the report.
    os._exit(status)
