"""The command `resultant analyze` in a process of its own: seconds to the summary and to the page,
and the largest resident memory.

Synthetic features are float32 rows in a file: directions of classes in a long tail, and noise."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from benchmarks import Row, Tables

LATENT, THREADS, RUNS = 24, 2, 3
# Name, rows to fit and to test, dimension and classes.
SIZES = (
    ("packaged", 10847, 10000, 64, 100),
    ("a thousand classes", 100_000, 20_000, 1024, 1000),
    ("the size of iNaturalist 2018", 353_237, 24_426, 1024, 8142),
)


def write(folder: Path, train: int, test: int, dim: int, classes: int) -> None:
    """Write features whose classes overlap in a few directions, with noise in all directions; the
    counts of the fitted classes fall geometrically by the factor 100."""
    folder.mkdir()
    generator = torch.Generator().manual_seed(0)
    basis = torch.randn(LATENT, dim, generator=generator) / dim**0.5
    centres = torch.randn(classes, LATENT, generator=generator)
    for split, rows, tail in (("train", train, 0.01), ("test", test, 1.0)):
        share = torch.logspace(0, np.log10(tail), classes, dtype=torch.float64)
        counts = (share / share.sum() * (rows - 3 * classes)).floor().long() + 3
        counts[0] += rows - counts.sum()
        y = torch.arange(classes).repeat_interleave(counts)
        latent = centres[y] + 0.8 * torch.randn(rows, LATENT, generator=generator)
        features = torch.randn(rows, dim, generator=generator)
        features.mul_(2 / dim**0.5).addmm_(latent, basis)
        np.save(folder / f"{split}_labels.npy", y.numpy())
        np.save(folder / f"{split}_features.npy", features.numpy())


def command(folder: Path, *features: Path) -> tuple[float, float, float]:
    """Run the command; return seconds to the end and to the summary, and the largest resident
    megabytes."""
    words = [sys.executable, "-m", "resultant", "analyze", *features, "--out", folder / "out"]
    environment = os.environ | {"OMP_NUM_THREADS": str(THREADS)}
    started = time.perf_counter()
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        process.stdout.read(1)
        summary = time.perf_counter() - started
        process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"analyze failed with status {process.returncode}")
    return time.perf_counter() - started, summary, 1024 * usage.ru_maxrss / 1e6


def measure(name: str, train: int, test: int, dim: int, classes: int) -> Row:
    """Measure one size; the fastest of some runs counts, the single one of the large sizes."""
    with tempfile.TemporaryDirectory() as top:
        folder, features, runs = Path(top), [], RUNS
        if name != "packaged":
            features, runs = [folder / "features"], 1
            write(features[0], train, test, dim, classes)
        page, summary, peak = min(command(folder, *features) for _ in range(runs))
    shape = {"fitted and tested": f"{train:,} + {test:,}", "p": dim, "classes": classes}
    times = {"summary, s": summary, "page, s": page, "peak, MB": peak}
    return {"features": name, **shape, **times}


def run() -> Tables:
    note = f"""\
`resultant analyze` with its defaults, {THREADS} threads, from the start of the process. The
packaged features are the fastest of {RUNS} runs."""
    yield note, (measure(*size) for size in SIZES)
