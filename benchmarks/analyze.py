"""The command `resultant analyze`: seconds to the summary and to the page, CPU seconds and memory;
writes benchmarks/analyze.json.

python -m benchmarks.analyze [SIZE ...] [--runs 3] [--threads 2]

``packaged`` are the features of the package. ``thousand`` are 100,000 synthetic float32 rows of
1,024 dimensions in 1,000 classes, with 20,000 more to judge by. Both run the command with its
defaults, which compare with the fast references, in a process of its own; the fastest run counts.
Memory is the largest resident memory of all processes of the command together."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import parser, today
from benchmarks.frozen import Size, write
from resultant._core.files import write_text

# Seconds between two looks at the memory.
EVERY = 0.05


class Bars(NamedTuple):
    """Targets: seconds to the summary, seconds to the page, and bytes."""

    summary: float | None
    seconds: float
    memory: float | None


BARS = {"packaged": Bars(3, 6, None), "thousand": Bars(None, 60, 4e9)}
THOUSAND = Size(100_000, 20_000, 1024, 1000, 60, 4e9)


def resident(pid: int) -> int:
    """Return the resident bytes of a process and of its children."""
    folder, pages = Path("/proc") / str(pid), 0
    try:
        pages = int((folder / "statm").read_text().split()[1])
        children = (folder / "task" / str(pid) / "children").read_text().split()
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE") + sum(resident(int(child)) for child in children)


def run(features: Path | None, folder: Path, threads: int) -> dict[str, Any]:
    """Run the command once."""
    command = [sys.executable, "-m", "resultant", "analyze", "--out", str(folder / "out")]
    environment = {"OMP_WAIT_POLICY": "PASSIVE", **os.environ, "OMP_NUM_THREADS": str(threads)}
    shown, errors = folder / "shown", folder / "errors"
    summary, peak, started = None, 0, time.perf_counter()
    with shown.open("wb") as out, errors.open("wb") as log:
        process = subprocess.Popen(
            [*command, *([] if features is None else [str(features)])],
            stdout=out,
            stderr=log,
            env=environment,
        )
        while process.poll() is None:
            if summary is None and shown.stat().st_size:
                summary = time.perf_counter() - started
            peak = max(peak, resident(process.pid))
            time.sleep(EVERY)
    seconds = time.perf_counter() - started
    if process.returncode:
        raise RuntimeError(f"analyze failed: {errors.read_text()[-2000:]}")
    return {"summary": summary, "seconds": seconds, "peak_mb": round(peak / 1e6)}


def measure(name: str, runs: int, threads: int) -> dict[str, Any]:
    """Measure one size; the fastest run counts."""
    bars = BARS[name]
    with tempfile.TemporaryDirectory() as top:
        folder, features = Path(top), None
        if name == "thousand":
            features = folder / "features"
            features.mkdir()
            write(features, THOUSAND)
        before = os.times()
        found = min((run(features, folder, threads) for _ in range(runs)), key=_seconds)
        after = os.times()
    used = after.children_user - before.children_user + after.children_system
    found["cpu_seconds"] = round((used - before.children_system) / runs, 1)
    found |= {key: round(found[key], 2) for key in ("summary", "seconds")}
    within = found["seconds"] <= bars.seconds
    within &= bars.summary is None or found["summary"] <= bars.summary
    within &= bars.memory is None or found["peak_mb"] <= bars.memory / 1e6
    row = {"size": name, "bars": bars._asdict(), "measured": found, "within": within}
    print(json.dumps(row), flush=True)
    return row


def _seconds(found: dict[str, Any]) -> float:
    return found["seconds"]


def main() -> None:
    options = parser("analyze", __doc__)
    options.add_argument("sizes", nargs="*", metavar="SIZE", help=", ".join(BARS))
    options.add_argument("--runs", type=int, default=3, help="runs of each size")
    options.add_argument("--threads", type=int, default=2, help="threads of the command")
    given = options.parse_args()
    known = json.loads(given.out.read_text()) if given.out.exists() else {"rows": []}
    rows = {row["size"]: row for row in known["rows"]}
    for name in given.sizes or BARS:
        rows[name] = measure(name, given.runs, given.threads)
    load = f"load of the machine before the last run {os.getloadavg()[0]:.1f}"
    note = f"{given.threads} threads, fastest of {given.runs} runs, {load}."
    block = {"date": today(), "note": note, "rows": list(rows.values())}
    write_text(given.out, json.dumps(block, indent=1) + "\n")


if __name__ == "__main__":
    main()
