"""Fitting and scoring of frozen features of the sizes of ImageNet-LT and iNaturalist 2018: seconds
and memory of every question; writes benchmarks/frozen.json.

python -m benchmarks.frozen [SIZE ...] [--device cuda] [--threads 2]

The features are synthetic, float32 and mapped from a file: directions of classes in a long tail,
and noise. Each size runs in its own process, whose peak resident memory is recorded. ``large`` is
ten million float16 rows in shards, fitted and scored as a stream, on the CPU.

On a device every question is asked twice. The first time counts, with the start of libraries,
device and kernels; ``again`` is the second time. Both read the features from the host."""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn import functional

from benchmarks import parser, today
from resultant._core.files import write_text
from resultant.analysis import analyze_space, load_space
from resultant.classes.realization import class_scores
from resultant.classes.statistics import ClassStatistics
from resultant.features.store import FeatureStore

TAU = 0.1
LATENT = 24


class Size(NamedTuple):
    """Size of a problem: rows to fit, rows to score, dimension, classes; targets in seconds and
    bytes."""

    train: int
    test: int
    dim: int
    classes: int
    seconds: float
    memory: float


SIZES = {
    "imagenet-lt": Size(115_846, 50_000, 2048, 1000, 180, 4e9),
    "inaturalist18": Size(353_237, 24_426, 1024, 8142, 300, 4e9),
}

# Target seconds on a device, per size.
DEVICE_SECONDS = 10

# Ten million rows; every shard is the same file.
LARGE = Size(10_000_000, 1_000_000, 1024, 100, 3600, 4e9)
SHARDS = 100


def labels(rows: int, classes: int, tail: float) -> torch.Tensor:
    """Draw labels of classes whose counts fall geometrically; the last is ``tail`` times the
    first."""
    share = torch.logspace(0, np.log10(tail), classes, dtype=torch.float64)
    counts = (share / share.sum() * (rows - 3 * classes)).floor().long() + 3
    counts[0] += rows - counts.sum()
    return torch.arange(classes).repeat_interleave(counts)


def pieces(
    y: torch.Tensor, dim: int, classes: int, seed: int
) -> Iterator[tuple[slice, torch.Tensor]]:
    """Draw features of labels: classes overlap in a few directions, and all directions have
    noise."""
    generator = torch.Generator().manual_seed(0)
    basis = torch.randn(LATENT, dim, generator=generator) / dim**0.5
    centres = torch.randn(classes, LATENT, generator=generator)
    generator.manual_seed(seed)
    for top in range(0, len(y), 8192):
        rows = slice(top, min(top + 8192, len(y)))
        latent = centres[y[rows]] + 0.8 * torch.randn(rows.stop - top, LATENT, generator=generator)
        noise = torch.randn(rows.stop - top, dim, generator=generator)
        yield rows, latent @ basis + 2.0 * noise / dim**0.5


def write(folder: Path, size: Size) -> None:
    for seed, (split, rows) in enumerate((("train", size.train), ("test", size.test)), 1):
        y = labels(rows, size.classes, 0.01 if split == "train" else 1.0)
        np.save(folder / f"{split}_labels.npy", y.numpy())
        path, shape = folder / f"{split}_features.npy", (rows, size.dim)
        out = np.lib.format.open_memmap(path, "w+", np.float32, shape)
        for at, piece in pieces(y, size.dim, size.classes, seed):
            out[at] = piece.numpy()
        del out


def analyze(folder: Path, device: str) -> dict[str, object]:
    """Ask every question of the features of a folder."""
    start = time.perf_counter()
    store = FeatureStore.open(folder)
    space = load_space(store, "features", device=device)
    if device != "cpu":
        torch.cuda.synchronize()
    steps = {"statistics": time.perf_counter() - start}
    found = analyze_space(space)
    steps |= found.seconds or {}
    assert found.grid is not None and found.cosine is not None
    return {
        "accuracy": found.grid.point("native").accuracy,
        "certified": found.cosine.coverage,
        "steps": {name: round(s, 1 if device == "cpu" else 3) for name, s in steps.items()},
        "notes": found.notes,
        "seconds": round(time.perf_counter() - start, 1 if device == "cpu" else 2),
    }


def write_large(folder: Path, size: Size) -> None:
    rows = size.train // SHARDS
    y = labels(rows, size.classes, 0.1)[torch.randperm(rows)]
    x = torch.cat([p for _, p in pieces(y, size.dim, size.classes, 1)]).half()
    (folder / "shards").mkdir()
    for name, a in (("features", x), ("labels", y)):
        np.save(folder / f"{name}.npy", a.numpy())
        for i in range(SHARDS):
            (folder / "shards" / f"train_{name}-{i:05}.npy").symlink_to(folder / f"{name}.npy")


def stream(folder: Path) -> dict[str, object]:
    """Fit all rows of the shards and score a tenth of them."""
    start = time.perf_counter()
    store = FeatureStore.open(folder / "shards")
    y, name = store["train/labels"], "train/features"
    statistics = ClassStatistics(store.num_classes, store.shape(name)[1])
    for rows, piece in store.chunks(name):
        z = functional.normalize(piece.float(), dim=1)
        statistics.update(z, y[rows], validate_args=False)
    state, right, scored = statistics.state(), 0, 0
    for rows, piece in store.chunks(name):
        if scored >= LARGE.test:
            break
        z = functional.normalize(piece.float(), dim=1)
        best = class_scores(z, state, TAU, "angular", validate_args=False).argmax(1)
        right, scored = right + int((best == y[rows]).sum()), scored + len(best)
    seconds = round(time.perf_counter() - start, 1)
    found = {"rows": store.shape(name)[0], "scored": scored, "accuracy": right / scored}
    return {**found, "seconds": seconds}


def child(name: str, folder: Path, threads: int, device: str) -> None:
    torch.set_num_threads(threads)
    found = stream(folder) if name == "large" else analyze(folder, device)
    if device != "cpu":
        again = analyze(folder, device)
        found["again"] = {what: again[what] for what in ("seconds", "steps")}
        found["device_mb"] = round(torch.cuda.max_memory_allocated() / 1e6)
    used = resource.getrusage(resource.RUSAGE_SELF)
    found["cpu_seconds"] = round(used.ru_utime + used.ru_stime, 1)
    found["peak_mb"] = round(used.ru_maxrss * 1024 / 1e6)
    print(json.dumps(found))


def measure(name: str, threads: int, device: str) -> dict[str, object]:
    size = LARGE if name == "large" else SIZES[name]
    if device != "cpu":
        size = size._replace(seconds=DEVICE_SECONDS)
    with tempfile.TemporaryDirectory() as folder:
        (write_large if name == "large" else write)(Path(folder), size)
        command = [sys.executable, "-m", "benchmarks.frozen", name, "--threads", str(threads)]
        done = subprocess.run(
            [*command, "--device", device, "--folder", folder],
            capture_output=True,
            text=True,
            check=False,
            # Spinning threads slow down everything else on the machine.
            env={"OMP_WAIT_POLICY": "PASSIVE", **os.environ, "OMP_NUM_THREADS": str(threads)},
        )
    if done.returncode:
        raise RuntimeError(f"{name} failed: {done.stderr[-2000:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    within = found["seconds"] <= size.seconds
    bars = f"target {size.seconds:g} s"
    if device == "cpu":
        within = within and found["peak_mb"] <= size.memory / 1e6
        bars += f", {size.memory / 1e6:g} MB"
    row = {"size": name, **size._asdict(), "measured": found, "within": within}
    print(f"{name} on {device}: {found['seconds']} s, {found['peak_mb']} MB ({bars})", flush=True)
    print(json.dumps(found), flush=True)
    return row


def updated(known: dict[str, Any], rows: list[dict[str, Any]], threads: int, device: str) -> Any:
    """Replace the rows of the same size in the known measurements by the rows of a device."""
    block = known if device == "cpu" else known.setdefault("devices", {}).setdefault(device, {})
    new = {row["size"]: row for row in rows}
    kept = {row["size"]: row for row in block.get("rows", ())}
    if device != "cpu":
        block["name"], block["torch"] = torch.cuda.get_device_name(device), torch.__version__
    block["date"] = today()
    block["threads"], block["rows"] = threads, list({**kept, **new}.values())
    return known


def main() -> None:
    options = parser("frozen", __doc__)
    options.add_argument("sizes", nargs="*", metavar="SIZE", help=", ".join([*SIZES, "large"]))
    options.add_argument("--device", default="cpu", help="cpu or cuda")
    options.add_argument("--threads", type=int, help="2, on a device as many as there are cores")
    options.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = options.parse_args()
    device = given.device
    if device != "cpu" and "large" in given.sizes:
        options.error("expected --device cpu for the size large")
    threads = given.threads or (2 if device == "cpu" else os.cpu_count() or 1)
    if given.folder is not None:
        child(given.sizes[0], given.folder, threads, device)
        return
    rows = [measure(name, threads, device) for name in given.sizes or SIZES]
    known = json.loads(given.out.read_text()) if given.out.exists() else {}
    write_text(given.out, json.dumps(updated(known, rows, threads, device), indent=1) + "\n")


if __name__ == "__main__":
    main()
