"""``python -m torture``: run all kinds for a time and print one report."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

# Before torch is loaded: a process with one thread can be forked.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["CUDA_VISIBLE_DEVICES"] = ""

from torture import commands
from torture.crashes import Crashes
from torture.runner import Kind, torment
from torture.watched import supported

KINDS: dict[str, Callable[[commands.Bench], Kind]] = {"crashes": Crashes}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m torture", description=__doc__)
    kinds = "; ".join(f"{name}: {(kind.__doc__ or '').strip()}" for name, kind in KINDS.items())
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"all by default. {kinds}")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--minutes", type=float, default=5, help="for all kinds together")
    length.add_argument("--hours", type=float)
    parser.add_argument("--seed", type=int, help="of all choices; random by default")
    options = parser.parse_args()
    if unknown := set(options.kinds) - set(KINDS):
        parser.error(f"expected kinds among {', '.join(KINDS)}, got {', '.join(sorted(unknown))}")
    if not supported():
        parser.error("expected Linux on x86-64 or ARM64, whose kernel can watch a process")
    chosen = options.kinds or list(KINDS)
    minutes = 60 * options.hours if options.hours else options.minutes
    seed = int(time.time()) if options.seed is None else options.seed
    say = lambda text: print(text, flush=True)  # noqa: E731
    say(f"seed {seed}, {minutes:g} minutes: {', '.join(chosen)}")
    commands.warm()
    tallies = []
    with tempfile.TemporaryDirectory(prefix="torture-") as folder:
        for name in chosen:
            bench = commands.Bench(Path(folder, name))
            kind = KINDS[name](bench)
            tallies.append(torment(name, kind, seed, seconds=60 * minutes / len(chosen), say=say))
            say(tallies[-1].line())
    return int(any(tally.failures for tally in tallies))


if __name__ == "__main__":
    sys.exit(main())
