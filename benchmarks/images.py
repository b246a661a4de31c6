"""Training on image files: the loop compared with the same step on one resident batch; writes
benchmarks/images.json.

python -m benchmarks.images --tiny FOLDER     (FOLDER holds train.parquet of Tiny-ImageNet-LT)
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import parser, today
from resultant._core.files import write_text
from resultant.images.files import FileImages, file_status
from resultant.images.parquet import read_parquet
from resultant.images.photo_views import classification_view, contrastive_view
from resultant.images.source import ImageSource, cores
from resultant.images.store import ImageStore, open_store
from resultant.training import streams
from resultant.training.config import Run, preset
from resultant.training.photo_batches import PhotoBatches
from resultant.training.stack import Stack

CHANNELS = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
# Number, width and height of the synthetic photographs, and their classes.
PHOTOGRAPHS, WIDTH, HEIGHT, CLASSES = 8192, 500, 375, 1000
# Epochs after the first whose mean time is told.
EPOCHS = 12
DEVICE = torch.device("cuda")


@dataclass(frozen=True)
class Case:
    """A network and its images."""

    name: str
    size: int
    batch: int
    views: int = 3


CASES = Case("JPEG files", 224, 256), Case("Tiny-ImageNet-LT", 64, 256)


def photograph(seed: int) -> bytes:
    """Return a JPEG of clouds at several scales, of 60 to 100 kB."""
    from PIL import Image

    rng = np.random.default_rng(seed)
    total = np.zeros((HEIGHT, WIDTH, 3), np.float32)
    for side, weight in ((4, 90), (12, 45), (40, 24), (120, 14), (400, 8)):
        coarse = rng.normal(0, 1, (side, side, 3)).astype(np.float32)
        coarse += rng.normal(0, 1, (side, side, 1)).astype(np.float32)
        for c in range(3):
            plane = Image.fromarray(coarse[..., c]).resize(
                (WIDTH, HEIGHT), Image.Resampling.BICUBIC
            )
            total[..., c] += weight * np.asarray(plane) / 2
    levels = np.clip(total + rng.integers(70, 180, 3), 0, 255).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(levels).save(file, "JPEG", quality=94)
    return file.getvalue()


def write_photograph(path: str) -> int:
    data = photograph(int(Path(path).stem))
    Path(path).write_bytes(data)
    return len(data)


def write_photographs(folder: Path, number: int) -> ImageSource:
    folder.mkdir(parents=True)
    paths = [str(folder / f"{i}.jpg") for i in range(number)]
    with ProcessPoolExecutor(cores()) as pool:
        sizes = list(pool.map(write_photograph, paths, chunksize=16))
    print(f"{number} JPEG files of {np.mean(sizes) / 1e3:.0f} kB", flush=True)
    labels = np.arange(number) % CLASSES
    images = FileImages(paths, file_status(paths))
    return ImageSource(images, labels, tuple(map(str, range(CLASSES))))


def tiny_images(folder: Path) -> ImageSource:
    raw = read_parquet([folder / "train.parquet"])
    labels = np.unique(raw.labels, return_inverse=True)[1]
    return ImageSource(raw.images, labels, tuple(map(str, range(labels.max() + 1))))


def build(case: Case, source: ImageSource, store: ImageStore, seed: int = 0) -> Stack:
    labels = torch.from_numpy(np.asarray(source.labels))
    config = preset("imagenet-lt", size=case.size, batch_size=case.batch)
    weak = [classification_view(case.size)] * (case.views - 2)
    batches = PhotoBatches(
        *(source, lambda: store, [contrastive_view(case.size)] * 2 + weak, seed, case.batch),
        *(CHANNELS, torch.bfloat16, DEVICE),
        note=print,
    )
    return Stack(config, (Run(seed=seed),), batches, torch.bincount(labels), DEVICE)


def train_epochs(stacks: list[Stack], first: int, number: int) -> list[float]:
    """Train epochs as `resultant.training.loop` does; return the seconds of each."""
    times = [time.perf_counter()]
    drawn = [stack.batches.draw(first) for stack in stacks]
    for epoch in range(first, first + number):
        for stack, batches in zip(stacks, drawn, strict=True):
            stack.start_epoch(epoch)
            stack.batches.load(batches)
        with streams.side_by_side(stacks):
            for _ in range(stacks[0].batches.steps):
                streams.step(stacks)
        # The device is still working.
        drawn = [stack.batches.draw(epoch + 1) for stack in stacks]
        torch.cuda.synchronize()
        times.append(time.perf_counter())
    return np.diff(times).tolist()


def resident(stack: Stack, steps: int) -> float:
    """Return the seconds of a step on the batch that lies in the buffers."""

    def run() -> None:
        with torch.cuda.stream(stack.stream):
            for _ in range(steps):
                stack.step() if stack.graph is None else stack.graph.replay()

    run()
    torch.cuda.synchronize()
    began = time.perf_counter()
    run()
    torch.cuda.synchronize()
    return (time.perf_counter() - began) / steps


@contextmanager
def temporary_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp())
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def measure(case: Case, source: ImageSource, folder: Path) -> dict[str, Any]:
    """Measure a case: decoding, the resident step, and epochs after decoding."""
    views = case.batch * case.views
    began = time.perf_counter()
    store = open_store(source, folder / "store", case.size * 256 // 224, note=print)
    decoding = time.perf_counter() - began
    stack = build(case, source, store)
    began = time.perf_counter()
    streams.capture([stack], 0)
    capture = time.perf_counter() - began
    torch.cuda.empty_cache()
    views_bytes = stack.batches.bytes  # type: ignore[attr-defined]
    network = torch.cuda.memory_reserved() - views_bytes
    steps = stack.batches.steps
    still = resident(stack, min(steps, 30))
    first, *later = train_epochs([stack], 0, 1 + EPOCHS)
    still = min(still, resident(stack, min(steps, 30)))
    step = sum(later) / len(later) / steps
    beside = torch.cuda.memory_reserved() - network - store.bytes
    result = {
        "case": case.name,
        "size": case.size,
        "views": case.views,
        "batch": case.batch,
        "images": len(source),
        "store_gb": round(store.bytes / 1e9, 3),
        "resident_views_per_second": round(views / still),
        "views_per_second": round(views / step),
        "ratio": round(still / step, 3),
        "decoding_images_per_second": round(len(source) / decoding),
        "decoding_seconds": round(decoding, 2),
        "first_epoch_seconds": round(first, 2),
        "network_gb": round(network / 1e9, 2),
        "beside_gb": round(beside / 1e9, 2),
        "epoch_seconds": [round(a, 3) for a in later],
        "capture_seconds": round(capture, 1),
    }
    print(json.dumps(result), flush=True)
    return result


def side_by_side(case: Case, source: ImageSource, folder: Path) -> dict[str, Any]:
    """Measure an epoch of two runs at once, and of one after the other."""
    store = open_store(source, folder, case.size * 256 // 224)
    stacks = [build(case, source, store, seed) for seed in range(2)]
    streams.capture(stacks, 0)
    both = min(train_epochs(stacks, 0, 3)[1:])
    apart = 2 * min(train_epochs(stacks[:1], 3, 2))
    result = {"case": case.name, "both": round(both, 3), "apart": round(apart, 3)}
    print(json.dumps(result), flush=True)
    return result


def main() -> None:
    arguments: argparse.ArgumentParser = parser("images", __doc__)
    arguments.add_argument("--tiny", type=Path, help="folder of Tiny-ImageNet-LT")
    arguments.add_argument("--images", type=int, default=PHOTOGRAPHS)
    options = arguments.parse_args()
    os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    rows: list[dict[str, Any]] = []
    result: dict[str, Any] = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    result["date"] = today()
    result["rows"] = rows
    with temporary_folder() as folder:
        photographs = write_photographs(folder / "files", options.images)
        tiny = None if options.tiny is None else tiny_images(options.tiny)
        for case in CASES:
            source = photographs if case.size == 224 else tiny
            if source is None:
                continue
            rows.append(measure(case, source, folder / case.name.replace(" ", "-")))
            write_text(options.out, json.dumps(result, indent=1) + "\n")
            torch.cuda.empty_cache()
        if tiny is not None:
            result["side_by_side"] = side_by_side(CASES[1], tiny, folder / "both")
            write_text(options.out, json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
