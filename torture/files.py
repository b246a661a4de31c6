"""Mutated files of every format for every reader.

Property: a reader succeeds or ends with an error of one line; no traceback, no write, no socket,
no program, no memory beyond the stated bound. Files that break it are minimised and kept in
``torture/kept/READER/``, where the tests read them again.
"""

from __future__ import annotations

import hashlib
import random
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from resultant.cli import main as cli
from torture import KEPT
from torture.commands import Bench, Guard
from torture.mutations import mutate, replace_file
from torture.runner import Trial
from torture.watched import Outcome, run

SECONDS = 20.0
# Memory that reading a file may take beyond the size of the file, and per byte of the file.
MEMORY, PER_BYTE = 256 << 20, 64
LINE = 2100


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


def _arrays() -> dict[str, Any]:
    from embedding_files import NAMES, T, X, Y, Z

    return {
        "train_features": X,
        "train_labels": NAMES[Y],
        "test_features": Z,
        "test_labels": NAMES[T],
    }


def _table(split: bool = True) -> Any:
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

    pq.write_table(_table(), folder / "a.parquet")
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


def _arrow(folder: Path, inputs: Path) -> Path:
    import pyarrow as pa

    table = _table()
    with pa.OSFile(str(folder / "a.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as w:
        w.write_table(table)
    return folder / "a.arrow"


def _hugging_face(folder: Path, inputs: Path) -> Path:
    import json

    import pyarrow as pa

    data = folder / "data"
    data.mkdir()
    table = _table(split=False)
    with (
        pa.OSFile(str(data / "data-00000-of-00001.arrow"), "wb") as sink,
        pa.ipc.new_stream(sink, table.schema) as writer,
    ):
        writer.write_table(table)
    names = {"_data_files": [{"filename": "data-00000-of-00001.arrow"}], "_split": "train"}
    (data / "state.json").write_text(json.dumps(names))
    (data / "dataset_info.json").write_text("{}")
    return data


def _h5ad(folder: Path, inputs: Path) -> Path:
    import h5py

    a = _arrays()
    with h5py.File(folder / "a.h5ad", "w") as file:
        file["X"] = a["train_features"]
        table = file.create_group("obs")
        table.attrs["_index"] = "_index"
        number = len(a["train_labels"])
        text = h5py.string_dtype()
        table["_index"] = np.array([f"cell-{i}" for i in range(number)], dtype=text)
        table["cell_type/categories"] = np.array(["B", "NK", "T"], dtype=text)
        table["cell_type/codes"] = (np.arange(number) % 3).astype(np.int8)
    return folder / "a.h5ad"


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


READERS = {
    "npz": Reader(_npz, features),
    "packed npz": Reader(_packed_npz, features),
    "npy": Reader(_npy, features),
    "safetensors": Reader(_copied("a.safetensors"), features),
    "parquet": Reader(_parquet, features),
    "csv": Reader(_csv, features),
    "pt": Reader(_pt, features),
    "arrow": Reader(_arrow, features),
    "hugging face": Reader(_hugging_face, features),
    "h5ad": Reader(_h5ad, features),
    "network": Reader(_copied("network.safetensors"), network),
    "checkpoint": Reader(_copied("checkpoint.safetensors"), network),
    "records": Reader(_copied("records.jsonl"), records),
    "metrics": Reader(_copied("metrics.jsonl"), metrics),
    "list": Reader(_list, images),
    "images": Reader(_jpeg, images),
    "cifar": Reader(_copied("cifar10.npz"), cifar),
    "proco": Reader(_copied("ckpt.pth.tar"), proco),
    "weights": Reader(_copied("weights.pth"), weights),
}


class Files:
    """mutated files of every format for every reader, 10,000 in the long form"""

    def __init__(self, bench: Bench, names: tuple[str, ...] = tuple(READERS)) -> None:
        self.bench, self.readers = bench, names
        self.known: set[str] = set()

    def prepare(self) -> None:
        self.folder = self.bench.scratch / "files"
        self.folder.mkdir()

    def trials(self, rng: random.Random) -> Iterator[Trial]:
        """Files that once broke a reader and valid files, then mutations of each format in turn."""
        for name, path in kept():
            yield Trial(f"kept {path}", lambda n=name, p=path: self.broken(self.read(n, p), p))
        for name in self.readers:
            yield Trial(f"{name}, unchanged", lambda n=name: self.valid(n))
        number = 0
        while True:
            for name in self.readers:
                number += 1
                seed = rng.getrandbits(48)
                whole = number % 50 == 0 and READERS[name].read is features
                arguments = name, seed, whole
                yield Trial(f"{name}, mutation {seed}", lambda a=arguments: self.mutated(*a))

    def valid(self, name: str) -> str:
        path = self.fresh(name)
        end = self.read(name, path)
        return self.broken(end, path) or (end.errors if end.status else "")

    def mutated(self, name: str, seed: int, whole: bool) -> str:
        rng, path = random.Random(seed), self.fresh(name)
        inside = [path, *path.parent.glob("*_labels.npy")]
        if path.is_dir():
            inside = sorted(p for p in path.rglob("*") if p.is_file())
        target = rng.choice(inside)
        how = replace_file(target, rng) if rng.random() < 0.03 else ""
        if not how:
            target.write_bytes(mutate(target.read_bytes(), rng))
        end = self.analyzed(path) if whole else self.read(name, path)
        failure = self.broken(end, path)
        if not failure or (sign := signature(name, failure)) in self.known:
            return ""
        self.known.add(sign)
        if how:
            return f"{how} in the place of the file: {failure}"
        self.minimise(name, path, target, sign)
        return f"{failure} (kept as {keep(name, path, sign)})"

    def fresh(self, name: str) -> Path:
        shutil.rmtree(self.folder)
        self.folder.mkdir()
        return READERS[name].write(self.folder, self.bench.inputs)

    def read(self, name: str, path: Path) -> Outcome:
        return read(READERS[name].read, path, self.bench.scratch)

    def analyzed(self, path: Path) -> Outcome:
        """Read a file by the command."""
        self.bench.clear()
        words = ["analyze", str(path), "--references", "none", "--out", str(self.bench.out / "a")]
        guard = Guard(self.bench.out, self.bench.temporary)
        self.guard = guard
        end = run(lambda: cli.main(words), self.bench.scratch, guard, seconds=120, memory=4 << 30)
        return with_refused(end, guard)

    def broken(self, end: Outcome, path: Path) -> str:
        size = sum(p.lstat().st_size for p in (path, *path.parent.rglob("*")) if p.is_file())
        return violation(end, min(size, 1 << 30))

    def minimise(self, name: str, path: Path, target: Path, sign: str) -> None:
        """Cut parts out of a file while the failure stays, within some seconds."""
        data, until = target.read_bytes(), time.monotonic() + SECONDS
        size = len(data) // 2
        while size:
            for start in range(0, len(data), size):
                if time.monotonic() > until:
                    size = 0
                    break
                target.write_bytes(data[:start] + data[start + size :])
                failure = self.broken(self.read(name, path), path)
                if failure and signature(name, failure) == sign:
                    data = target.read_bytes()
                    break
            else:
                size //= 2
        target.write_bytes(data)


def read(reader: Callable[[Path], object], path: Path, scratch: Path) -> Outcome:
    """Read a file in a child that may not write, as a command would: errors become one line."""
    guard = Guard()

    def command() -> int:
        cli.run = lambda arguments: int(reader(path) is not None and 0)
        return cli.main([])

    return with_refused(run(command, scratch, guard, seconds=SECONDS, memory=4 << 30), guard)


def with_refused(end: Outcome, guard: Guard) -> Outcome:
    """Name calls that were refused."""
    lines = "".join(f"REFUSED {call}\n" for call in guard.refused)
    return end._replace(errors=end.errors + lines)


def violation(end: Outcome, size: int) -> str:
    """Return the broken property, or an empty text."""
    lines = end.errors.splitlines()
    if end.traceback:
        return f"traceback: {' | '.join(lines[-4:])[-600:]}"
    if end.timed_out:
        return f"takes more than {SECONDS:g} s"
    if end.status < 0:
        return f"ends with signal {-end.status}"
    if refused := [line for line in lines if line.startswith("REFUSED")]:
        return f"does what it may not do: {refused[0]}"
    complaint = [line for line in lines if line.startswith("resultant: ")]
    if end.status and len(complaint) != 1:
        return f"status {end.status} with {len(complaint)} lines: {end.errors[-300:]!r}"
    if any(len(line) > LINE for line in lines):
        return f"a line of {max(map(len, lines)):,} characters"
    if re.search(r"[\x00-\x08\x0b-\x1f\x7f]", end.errors):
        return f"control characters on the terminal: {end.errors[-200:]!r}"
    if end.memory > MEMORY + PER_BYTE * size:
        return f"takes {end.memory >> 20} MiB of memory for a file of {size:,} bytes"
    return ""


def signature(name: str, failure: str) -> str:
    """A text that is the same for failures with one cause."""
    places = re.findall(r'File "[^"]*?([^/"]+)", line (\d+)', failure)
    kind = re.sub(r"0x\w+|\d+|'[^']*'|/\S+", "#", failure)
    return f"{name} {places or kind[:60]}"


def keep(name: str, path: Path, sign: str) -> str:
    """Keep an input with the regressions; return its place."""
    folder = KEPT / name.replace(" ", "-") / hashlib.sha256(sign.encode()).hexdigest()[:8]
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    source = path.parent
    size = sum(p.stat().st_size for p in source.rglob("*") if p.is_file() and not p.is_symlink())
    if size > 1 << 20:
        return f"nothing, {size:,} bytes are too many"
    shutil.copytree(source, folder)
    return str(folder.relative_to(KEPT.parent.parent))


def kept() -> list[tuple[str, Path]]:
    """Return the reader and the input of every regression."""
    found = []
    for folder in sorted(KEPT.glob("*/*")):
        name = folder.parent.name.replace("-", " ")
        inputs = [p for p in folder.iterdir() if not p.name.endswith("_labels.npy")]
        first = next((p for p in inputs if p.suffix == ".txt"), inputs[0])
        found.append((name, first))
    return found
