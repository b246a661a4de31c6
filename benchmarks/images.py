"""Training on image files on a GPU: the loop compared with the same step on one resident batch.

``--data`` is a folder with train.parquet of Tiny-ImageNet-LT; photographs are drawn."""

from __future__ import annotations

import io
import os
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import Row, Tables
from benchmarks.gpu import milliseconds
from resultant.images.files import FileImages, file_status
from resultant.images.parquet import read_parquet
from resultant.images.photo_views import classification_view, contrastive_view
from resultant.images.source import ImageSource, LabelledImages, coded, cores
from resultant.images.store import ImageStore, open_store
from resultant.training.config import Run, preset
from resultant.training.photo_batches import PhotoBatches
from resultant.training.stack import Stack, side_by_side

# Number, width, height and classes of the synthetic photographs.
PHOTOGRAPHS = int(os.environ.get("PHOTOGRAPHS", "8192"))
WIDTH, HEIGHT, CLASSES = 500, 375, 1000
# Images per batch, and epochs after the first whose mean time counts.
BATCH, EPOCHS = 256, 12


def write_photograph(path: str) -> None:
    """Write a JPEG of clouds at several scales, of 60 to 100 kB."""
    from PIL import Image

    rng = np.random.default_rng(int(Path(path).stem))
    total = np.zeros((HEIGHT, WIDTH, 3), np.float32)
    for side, weight in ((4, 90), (12, 45), (40, 24), (120, 14), (400, 8)):
        coarse = rng.normal(0, 1, (side, side, 3)) + rng.normal(0, 1, (side, side, 1))
        for c in range(3):
            plane = Image.fromarray(coarse[..., c].astype(np.float32))
            plane = plane.resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC)
            total[..., c] += weight * np.asarray(plane) / 2
    levels = np.clip(total + rng.integers(70, 180, 3), 0, 255).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(levels).save(file, "JPEG", quality=94)
    Path(path).write_bytes(file.getvalue())


def photographs(folder: Path) -> LabelledImages:
    paths = [str(folder / f"{i}.jpg") for i in range(PHOTOGRAPHS)]
    with ProcessPoolExecutor(cores()) as pool:
        list(pool.map(write_photograph, paths, chunksize=16))
    return LabelledImages(FileImages(paths, file_status(paths)), np.arange(len(paths)) % CLASSES)


def build(source: ImageSource, store: ImageStore, size: int) -> Stack:
    device, config = torch.device("cuda"), preset("imagenet-lt", size=size, batch_size=BATCH)
    views = [contrastive_view(size)] * 2 + [classification_view(size)]
    batches = PhotoBatches(
        *(source, lambda: store, views, 0, BATCH, config.channels, torch.bfloat16, device),
        note=print,
    )
    counts = torch.bincount(torch.from_numpy(source.labels))
    return Stack(config, (Run(seed=0),), batches, counts, device)


def train(stack: Stack, numbers: range) -> float:
    """Train epochs as `resultant.training.loop` does; return their seconds."""
    began = time.perf_counter()
    for epoch in numbers:
        stack.start_epoch(epoch)
        stack.batches.load(stack.batches.draw(epoch))
        with side_by_side([stack]):
            for _ in range(stack.batches.steps):
                stack.replay()
        torch.cuda.synchronize()
    return time.perf_counter() - began


def resident(stack: Stack, steps: int) -> float:
    """Return the seconds of a step on the batch that lies in the buffers."""
    with torch.cuda.stream(stack.stream):
        step = stack.step if stack.graph is None else stack.graph.replay
        return milliseconds(step, steps, 1) / 1e3


def measure(name: str, images: LabelledImages, size: int, folder: Path) -> Row:
    """Measure decoding, the resident step, and epochs after decoding."""
    source = coded({"train": images})[0]["train"]
    began = time.perf_counter()
    store = open_store(source, folder, size * 256 // 224, note=print)
    decoding = time.perf_counter() - began
    stack = build(source, store, size)
    stack.capture()
    torch.cuda.empty_cache()
    batches: Any = stack.batches
    network = torch.cuda.memory_reserved() - batches.buffers.nbytes
    steps = min(batches.steps, 30)
    still = resident(stack, steps)
    train(stack, range(1))
    step = train(stack, range(1, 1 + EPOCHS)) / EPOCHS / batches.steps
    still, views = min(still, resident(stack, steps)), 3 * BATCH
    return {
        "images": f"{name}, 3 views of {size} x {size}",
        "resident, views/s": views / still,
        "loop, views/s": views / step,
        "ratio": still / step,
        "decoding, images/s": len(source) / decoding,
        "network, GB": network / 1e9,
        "other, GB": (torch.cuda.memory_reserved() - network - len(store.pixels)) / 1e9,
    }


def measurements(data: Path | None) -> Iterator[Row]:
    os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    with tempfile.TemporaryDirectory() as top:
        folder = Path(top)
        (folder / "files").mkdir()
        yield measure("JPEG files", photographs(folder / "files"), 224, folder / "photographs")
        if data is not None:
            torch.cuda.empty_cache()
            images = read_parquet([data / "train.parquet"])
            yield measure("Tiny-ImageNet-LT", images, 64, folder / "tiny")


def run(data: Path | None = None) -> Tables:
    note = f"""\
ResNet-50, batches of {BATCH} images with three views each: random crops, colours and RandAugment,
made on the GPU. The resident batch is the same step, compiled and in a CUDA graph, on one batch
that stays on the GPU. Speed of the loop is the mean over all epochs from the second on. "Other"
is the GPU memory without the network and the decoded images. Images are decoded before the first
epoch."""
    yield note, measurements(data)
