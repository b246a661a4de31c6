"""The readers of files from outside, each with a valid input of its format."""

import pickle
import shutil
import sys
import tarfile
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


class Reader(NamedTuple):
    """A reader, by module and function, and the name of its valid input."""

    function: str
    input: str

    def read(self, path: Path) -> None:
        module, _, name = self.function.partition(":")
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        found(path)

    def write(self, folder: Path, inputs: Path) -> Path:
        """Copy the valid input into a folder, with files of labels that belong to it."""
        source = inputs / self.input
        for labels in inputs.glob(f"{source.stem}_labels.npy"):
            shutil.copyfile(labels, folder / labels.name)
        copy = shutil.copytree if source.is_dir() else shutil.copyfile
        return Path(copy(source, folder / source.name))


def features(path: Path) -> None:
    from resultant.features.prepare import check_features, prepare
    from resultant.features.store import FeatureStore

    check_features(prepare(FeatureStore.open(path)))


def images(path: Path) -> None:
    from resultant.images.opening import open_images

    splits = open_images(path)
    for source in (splits.train, *splits.held_out_splits.values()):
        for i in range(len(source)):
            source.read(i)


def cifar(path: Path) -> None:
    from resultant_reproduction.cifar.data import load_cifar

    load_cifar("cifar10", path)


FEATURES, IMAGES, CIFAR = (f"torture.readers:{name}" for name in ("features", "images", "cifar"))
NETWORK = "resultant.training.checkpoints:load_network"
READERS = {
    "npz": Reader(FEATURES, "plain.npz"),
    "packed npz": Reader(FEATURES, "packed.npz"),
    "npy": Reader(FEATURES, "a.npy"),
    "safetensors": Reader(FEATURES, "a.safetensors"),
    "parquet": Reader(FEATURES, "a.parquet"),
    "csv": Reader(FEATURES, "a.csv"),
    "pt": Reader(FEATURES, "a.pt"),
    "arrow": Reader(FEATURES, "a.arrow"),
    "network": Reader(NETWORK, "network.safetensors"),
    "checkpoint": Reader(NETWORK, "checkpoint.safetensors"),
    "records": Reader("resultant.training.records:read_lines", "records.jsonl"),
    "metrics": Reader("resultant.training.log:read_metrics", "metrics.jsonl"),
    "images": Reader(IMAGES, "images"),
    "image table": Reader(IMAGES, "table"),
    "class names": Reader("resultant.images.opening:read_class_names", "names.txt"),
    "cifar": Reader(CIFAR, "cifar10.npz"),
    "cifar archive": Reader(CIFAR, "cifar10.tar.gz"),
    "statistics": Reader("resultant:ClassStatistics.load", "statistics.safetensors"),
    "weights": Reader("resultant.training.encoder:read_weights", "weights.pth"),
}


def write_inputs(folder: Path) -> Path:
    """Write a valid input for every reader and every command into a new folder; return it."""
    folder.mkdir()
    write_features(folder)
    write_images(folder)
    write_network(folder)
    (folder / "names.txt").write_text("label\tname\n0\tcat\n1\tdog\n2\tbird, small\n")
    return folder


def write_features(folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.feather
    import pyarrow.parquet
    import torch

    from resultant import ClassStatistics
    from resultant.features import write_store

    rng = np.random.default_rng(3)
    arrays: dict[str, Any] = {}
    for split, number in (("train", 48), ("test", 24)):
        labels = np.arange(number) % 4
        rows = np.eye(4, 8)[labels] + 0.4 * rng.standard_normal((number, 8))
        arrays |= {f"{split}/features": rows.astype(np.float32), f"{split}/labels": labels}
    write_store(folder / "a.safetensors", {k: torch.from_numpy(a) for k, a in arrays.items()}, {})
    named = {name.replace("/", "_"): a for name, a in arrays.items()}
    np.savez(folder / "plain.npz", **named)
    np.savez_compressed(folder / "packed.npz", **named)
    x, y = arrays["train/features"], arrays["train/labels"]
    np.save(folder / "a.npy", x)
    np.save(folder / "a_labels.npy", y)
    torch.save({"features": torch.from_numpy(x), "labels": torch.from_numpy(y)}, folder / "a.pt")
    table = pa.table({"embedding": list(x), "label": [f"class {label}" for label in y]})
    pyarrow.parquet.write_table(table, folder / "a.parquet")
    pyarrow.feather.write_feather(table, str(folder / "a.arrow"))
    lines = [",".join(map(str, (label, *row))) for label, row in zip(y, x, strict=True)]
    names = ",".join(["label", *(f"x{i}" for i in range(8))])
    (folder / "a.csv").write_text("\n".join([names, *lines, ""]))
    sums = ClassStatistics(4, 8)
    sums.update(torch.nn.functional.normalize(torch.from_numpy(x), dim=1), torch.from_numpy(y))
    sums.save(folder / "statistics.safetensors")


def write_images(folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet
    from PIL import Image

    from tiny_cifar import tiny_cifar

    for label in range(2):
        for i, kind in enumerate(("jpg", "jpg", "webp", "png", "jpg")):
            split = "train" if i < 4 else "test"
            path = folder / "images" / split / f"class {label}" / f"{i}.{kind}"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (24, 16), (90 * label, 40 * i, 90)).save(path)
    paths = sorted((folder / "images").rglob("*.png"))
    rows = [{"bytes": path.read_bytes(), "path": path.name} for path in paths]
    (folder / "table").mkdir()
    labels = [path.parent.name for path in paths]
    table = pa.table({"image": rows, "label": labels})
    pyarrow.parquet.write_table(table, folder / "table" / "train-0.parquet")
    data = tiny_cifar(10, 6, 3)
    names = ("train_images", "train_labels", "test_images", "test_labels")
    np.savez(folder / "cifar10.npz", **{name: getattr(data, name).numpy() for name in names})
    rng = np.random.default_rng(2)
    inner = folder / "cifar-10-batches-py"
    inner.mkdir()
    for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
        pixels = rng.integers(1, 256, (4, 3072)).astype(np.uint8)
        batch = {b"data": pixels, b"labels": [0, 1, 2, 3], b"filenames": [b"a.png"] * 4}
        (inner / name).write_bytes(pickle.dumps(batch, 2))
    with tarfile.open(folder / "cifar10.tar.gz", "w:gz") as archive:
        archive.add(inner, inner.name)
    shutil.rmtree(inner)


def write_network(folder: Path) -> None:
    """Train a network for two epochs, and keep all that the training writes."""
    import torch

    from resultant.cli.main import main

    words = "train images --device cpu --architecture test_resnet --size 32 --dim 8 --batch-size 4"
    words += f" --epochs 2 --data {folder / 'images'} --out {folder / 'trained'}"
    if main(words.split()):
        sys.exit("expected a training without faults to end well")
    trained = folder / "trained"
    run = trained / "native-seed0"
    (run / "native-seed0.safetensors").rename(folder / "network.safetensors")
    for path in (run / "checkpoint.safetensors", run / "metrics.jsonl", trained / "records.jsonl"):
        path.rename(folder / path.name)
    shutil.rmtree(trained)
    torch.save({"a.weight": torch.ones(2, 3)}, folder / "weights.pth")
