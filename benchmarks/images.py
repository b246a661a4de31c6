"""Training on image files on a GPU: the loop compared with the same step on one resident batch.

``--data`` is a folder with train.parquet of Tiny-ImageNet-LT; photographs are drawn."""

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch.nn.functional import interpolate

from benchmarks import Row, Tables
from benchmarks.gpu import milliseconds
from resultant.images.files import FileImages
from resultant.images.parquet import read_parquet
from resultant.images.photo_views import classification_view, contrastive_view
from resultant.images.source import LabelledImages, coded, in_threads
from resultant.images.store import open_store
from resultant.training.batches import Batches
from resultant.training.config import Run, TrainConfig
from resultant.training.loop import Trainer

# Number, width, height and classes of the synthetic photographs.
PHOTOGRAPHS, WIDTH, HEIGHT, CLASSES = 8192, 500, 375, 1000
# Images per batch, and epochs after the first whose mean time counts.
BATCH, EPOCHS = 256, 12


def write_photograph(path: str) -> None:
    """Write a JPEG of clouds at several scales, of 60 to 100 kB."""
    generator = torch.Generator().manual_seed(int(Path(path).stem))
    image = torch.randint(70, 180, (1, 3, 1, 1), generator=generator).float()
    for side, weight in ((4, 90), (12, 45), (40, 24), (120, 14), (400, 8)):
        grey, coloured = (torch.randn(1, n, side, side, generator=generator) for n in (1, 3))
        clouds = interpolate(grey + coloured, (HEIGHT, WIDTH), mode="bicubic", antialias=True)
        image = image + weight / 2 * clouds
    levels = image[0].permute(1, 2, 0).clamp(0, 255).byte().numpy()
    Image.fromarray(levels).save(path, quality=94)


def train(trainer: Trainer, numbers: range) -> float:
    """Train epochs as `resultant.training.loop` does; return their seconds."""
    began = time.perf_counter()
    for epoch in numbers:
        trainer.train_epoch(epoch, trainer.draw(epoch))
        torch.cuda.synchronize()
    return time.perf_counter() - began


def resident(trainer: Trainer) -> float:
    """Return the mean seconds of 30 steps on the batch that lies in the buffers."""
    with torch.cuda.stream(trainer.stream):
        step = trainer.step if trainer.graph is None else trainer.graph.replay
        return milliseconds(step, 30, 1) / 1e3


def measure(name: str, images: LabelledImages, size: int, folder: Path) -> Row:
    """Measure decoding, the resident step, and epochs after decoding."""
    source = coded({"train": images})[0]["train"]
    began = time.perf_counter()
    store = open_store(source, folder, size * 256 // 224, note=print)
    decoding = time.perf_counter() - began
    device, config = torch.device("cuda"), TrainConfig(size=size, batch_size=BATCH)
    views = [contrastive_view(size)] * 2 + [classification_view(size)]
    batches = Batches(
        source, lambda: store, views, 0, BATCH, config.channels, torch.bfloat16, device, note=print
    )
    counts = torch.bincount(torch.from_numpy(source.labels))
    trainer = Trainer(config, Run(seed=0), batches, counts, device)
    trainer.record()
    torch.cuda.empty_cache()
    network = torch.cuda.memory_reserved() - batches.buffers.nbytes
    still = resident(trainer)
    train(trainer, range(1))
    step = train(trainer, range(1, 1 + EPOCHS)) / EPOCHS / batches.steps
    still, views = min(still, resident(trainer)), 3 * BATCH
    return {
        "images": f"{name}, 3 views of {size} x {size}",
        "resident, views/s": views / still,
        "loop, views/s": views / step,
        "ratio": still / step,
        "decoding, images/s": len(source) / decoding,
        "network, GB": network / 1e9,
    }


def measurements(data: Path) -> Iterator[Row]:
    os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    with tempfile.TemporaryDirectory() as top:
        folder = Path(top)
        (folder / "files").mkdir()
        paths = [str(folder / f"files/{i}.jpg") for i in range(PHOTOGRAPHS)]
        list(in_threads(write_photograph, paths))
        labels = np.arange(PHOTOGRAPHS) % CLASSES
        photographs = LabelledImages(FileImages(paths, str(folder)), labels)
        yield measure("JPEG files", photographs, 224, folder / "photographs")
        torch.cuda.empty_cache()
        images = read_parquet([data / "train.parquet"])
        yield measure("Tiny-ImageNet-LT", images, 64, folder / "tiny")


def run(data: Path) -> Tables:
    note = f"""\
ResNet-50, batches of {BATCH} images with three views each: random crops, colours and RandAugment,
made on the GPU. The resident batch is the same step, compiled and in a CUDA graph, on one batch
that stays on the GPU. Speed of the loop is the mean over all epochs from the second on. Images are
decoded before the first epoch."""
    yield note, measurements(data)
