"""Commands that are killed, terminated, or find the disk full, at random moments.

Property: the same command, given again, ends with status 0, leaves no temporary files, and its
results are those of an undisturbed run. A terminated command and one without space end with a
status and one line, without a traceback.
"""

import hashlib
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyarrow import parquet
from safetensors.numpy import load_file

from torture import ROOT
from torture.readers import write_inputs

SMALL = "--device cpu --architecture test_resnet --size 32 --dim 8 --batch-size 4"
SMALL += " --learning-rate 0.02 --checkpoint-every 1"
COMMANDS = {
    "analyze": "analyze {inputs}/a.safetensors --out {out}/report",
    "train": f"train images {SMALL} --epochs 3 --data {{inputs}}/images --out {{out}}/train",
    "extract": "extract {inputs}/network.safetensors --data {inputs}/images --device cpu"
    " --out {out}/features.safetensors",
    "sums": "sums {inputs}/a.parquet --out {out}/sums.safetensors",
    "merge": "merge {inputs}/sums.safetensors {inputs}/sums.safetensors --out {out}/m.safetensors",
    "forget": "forget {inputs}/sums.safetensors --rows {inputs}/some.parquet"
    " --out {out}/rest.safetensors",
}
PROGRAM = "from resultant.cli.main import execute; execute()"
# Times and versions: two runs of a command differ in them.
TIMES = re.compile(r"seconds|time|date|created|versions|fit$|predict$|sha256")
FAULTS = ("SIGKILL", "SIGTERM", "full disk")


def trials(folder: Path, rng: random.Random) -> Iterator[tuple[str, str]]:
    """Run each command undisturbed, then disturb commands at random and repeat them."""
    inputs, out = write_inputs(folder / "inputs"), folder / "out"
    start("sums", inputs, inputs).communicate()
    parquet.write_table(parquet.read_table(inputs / "a.parquet")[::3], inputs / "some.parquet")
    expected, seconds = {}, {}
    for name in COMMANDS:
        out.mkdir()
        begun = time.monotonic()
        end = start(name, inputs, out).communicate()[1]
        seconds[name], expected[name] = time.monotonic() - begun, results(out)
        yield f"{name}, undisturbed", "" if expected[name] else f"no results: {end[-300:]}"
        shutil.rmtree(out)
    while True:
        for name in COMMANDS:
            for fault in FAULTS:
                out.mkdir()
                moment = rng.uniform(0.1, 1) * seconds[name]
                failure = disturb(name, fault, moment, inputs, out, rng)
                if not failure:
                    again = start(name, inputs, out)
                    errors = again.communicate()[1]
                    left = [str(p) for p in out.rglob("*") if p.name.endswith(".tmp")]
                    if again.returncode:
                        failure = f"given again, status {again.returncode}: {errors[-300:]}"
                    elif results(out) != expected[name]:
                        failure = "given again, other results"
                    elif left:
                        failure = f"given again, leaves {left}"
                yield f"{name}, {fault} after {moment:.1f} s", failure
                shutil.rmtree(out)


def start(name: str, inputs: Path, out: Path, space: int = -1) -> subprocess.Popen[str]:
    """Start a command, with a limit on the size of a file that it writes; -1 is none."""
    words = COMMANDS[name].format(inputs=inputs, out=out).split()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(["src", "tests", "reproduction"])}
    environment |= {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *words],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (space, space)),
    )


def disturb(
    name: str, fault: str, moment: float, inputs: Path, out: Path, rng: random.Random
) -> str:
    """Run a command with a fault; return a failure, or an empty text."""
    if fault == "full disk":
        process = start(name, inputs, out, rng.choice((0, 1 << 10, 1 << 14, 1 << 17)))
    else:
        process = start(name, inputs, out)
        try:
            process.wait(moment)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.Signals[fault])
    errors = process.communicate()[1]
    if fault != "SIGKILL" and "Traceback" in errors:
        return f"a traceback: {errors[-300:]}"
    complaints = [line for line in errors.splitlines() if line.startswith("resultant: ")]
    if fault == "full disk" and process.returncode and len(complaints) != 1:
        return f"status {process.returncode} with {len(complaints)} lines: {errors[-300:]}"
    return ""


def results(out: Path) -> dict[str, str]:
    """Return the content of every output as text, without times."""
    files = (path for path in sorted(out.rglob("*")) if path.is_file())
    return {str(p.relative_to(out)): content(p) for p in files if not p.name.startswith(".")}


def content(path: Path) -> str:
    if path.suffix in (".json", ".jsonl"):
        lines = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
        return json.dumps([timeless(json.loads(line)) for line in lines])
    if path.suffix == ".safetensors":
        arrays = sorted(load_file(path).items())
        return str([(k, hashlib.sha256(a.tobytes()).hexdigest()) for k, a in arrays])
    # A page holds the date, and tables hold times.
    timed = path.suffix in (".html", ".csv")
    return "" if timed else hashlib.sha256(path.read_bytes()).hexdigest()


def timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: timeless(v) for k, v in value.items() if not TIMES.search(k)}
    return [timeless(v) for v in value] if isinstance(value, list) else value
