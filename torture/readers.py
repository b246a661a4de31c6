"""The readers of files from outside, each with a valid input of its format."""

import shutil
import sys
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
    import torch

    from embedding_files import write
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
    write(folder / "x.npy", {"a": x, "a_labels": y})
    write(folder / "a.pt", {"features": x, "labels": y})
    words = np.array([f"class {label}" for label in y])
    for kind in (".parquet", ".arrow"):
        write(folder / f"a{kind}", {"embedding": x, "label": words})
    write(folder / "a.csv", {"label": y} | {f"x{i}": x[:, i] for i in range(8)})
    sums = ClassStatistics(4, 8)
    sums.update(torch.nn.functional.normalize(torch.from_numpy(x), dim=1), torch.from_numpy(y))
    sums.save(folder / "statistics.safetensors")


def write_images(folder: Path) -> None:
    from PIL import Image

    from images.photos import write_parquet
    from reproduction.cifar.test_data import batch_files, tar, tiny
    from tiny_cifar import write_cifar

    for label in range(2):
        for i, kind in enumerate(("jpg", "jpg", "webp", "png", "jpg")):
            split = "train" if i < 4 else "test"
            path = folder / "images" / split / f"class {label}" / f"{i}.{kind}"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (24, 16), (90 * label, 40 * i, 90)).save(path)
    paths = sorted((folder / "images" / "train").rglob("*.*"))
    images, labels = [path.read_bytes() for path in paths], [path.parent.name for path in paths]
    write_parquet(folder / "table" / "train-0.parquet", labels, images=images)
    write_cifar(folder, 6)
    tar(folder / "cifar10.tar.gz", batch_files("cifar10", tiny("cifar10")))


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
