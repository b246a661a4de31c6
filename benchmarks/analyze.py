"""The command `resultant analyze` in a process of its own: seconds to the summary and to the page,
and the largest resident memory.

Synthetic features are float32 rows in a file: directions of classes in a long tail, and noise."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from benchmarks import Row, Table, progress

GPU = False
LATENT, THREADS, RUNS = 24, 2, 3
# Seconds between two looks at the memory.
EVERY = 0.05


class Size(NamedTuple):
    """Rows to fit and to test, dimension and classes."""

    train: int
    test: int
    dim: int
    classes: int


SIZES = {
    "packaged": Size(10847, 10000, 64, 100),
    "a thousand classes": Size(100_000, 20_000, 1024, 1000),
    "the size of iNaturalist 2018": Size(353_237, 24_426, 1024, 8142),
}


def labels(rows: int, classes: int, tail: float) -> torch.Tensor:
    """Return labels of classes whose counts fall geometrically by the factor ``tail``."""
    share = torch.logspace(0, np.log10(tail), classes, dtype=torch.float64)
    counts = (share / share.sum() * (rows - 3 * classes)).floor().long() + 3
    counts[0] += rows - counts.sum()
    return torch.arange(classes).repeat_interleave(counts)


def write(folder: Path, size: Size) -> None:
    """Write features whose classes overlap in a few directions, with noise in all directions."""
    generator = torch.Generator().manual_seed(0)
    basis = torch.randn(LATENT, size.dim, generator=generator) / size.dim**0.5
    centres = torch.randn(size.classes, LATENT, generator=generator)
    for split, rows, tail in (("train", size.train, 0.01), ("test", size.test, 1.0)):
        y = labels(rows, size.classes, tail)
        np.save(folder / f"{split}_labels.npy", y.numpy())
        path = folder / f"{split}_features.npy"
        out = np.lib.format.open_memmap(path, "w+", np.float32, (rows, size.dim))
        for top in range(0, rows, 8192):
            own = y[top : top + 8192]
            latent = centres[own] + 0.8 * torch.randn(len(own), LATENT, generator=generator)
            noise = torch.randn(len(own), size.dim, generator=generator)
            out[top : top + len(own)] = (latent @ basis + 2.0 * noise / size.dim**0.5).numpy()
        del out


def resident(pid: int) -> int:
    """Return the resident bytes of a process."""
    try:
        pages = int((Path("/proc") / str(pid) / "statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def command(features: Path | None, folder: Path) -> tuple[float, float, int]:
    """Run the command; return seconds to the summary and to the end, and bytes."""
    words = [sys.executable, "-m", "resultant", "analyze", "--out", str(folder / "out")]
    words += [] if features is None else [str(features)]
    # Spinning threads slow down everything else on the machine.
    environment = {"OMP_WAIT_POLICY": "PASSIVE", **os.environ, "OMP_NUM_THREADS": str(THREADS)}
    shown, errors = folder / "shown", folder / "errors"
    summary, peak, started = None, 0, time.perf_counter()
    with shown.open("wb") as out, errors.open("wb") as log:
        process = subprocess.Popen(words, stdout=out, stderr=log, env=environment)
        while process.poll() is None:
            if summary is None and shown.stat().st_size:
                summary = time.perf_counter() - started
            peak = max(peak, resident(process.pid))
            time.sleep(EVERY)
    ended = time.perf_counter() - started
    if process.returncode:
        raise RuntimeError(f"analyze failed: {errors.read_text()[-2000:]}")
    return summary or ended, ended, peak


def measure(name: str, size: Size) -> Row:
    """Measure one size; the fastest of some runs counts, the single one of the large sizes."""
    progress(f"analyze: {name}")
    with tempfile.TemporaryDirectory() as top:
        folder, features = Path(top), None
        if name != "packaged":
            features = folder / "features"
            features.mkdir()
            write(features, size)
        runs = [command(features, folder) for _ in range(RUNS if features is None else 1)]
    summary, ended, peak = min(runs, key=lambda each: each[1])
    times = {"summary, s": summary, "page, s": ended, "peak, MB": peak / 1e6}
    return {"features": name, "fitted and tested": f"{size.train:,} + {size.test:,}"} | {
        "p": size.dim,
        "classes": size.classes,
        **times,
    }


def run(data: Path | None) -> list[Table]:
    return [{"rows": [measure(*item) for item in SIZES.items()], "note": NOTE}]


NOTE = f"""\
`resultant analyze` with its defaults, {THREADS} threads, from the start of the process. The
packaged features are the fastest of {RUNS} runs."""
