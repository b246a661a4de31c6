"""The readers of files from outside, each with a valid input of its format."""

from __future__ import annotations

import pickle
import shutil
import tarfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


class Reader(NamedTuple):
    """A reader: writes a valid input in a folder and returns it; reads an input."""

    write: Callable[[Path, Path], Path]
    read: Callable[[Path], object]


def features(path: Path) -> None:
    from resultant.features.prepare import check_features, prepare
    from resultant.features.store import FeatureStore

    check_features(prepare(FeatureStore.open(path)), lambda *_: None)


def images(path: Path) -> None:
    from resultant.images.opening import open_images

    lists = path.suffix == ".txt"
    splits = open_images(
        None if lists else path, train_list=path if lists else None, images=path.parent
    )
    for source in (splits.train, splits.judge):
        for i in range(0 if source is None else len(source)):
            source.read(i)  # type: ignore[union-attr]


def network(path: Path) -> None:
    from resultant.training.loading import load_network

    load_network(path)


def records(path: Path) -> None:
    from resultant.training.records import read_lines

    read_lines(path)


def metrics(path: Path) -> None:
    from resultant.training.log import read_metrics

    read_metrics(path)


def proco(path: Path) -> None:
    from resultant.training.proco_checkpoint import read_proco_checkpoint

    read_proco_checkpoint(path)


def weights(path: Path) -> None:
    from resultant.networks.encoder_weights import read_weights

    read_weights(str(path))


def cifar(path: Path) -> None:
    from resultant.images.cifar import load_cifar

    load_cifar("cifar10", path)


def statistics(path: Path) -> None:
    from resultant.classes.statistics import ClassStatistics

    ClassStatistics.load(path)


def class_names(path: Path) -> None:
    from resultant.images.labelling import read_class_names

    read_class_names(path)


def _arrays() -> dict[str, Any]:
    from embedding_files import NAMES, T, X, Y, Z

    return {
        "train_features": X,
        "train_labels": NAMES[Y],
        "test_features": Z,
        "test_labels": NAMES[T],
    }


def feature_table(split: bool = True) -> Any:
    import pyarrow as pa

    a = _arrays()
    rows = [*a["train_features"].tolist(), *a["test_features"].tolist()]
    columns = {"embedding": rows, "label": [*a["train_labels"], *a["test_labels"]]}
    if split:
        columns["split"] = ["train"] * len(a["train_labels"]) + ["test"] * len(a["test_labels"])
    return pa.table(columns)


def _npz(folder: Path, inputs: Path) -> Path:
    np.savez(folder / "a.npz", **_arrays())
    return folder / "a.npz"


def _packed_npz(folder: Path, inputs: Path) -> Path:
    np.savez_compressed(folder / "a.npz", **_arrays())
    return folder / "a.npz"


def _npy(folder: Path, inputs: Path) -> Path:
    a = _arrays()
    np.save(folder / "a_labels.npy", a["train_labels"])
    np.save(folder / "a.npy", a["train_features"])
    return folder / "a.npy"


def _parquet(folder: Path, inputs: Path) -> Path:
    import pyarrow.parquet as pq

    pq.write_table(feature_table(), folder / "a.parquet")
    return folder / "a.parquet"


def _csv(folder: Path, inputs: Path) -> Path:
    a = _arrays()
    lines = ["label," + ",".join(f"x{i}" for i in range(6))]
    for label, row in zip(a["train_labels"], a["train_features"], strict=True):
        lines.append(f"{label}," + ",".join(map(str, row)))
    (folder / "a.csv").write_text("\n".join(lines) + "\n")
    return folder / "a.csv"


def _pt(folder: Path, inputs: Path) -> Path:
    import torch

    a = _arrays()
    labels = torch.arange(len(a["train_labels"])) % 5
    torch.save({"features": torch.tensor(a["train_features"]), "labels": labels}, folder / "a.pt")
    return folder / "a.pt"


def _arrow(folder: Path, inputs: Path, compression: str | None = None) -> Path:
    import pyarrow as pa

    table, path = feature_table(), str(folder / "a.arrow")
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, table.schema, options=options) as w:
        w.write_table(table)
    return folder / "a.arrow"


def _hugging_face(folder: Path, inputs: Path) -> Path:
    import json

    import pyarrow as pa

    data = folder / "data"
    data.mkdir()
    table = feature_table(split=False)
    with (
        pa.OSFile(str(data / "data-00000-of-00001.arrow"), "wb") as sink,
        pa.ipc.new_stream(sink, table.schema) as writer,
    ):
        writer.write_table(table)
    names = {"_data_files": [{"filename": "data-00000-of-00001.arrow"}], "_split": "train"}
    (data / "state.json").write_text(json.dumps(names))
    (data / "dataset_info.json").write_text("{}")
    return data


def _copied(name: str) -> Callable[[Path, Path], Path]:
    def write(folder: Path, inputs: Path) -> Path:
        source = inputs / name
        copy = shutil.copytree if source.is_dir() else shutil.copyfile
        return Path(copy(source, folder / source.name))

    return write


def _list(folder: Path, inputs: Path) -> Path:
    shutil.copytree(inputs / "images", folder / "images")
    lines = []
    for path in sorted((folder / "images" / "train").rglob("*.png")):
        lines.append(f"{path.relative_to(folder)},{path.parent.name}\n")
    (folder / "train.txt").write_text("".join(lines))
    return folder / "train.txt"


def _jpeg(folder: Path, inputs: Path) -> Path:
    from PIL import Image

    for label in range(2):
        for i, kind in enumerate(("jpg", "jpg", "webp", "png")):
            path = folder / "images" / f"class {label}" / f"{i}.{kind}"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (24, 16), (90 * label, 40 * i, 90)).save(path)
    return folder / "images"


def _image_table(folder: Path, inputs: Path) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    data = folder / "data"
    data.mkdir()
    paths = sorted((inputs / "images").rglob("*.png"))
    images = [{"bytes": path.read_bytes(), "path": path.name} for path in paths]
    labels = [path.parent.name for path in paths]
    pq.write_table(pa.table({"image": images, "label": labels}), data / "train-0.parquet")
    return data


def _cifar_batches(folder: Path, inputs: Path) -> Path:
    """The batches that the archive of CIFAR-10 holds."""
    inner = folder / "in" / "cifar-10-batches-py"
    inner.mkdir(parents=True)
    rng = np.random.default_rng(2)
    for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
        pixels = rng.integers(1, 256, (4, 3072)).astype(np.uint8)
        batch = {b"data": pixels, b"labels": [0, 1, 2, 3], b"filenames": [b"a.png"] * 4}
        (inner / name).write_bytes(pickle.dumps(batch, 2))
    return folder / "in"


def _cifar_archive(folder: Path, inputs: Path) -> Path:
    batches = _cifar_batches(folder, inputs)
    with tarfile.open(folder / "mine.tar.gz", "w:gz") as archive:
        archive.add(batches / "cifar-10-batches-py", "cifar-10-batches-py")
    shutil.rmtree(batches)
    return folder / "mine.tar.gz"


def _statistics(folder: Path, inputs: Path) -> Path:
    import torch

    from resultant import ClassStatistics

    known = ClassStatistics(3, 4)
    known.update(torch.nn.functional.normalize(torch.ones(6, 4), dim=1), torch.arange(6) % 3)
    known.save(folder / "statistics.safetensors")
    return folder / "statistics.safetensors"


def _class_names(folder: Path, inputs: Path) -> Path:
    (folder / "names.txt").write_text("label\tname\n0\tcat\n1\tdog\n2\tbird, small\n")
    return folder / "names.txt"


READERS = {
    "npz": Reader(_npz, features),
    "packed npz": Reader(_packed_npz, features),
    "npy": Reader(_npy, features),
    "safetensors": Reader(_copied("a.safetensors"), features),
    "parquet": Reader(_parquet, features),
    "csv": Reader(_csv, features),
    "pt": Reader(_pt, features),
    "arrow": Reader(_arrow, features),
    "packed arrow": Reader(partial(_arrow, compression="zstd"), features),
    "hugging face": Reader(_hugging_face, features),
    "network": Reader(_copied("network.safetensors"), network),
    "checkpoint": Reader(_copied("checkpoint.safetensors"), network),
    "records": Reader(_copied("records.jsonl"), records),
    "metrics": Reader(_copied("metrics.jsonl"), metrics),
    "list": Reader(_list, images),
    "images": Reader(_jpeg, images),
    "image table": Reader(_image_table, images),
    "class names": Reader(_class_names, class_names),
    "cifar": Reader(_copied("cifar10.npz"), cifar),
    "cifar batches": Reader(_cifar_batches, cifar),
    "cifar archive": Reader(_cifar_archive, cifar),
    "statistics": Reader(_statistics, statistics),
    "proco": Reader(_copied("ckpt.pth.tar"), proco),
    "weights": Reader(_copied("weights.pth"), weights),
}
