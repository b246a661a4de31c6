"""CIFAR in every form, on synthetic images; long-tailed subsets; broken and hostile files."""

import gzip
import hashlib
import io
import os
import pickle
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from PIL import Image

from resultant.images.longtail import long_tail_counts, long_tail_indices
from resultant_reproduction.cifar import data as cifar
from resultant_reproduction.cifar.data import KINDS, load_cifar

Parts = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def tiny(name: str) -> Parts:
    """Return pixels [N, 3, 32, 32] and labels: two training images and one test image per class."""
    rng, C = np.random.default_rng(5), len(KINDS[name].classes)
    pixels = rng.integers(0, 256, (3 * C, 3, 32, 32), dtype=np.uint8)
    train = rng.permutation(np.repeat(np.arange(C), 2))
    return pixels[: 2 * C], train, pixels[2 * C :], rng.permutation(C)


class Python2(pickle._Pickler):
    """Pickles as those of Python 2 in protocol 2, where strings are bytes."""

    def save_bytes(self: Any, value: str | bytes) -> None:
        data = value.encode() if isinstance(value, str) else value
        self.write(pickle.BINSTRING + struct.pack("<i", len(data)) + data)

    dispatch: Any = pickle._Pickler.dispatch | {str: save_bytes, bytes: save_bytes}


def python2(content: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    Python2(file, 2).dump(content)
    return file.getvalue().replace(b"cnumpy._core.", b"cnumpy.core.")


def modern(protocol: int) -> Callable[[dict[str, Any]], bytes]:
    return lambda content: pickle.dumps({k.encode(): v for k, v in content.items()}, protocol)


def binary(content: dict[str, Any]) -> bytes:
    """Return records of labels and pixels; those of CIFAR-100 have a coarse label first."""
    labels = np.array(content.get("labels", content.get("fine_labels")), np.uint8)[:, None]
    coarse = np.full((len(labels), int("fine_labels" in content)), 9, np.uint8)
    return np.hstack((coarse, labels, content["data"])).tobytes()


WRITERS = {"python2": python2, "0": modern(0), "4": modern(4), "binary": binary}


def batch_files(name: str, parts: Parts, form: str = "python2") -> dict[str, bytes]:
    kind, end = KINDS[name], ".bin" if form == "binary" else ""
    x, y, u, v = parts
    pieces = np.array_split(np.arange(len(x)), len(kind.train))
    splits = [(n, x[i], y[i]) for n, i in zip(kind.train, pieces, strict=True)]
    files = {}
    for file, pixels, labels in [*splits, (kind.test, u, v)]:
        content = {"data": pixels.reshape(-1, 3072), kind.labels: labels.tolist()}
        content |= {"filenames": ["a.png"] * len(labels), "batch_label": "synthetic"}
        files[file + end] = WRITERS[form](content)
    return files


def put(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def tar(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


def same(data: cifar.Cifar, parts: Parts) -> None:
    tensors = (data.train_images, data.train_labels, data.test_images, data.test_labels)
    for tensor, array in zip(tensors, parts, strict=True):
        assert (tensor.numpy() == array).all()
    assert data.train_images.dtype == torch.uint8 and data.train_labels.dtype == torch.int64
    assert data.num_classes == len(data.class_names) == len(set(data.class_names))


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("form", WRITERS)
def test_batches_in_folders_and_archives(name: str, form: str, tmp_path: Path) -> None:
    """Archives are read in memory: nothing is written."""
    parts = tiny(name)
    files = batch_files(name, parts, form)
    folder = put(tmp_path / "a" / KINDS[name].folders[".bin" if form == "binary" else ""], files)
    for root in (folder, folder.parent):
        same(load_cifar(name, root), parts)
    (tmp_path / "in").mkdir()
    hostile = {f"../../{n}": data for n, data in files.items()} | {"../evil": b"x", "/abs": b"y"}
    same(load_cifar(name, tar(tmp_path / "in" / "mine.tar.gz", hostile)), parts)
    assert sorted(os.listdir(tmp_path)) == ["a", "in"]


def test_official_archive_has_the_official_checksum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tar(tmp_path / "cifar-10-python.tar.gz", batch_files("cifar10", tiny("cifar10")))
    with pytest.raises(ValueError, match=r"python\.tar\.gz to have the MD5 c58f30108f718f92"):
        load_cifar("cifar10", tmp_path)
    md5 = hashlib.md5((tmp_path / "cifar-10-python.tar.gz").read_bytes()).hexdigest()
    monkeypatch.setitem(cifar.MD5, "cifar-10-python.tar.gz", md5)
    data = load_cifar("cifar10", tmp_path)
    same(data, tiny("cifar10"))
    assert data.members(2.0).tolist() == long_tail_indices(data.train_labels, 10, 2.0).tolist()


NPZ = ("train_images", "train_labels", "test_images", "test_labels")


def test_npz(tmp_path: Path) -> None:
    x, y, u, v = parts = tiny("cifar10")
    last = x.transpose(0, 2, 3, 1), y, u.transpose(0, 2, 3, 1), v
    for names, arrays in ((NPZ, parts), (("x_train", "y_train", "x_test", "y_test"), last)):
        named: dict[str, Any] = dict(zip(names, arrays, strict=True))
        np.savez_compressed(tmp_path / "cifar10.npz", **named)
        same(load_cifar("cifar10", tmp_path), parts)
        same(load_cifar("cifar10", tmp_path / "cifar10.npz"), parts)


@pytest.mark.slow
@pytest.mark.parametrize("by_number", [False, True])
def test_image_folder(by_number: bool, tmp_path: Path) -> None:
    parts = tiny("cifar100")
    names = list(KINDS["cifar100"].classes)
    expected = []
    for split, x, y in (("train", *parts[:2]), ("test", *parts[2:])):
        for i, (pixels, c) in enumerate(zip(x, y, strict=True)):
            folder = tmp_path / split / (str(c) if by_number else names[c])
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels.transpose(1, 2, 0)).save(folder / f"{i:03d}.png")
        order = np.argsort(y, kind="stable")
        expected += [x[order], y[order]]
    same(load_cifar("cifar100", tmp_path), (expected[0], expected[1], expected[2], expected[3]))
    with pytest.raises(ValueError, match="a folder for each of the 10 classes of cifar10"):
        load_cifar("cifar10", tmp_path)
    odd = next((tmp_path / "test").rglob("*.png"))
    odd.write_bytes(odd.read_bytes()[:100])
    with pytest.raises(ValueError, match=f"expected {odd} to be a whole image") as raised:
        load_cifar("cifar100", tmp_path)
    # Images of CIFAR cannot be left out.
    assert not hasattr(raised.value, "remedy")


def test_download_goes_through_torchvision(tmp_path: Path, monkeypatch: Any) -> None:
    from torchvision import datasets

    parts = tiny("cifar100")

    def fetch(root: str, download: bool) -> None:
        assert download
        put(Path(root) / "cifar-100-python", batch_files("cifar100", parts))

    monkeypatch.setattr(datasets, "CIFAR100", fetch)
    same(load_cifar("cifar100", tmp_path, download=True), parts)


class Call(NamedTuple):
    """An object that is called with a path when it is unpickled."""

    function: Callable[..., Any]
    path: str

    def __reduce__(self) -> Any:
        return self.function, (self.path,)


def forms(data: bytes) -> dict[str, bytes]:
    return {"test_batch": data} | {f"data_batch_{i}": data for i in range(1, 6)}


@pytest.mark.parametrize("protocol", [0, 2, 5])
@pytest.mark.parametrize("call", [os.mkdir, eval, np.load], ids=lambda call: call.__name__)
def test_a_hostile_batch_runs_nothing(protocol: int, call: Any, tmp_path: Path) -> None:
    proof = tmp_path / "proof"
    pixels, hostile = np.zeros((2, 3072), np.uint8), Call(call, str(proof))
    data = pickle.dumps({b"data": pixels, b"labels": [0, 1], b"x": hostile}, protocol)
    put(tmp_path / "cifar-10-batches-py", forms(data))
    with pytest.raises(ValueError, match=r"data_batch_1 to be a CIFAR batch.*got: the name"):
        load_cifar("cifar10", tmp_path)
    assert not proof.exists()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "got: "),
        (b"garbage", "got: "),
        (python2({"labels": [0]})[:-4], "got: "),
        (b"(ios\nsystem\n.", "the name os.system"),
        (b"\x80\x02\x82\x01.", "got: "),
        (b"(" * 100_000 + b"t" * 100_000 + b".", "got: "),
        (python2({"data": np.zeros((2, 5), np.uint8)}), r"got: data uint8 \[2, 5\]"),
        (pickle.dumps({"data": np.zeros((2, 3072))}, 2), "data float64"),
        (pickle.dumps({"data": np.zeros((2, 3072), np.uint8), "labels": "ab"}), "other labels"),
    ],
)
def test_broken_batches(data: bytes, message: str, tmp_path: Path) -> None:
    put(tmp_path, forms(data))
    with pytest.raises(ValueError, match=f"data_batch_1 to be a CIFAR batch.*{message}"):
        load_cifar("cifar10", tmp_path)


def test_cifar_errors_name_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(message: str, path: Path, name: str = "cifar10") -> None:
        with pytest.raises(ValueError, match=message):
            load_cifar(name, path)

    refused("one of cifar10, cifar100, got 'mnist'", tmp_path, "mnist")
    refused(r"as one of cifar-10-batches-py.*got none of them", tmp_path)
    refused("got no such folder", tmp_path / "nowhere")
    (tmp_path / "text").write_text("")
    refused(r"text to be a folder, a \.tar\.gz or an \.npz", tmp_path / "text")
    files = batch_files("cifar10", tiny("cifar10"))
    folder = put(tmp_path / "a", files)
    (folder / "data_batch_4").unlink()
    refused(f"expected {folder} to hold data_batch_4, got none", folder)
    pixels = np.zeros((2, 3072), np.uint8)
    put(folder, {"data_batch_4": python2({"data": pixels, "labels": [1, 10]})})
    refused(r"labels of the train images .* in \[0, 10\), got 10 at", folder)
    folder = put(tmp_path / "b", batch_files("cifar10", tiny("cifar10"), "binary"))
    put(folder, {"test_batch.bin": b"123"})
    refused(r"test_batch.bin to hold records of 3073 bytes, got 3 b", folder)
    part = {n: data for n, data in files.items() if n != "test_batch"}
    refused(r"c\.tar\.gz to hold test_batch, got none", tar(tmp_path / "c.tar.gz", part))
    whole = (tmp_path / "c.tar.gz").read_bytes()
    for cut in (b"", b"123", whole[: len(whole) // 2], gzip.compress(b"x" * 2000)):
        (tmp_path / "d.tar.gz").write_bytes(cut)
        refused(r"expected .*d\.tar\.gz to (be a whole|hold)", tmp_path / "d.tar.gz")
    monkeypatch.setattr("resultant.features.declared.total_memory", lambda: 1000)
    refused(r"c\.tar\.gz .* bytes of data_batch_1, beyond half", tmp_path / "c.tar.gz")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"train_labels": None}, "to hold train_images, train_labels"),
        ({"train_images": np.zeros((20, 3, 32, 32))}, "uint8, got float64"),
        ({"train_images": np.zeros((20, 3, 32, 31), np.uint8)}, r"got uint8 \(20, 3, 32, 31\)"),
        ({"test_labels": np.zeros(9, int)}, r"integer labels \[10\].*got int64 \(9,\)"),
        ({"test_labels": np.zeros(10)}, "got float64"),
        ({"train_images": np.array([None])}, "got train_images .object, which is never unpickled"),
    ],
)
def test_npz_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    arrays: dict[str, Any] = dict(zip(NPZ, tiny("cifar10"), strict=True)) | change
    arrays = {n: a for n, a in arrays.items() if a is not None}
    np.savez(tmp_path / "cifar10.npz", **arrays)
    with pytest.raises(ValueError, match=message):
        load_cifar("cifar10", tmp_path)


SIZES = {
    (10, 10): 20_431,
    (10, 50): 13_996,
    (10, 100): 12_406,
    (100, 10): 19_573,
    (100, 50): 12_608,
    (100, 100): 10_847,
}


def balanced(num_classes: int, n: int = 50_000) -> np.ndarray:
    return np.random.default_rng(3).permutation(np.repeat(np.arange(num_classes), n // num_classes))


@pytest.mark.parametrize(("num_classes", "imbalance"), SIZES)
def test_subsets_are_those_of_the_global_generator(num_classes: int, imbalance: int) -> None:
    y = balanced(num_classes)
    np.random.seed(0)  # noqa: NPY002
    expected, size = [], len(y) / num_classes
    for c in range(num_classes):
        members = np.where(y == c)[0]
        np.random.shuffle(members)  # noqa: NPY002
        expected += members[: int(size * (1 / imbalance) ** (c / (num_classes - 1.0)))].tolist()
    np.random.seed(7)  # noqa: NPY002
    kept = long_tail_indices(torch.from_numpy(y), num_classes, imbalance)
    after = np.random.rand()  # noqa: NPY002
    assert after == np.random.RandomState(7).rand()
    assert kept.dtype == torch.int64 and kept.tolist() == expected
    assert len(kept) == SIZES[num_classes, imbalance]
    counts = long_tail_counts(50_000 // num_classes, num_classes, imbalance)
    assert (np.bincount(y[kept.numpy()]) == counts.numpy()).all()


def test_subsets_are_nested_and_seeded() -> None:
    y = balanced(10, 1000)
    sets = [set(long_tail_indices(y, 10, f).tolist()) for f in (100, 50, 10, 1)]
    assert sets[0] < sets[1] < sets[2] < sets[3] == set(range(1000))
    assert set(long_tail_indices(y, 10, 10, seed=1).tolist()) != sets[2]
    # Unequal classes are cut to the smallest.
    assert long_tail_counts(5, 1, 10).tolist() == [5]
    labels = np.array([0] * 9 + [1] * 4 + [2] * 6)
    kept = labels[long_tail_indices(labels, 3, 4.0).numpy()]
    assert np.bincount(kept).tolist() == [4, 2, 1]


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (long_tail_counts, (0, 10, 10), "n_max to be an integer >= 1, got 0"),
        (long_tail_counts, (10, 10, "10"), r"imbalance in \[1, 10\], .* got '10'"),
        (long_tail_counts, (10, 10, float("nan")), "imbalance in .* got nan"),
        (long_tail_counts, (10, 10, 11), "imbalance in .* leaves an image per class, got 11"),
        (long_tail_indices, ([0, 1, 2], 2, 2), r"labels in \[0, 2\), got 2 at index 2"),
        (long_tail_indices, ([0, 0], 2, 2), "images of every class, got none of 1"),
        (long_tail_indices, ([0.0, 1.0], 2, 2), "of integers"),
    ],
)
def test_refused(function: Callable[..., Any], arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        function(*arguments)
