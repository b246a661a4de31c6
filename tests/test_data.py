"""Long-tail subsets, CIFAR in every form, image lists and the host pipeline, on made-up images."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import random
import struct
import tarfile
import zipfile
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from resultant.data import cifar, images
from resultant.data._batch import read_batch
from resultant.data.cifar import KINDS, load_cifar
from resultant.data.lists import DATASETS, ImageList, load_lists, read_list
from resultant.data.longtail import long_tail_counts, long_tail_indices

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


# Long-tail subsets


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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 10, 10), "n_max to be an integer >= 1, got 0"),
        ((10, 2.5, 10), "num_classes to be an integer >= 1, got 2.5"),
        ((10, 10, 0.5), "imbalance >= 1 and finite, got 0.5"),
        ((10, 10, float("nan")), "imbalance >= 1 and finite, got nan"),
        ((10, 10, 11), "imbalance of at most 10"),
    ],
)
def test_counts_refuse(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        long_tail_counts(*arguments)


def test_counts_at_the_edges() -> None:
    assert long_tail_counts(5, 1, 10).tolist() == [5]
    assert long_tail_counts(5, 3, 1).tolist() == [5, 5, 5]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 1, 2], r"labels in \[0, 2\), got 2 at index 2"),
        ([0, 0, 1], "got 2 of class 0 and 1 of class 1"),
        ([0, 0], "got 2 of class 0 and 0 of class 1"),
        ([0.0, 1.0], "of integers"),
        ([], "of integers"),
    ],
)
def test_indices_refuse(labels: list[Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        long_tail_indices(labels, 2, 2)


# CIFAR

Parts = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def tiny(name: str) -> Parts:
    """Two training images and one test image a class: pixels [N, 3, 32, 32] and labels."""
    rng, C = np.random.default_rng(5), len(KINDS[name].classes)
    pixels = rng.integers(0, 256, (3 * C, 3, 32, 32), dtype=np.uint8)
    train = rng.permutation(np.repeat(np.arange(C), 2))
    return pixels[: 2 * C], train, pixels[2 * C :], rng.permutation(C)


def python2(content: dict[str, Any]) -> bytes:
    """A dict as Python 2 writes it in protocol 2: its strings are bytes."""

    def emit(value: Any) -> bytes:
        if isinstance(value, np.ndarray):
            dtype = b"cnumpy\ndtype\n(" + emit("u1") + b"K\x00K\x01tR(K\x03" + emit("|")
            dtype += b"NNN" + 2 * b"J\xff\xff\xff\xff" + b"K\x00tb"
            shape = b"".join(emit(n) for n in value.shape)
            made = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85U\x01btR"
            return (
                made + b"(K\x01(" + shape + b"t" + dtype + b"\x89" + emit(value.tobytes()) + b"tb"
            )
        if isinstance(value, list):
            return b"]q\x07(" + b"".join(map(emit, value)) + b"e"
        if isinstance(value, int):
            return b"M" + struct.pack("<H", value)
        data = value.encode() if isinstance(value, str) else value
        return b"T" + struct.pack("<i", len(data)) + data

    items = b"".join(emit(k) + emit(v) for k, v in content.items())
    return b"\x80\x02}q\x01(" + items + b"u."


def modern(protocol: int) -> Callable[[dict[str, Any]], bytes]:
    return lambda content: pickle.dumps({k.encode(): v for k, v in content.items()}, protocol)


WRITERS = {"python2": python2, "0": modern(0), "2": modern(2), "4": modern(4)}


def python_files(name: str, parts: Parts, write: Callable[..., bytes]) -> dict[str, bytes]:
    kind = KINDS[name]
    x, y, u, v = parts
    pieces = np.array_split(np.arange(len(x)), len(kind.train))
    splits = [(n, x[i], y[i]) for n, i in zip(kind.train, pieces, strict=True)]
    files = {}
    for file, pixels, labels in [*splits, (kind.test, u, v)]:
        lists = {kind.labels: labels.tolist(), "filenames": ["a.png"] * len(labels)}
        files[file] = write({"data": pixels.reshape(-1, 3072), **lists, "batch_label": "made up"})
    return files


def binary_files(name: str, parts: Parts) -> dict[str, bytes]:
    kind = KINDS[name]
    x, y, u, v = parts

    def records(pixels: np.ndarray, labels: np.ndarray) -> bytes:
        coarse = np.full((len(labels), kind.label_bytes - 1), 9, np.uint8)
        flat = (coarse, labels[:, None].astype(np.uint8), pixels.reshape(-1, 3072))
        return np.hstack(flat).tobytes()

    pieces = np.array_split(np.arange(len(x)), len(kind.train))
    files = {f"{n}.bin": records(x[i], y[i]) for n, i in zip(kind.train, pieces, strict=True)}
    return files | {f"{kind.test}.bin": records(u, v)}


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


def same(found: cifar.Cifar, parts: Parts) -> None:
    tensors = (found.train_images, found.train_labels, found.test_images, found.test_labels)
    for tensor, array in zip(tensors, parts, strict=True):
        assert (tensor.numpy() == array).all()
    assert found.train_images.dtype == torch.uint8 and found.train_labels.dtype == torch.int64
    assert found.num_classes == len(found.class_names) == len(set(found.class_names))


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("writer", WRITERS)
def test_python_batches(name: str, writer: str, tmp_path: Path) -> None:
    parts = tiny(name)
    files = python_files(name, parts, WRITERS[writer])
    put(tmp_path / KINDS[name].folders[""], files)
    same(load_cifar(name, tmp_path), parts)
    same(load_cifar(name, tmp_path / KINDS[name].folders[""]), parts)
    # The reader agrees with the real thing.
    data = files[KINDS[name].test]
    assert (pickle.loads(data, encoding="bytes")[b"data"] == read_batch(data, "here")[0]).all()


@pytest.mark.parametrize("name", KINDS)
def test_binary_batches(name: str, tmp_path: Path) -> None:
    parts = tiny(name)
    put(tmp_path / KINDS[name].folders[".bin"], binary_files(name, parts))
    same(load_cifar(name, tmp_path), parts)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("binary", [False, True])
def test_archives_are_read_in_memory(name: str, binary: bool, tmp_path: Path) -> None:
    parts = tiny(name)
    files = binary_files(name, parts) if binary else python_files(name, parts, python2)
    folder = tmp_path / "in"
    folder.mkdir()
    hostile = {f"../../{n}": data for n, data in files.items()} | {"../evil": b"x", "/abs": b"y"}
    path = tar(folder / "mine.tar.gz", hostile)
    same(load_cifar(name, path), parts)
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["in", "mine.tar.gz"]


def test_official_archive_has_the_official_checksum(tmp_path: Path) -> None:
    tar(tmp_path / "cifar-10-python.tar.gz", python_files("cifar10", tiny("cifar10"), python2))
    with pytest.raises(ValueError, match=r"python\.tar\.gz to have the MD5 c58f30108f718f92"):
        load_cifar("cifar10", tmp_path)


@pytest.mark.parametrize("keys", ["train_images train_labels test_images test_labels", "x y"])
def test_npz(keys: str, tmp_path: Path) -> None:
    parts = tiny("cifar10")
    names, arrays = keys.split(), list(parts)
    if len(names) == 2:
        names = ["x_train", "y_train", "x_test", "y_test"]
        arrays[0], arrays[2] = (a.transpose(0, 2, 3, 1) for a in (parts[0], parts[2]))
    named: dict[str, Any] = dict(zip(names, arrays, strict=True))
    np.savez_compressed(tmp_path / "cifar10.npz", **named)
    same(load_cifar("cifar10", tmp_path), parts)
    same(load_cifar("cifar10", tmp_path / "cifar10.npz"), parts)


def test_packed_sheets(tmp_path: Path) -> None:
    parts = tiny("cifar10")
    tiles = np.concatenate([parts[0], parts[2], parts[0][:2]]).transpose(0, 2, 3, 1)
    folder = tmp_path / "cifar10"
    folder.mkdir()
    for i in range(2):
        sheet = tiles[16 * i : 16 * (i + 1)].reshape(4, 4, 32, 32, 3).swapaxes(1, 2)
        image = Image.fromarray(np.ascontiguousarray(sheet.reshape(128, 128, 3)))
        image.save(folder / f"{i:02d}.webp", lossless=True)
    with pytest.raises(ValueError, match=r"labels\.json to hold .*got no such file"):
        load_cifar("cifar10", tmp_path)
    labels = {"train": parts[1].tolist(), "test": parts[3].tolist()}
    (folder / "labels.json").write_text(json.dumps(labels))
    same(load_cifar("cifar10", tmp_path), parts)
    (folder / "labels.json").write_text(json.dumps(labels | {"test": [0] * 13}))
    with pytest.raises(ValueError, match=r"expected 33 tiles .* got 32"):
        load_cifar("cifar10", tmp_path)
    for wrong in ('{"train": [0]}', "[[", '{"train": [[1], 2], "test": []}', "[" * 100_000):
        (folder / "labels.json").write_text(wrong)
        with pytest.raises(ValueError, match=r"labels\.json to hold"):
            load_cifar("cifar10", tmp_path)


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
    with pytest.raises(ValueError, match=f"expected {odd} to be a whole image"):
        load_cifar("cifar100", tmp_path)
    Image.new("RGB", (31, 32)).save(odd)
    with pytest.raises(ValueError, match=r"32 x 32 pixels, got \(32, 31\)"):
        load_cifar("cifar100", tmp_path)


def test_download_goes_through_torchvision(tmp_path: Path, monkeypatch: Any) -> None:
    from torchvision import datasets

    parts = tiny("cifar100")

    def fetch(root: str, download: bool) -> None:
        assert download
        put(Path(root) / "cifar-100-python", python_files("cifar100", parts, python2))

    monkeypatch.setattr(datasets, "CIFAR100", fetch)
    same(load_cifar("cifar100", tmp_path, download=True), parts)


class Runs:
    """A pickle that creates a file when it is loaded."""

    def __init__(self, path: Path, call: Callable[..., Any]) -> None:
        self.path, self.call = path, call

    def __reduce__(self) -> Any:
        return self.call, (str(self.path),)


def forms(data: bytes) -> dict[str, bytes]:
    return {"test_batch": data} | {f"data_batch_{i}": data for i in range(1, 6)}


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("call", [os.mkdir, eval, np.load], ids=lambda call: call.__name__)
def test_a_hostile_batch_runs_nothing(protocol: int, call: Any, tmp_path: Path) -> None:
    proof = tmp_path / "proof"
    hostile = Runs(proof, call)
    pixels = np.zeros((2, 3072), np.uint8)
    data = pickle.dumps({b"data": pixels, b"labels": [0, 1], b"x": hostile}, protocol)
    put(tmp_path / "cifar-10-batches-py", forms(data))
    with pytest.raises(ValueError, match=r"data_batch_1 to be a CIFAR batch.*got: the (name|inst)"):
        load_cifar("cifar10", tmp_path)
    assert not proof.exists()


NP = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "pickle exhausted"),
        (b"garbage", "got: "),
        (python2({"labels": [0]})[:-4], "got: "),
        (b"]r\xff\xff\xff\xff.", "slot 4294967295 of the memo"),
        (b"]p4294967295\n.", "slot 4294967295 of the memo"),
        (b"Ppersistent\n.", "the instruction PERSID"),
        (b"(ios\nsystem\n.", "the instruction INST"),
        (b"\x80\x02\x82\x01.", "the instruction EXT1"),
        (b"cnumpy\ndtype\n(U\x01OK\x00K\x01tR.", "an array of dtype b'O'"),
        (NP + b"(K\x01(J\xff\xff\xff\x7ft" + b"NN\x89U\x00tb.", "got: "),
        (b"cnumpy\ndtype\n}b.", "got: "),
        (b"cnumpy.core.multiarray\n_reconstruct\n}U\x05valueK\x01sb.", "got: "),
        (b"(" * 100_000 + b"t" * 100_000 + b".", "got tuple"),
        (b"].", "got list"),
        (python2({"labels": [0]}), "got no array"),
        (python2({"data": np.zeros((2, 5), np.uint8)}), r"got \(2, 5\)"),
        (pickle.dumps({"data": np.zeros((2, 3072))}, 2), "got: an array of dtype"),
    ],
)
def test_broken_batches(data: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=f"expected here to be a CIFAR batch.*{message}"):
        read_batch(data, "here")
    # The stand-ins are as they were.
    assert (read_batch(python2({"data": np.ones((1, 3072), np.uint8)}), "")[0] == 1).all()


def test_arrays_stored_by_column() -> None:
    pixels = np.arange(2 * 3072).reshape(2, 3072).astype(np.uint8)
    data = pickle.dumps({"data": np.asfortranarray(pixels)}, 2)
    assert (read_batch(data, "here")[0] == pixels).all()


def test_cifar_errors_name_the_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="one of cifar10, cifar100, got 'mnist'"):
        load_cifar("mnist", tmp_path)
    with pytest.raises(ValueError, match=r"as one of cifar-10-batches-py.*got none of them"):
        load_cifar("cifar10", tmp_path)
    with pytest.raises(ValueError, match="got no such folder"):
        load_cifar("cifar10", tmp_path / "nowhere")
    files = python_files("cifar10", tiny("cifar10"), python2)
    folder = put(tmp_path / "a", files)
    (folder / "data_batch_4").unlink()
    with pytest.raises(ValueError, match=f"expected the file {folder}/data_batch_4"):
        load_cifar("cifar10", folder)
    pixels = np.zeros((2, 3072), np.uint8)
    put(folder, {"data_batch_4": python2({"data": pixels, "labels": [1]})})
    with pytest.raises(ValueError, match="data_batch_4 to hold labels, 2 integers, got 1"):
        load_cifar("cifar10", folder)
    put(folder, {"data_batch_4": python2({"data": pixels, "labels": [1, 10]})})
    with pytest.raises(ValueError, match=r"labels of the train images .* in \[0, 10\), got 10 at"):
        load_cifar("cifar10", folder)
    folder = put(tmp_path / "b", binary_files("cifar10", tiny("cifar10")))
    put(folder, {"test_batch.bin": b"123"})
    with pytest.raises(ValueError, match=r"test_batch.bin to hold records of 3073 bytes, got 3 b"):
        load_cifar("cifar10", folder)
    part = {n: data for n, data in files.items() if n != "test_batch"}
    with pytest.raises(ValueError, match=r"c\.tar\.gz to hold test_batch, got none"):
        load_cifar("cifar10", tar(tmp_path / "c.tar.gz", part))
    whole = (tmp_path / "c.tar.gz").read_bytes()
    for cut in (b"", b"123", whole[: len(whole) // 2], gzip.compress(b"x" * 2000)):
        (tmp_path / "d.tar.gz").write_bytes(cut)
        with pytest.raises(ValueError, match=r"expected .*d\.tar\.gz to (be a whole|hold)"):
            load_cifar("cifar10", tmp_path / "d.tar.gz")


def test_an_oversized_member_is_not_read(tmp_path: Path, monkeypatch: Any) -> None:
    path = tar(tmp_path / "a.tgz", python_files("cifar10", tiny("cifar10"), python2))
    monkeypatch.setattr(cifar, "MAX_MEMBER", 100)
    with pytest.raises(ValueError, match="at most 100 bytes, got"):
        load_cifar("cifar10", path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"train_labels": None}, "to hold train_images, train_labels"),
        ({"train_images": np.zeros((20, 3, 32, 32))}, "uint8, got float64"),
        ({"train_images": np.zeros((20, 3, 32, 31), np.uint8)}, r"got \(20, 3, 32, 31\)"),
        ({"test_labels": np.zeros(9, int)}, r"integer labels \[10\].*got int64 \(9,\)"),
        ({"test_labels": np.zeros(10)}, "got float64"),
        ({"train_images": np.array([None])}, "no plain number"),
    ],
)
def test_npz_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    names = ("train_images", "train_labels", "test_images", "test_labels")
    arrays: dict[str, Any] = dict(zip(names, tiny("cifar10"), strict=True)) | change
    arrays = {n: a for n, a in arrays.items() if a is not None}
    np.savez(tmp_path / "cifar10.npz", **arrays)
    with pytest.raises(ValueError, match=message):
        load_cifar("cifar10", tmp_path)


def test_npz_is_no_zip(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "cifar10.npz", "w") as archive:
        archive.writestr("train_images.npy", b"\x93NUMPY\x01\x00")
    with pytest.raises(ValueError, match=r"expected .*cifar10\.npz to be a whole \.npz"):
        load_cifar("cifar10", tmp_path)


# Lists


def image_files(folder: Path, number: int, size: tuple[int, int] = (40, 30)) -> list[str]:
    rng = np.random.default_rng(8)
    names = [f"n{i % 3}/image {i}.png" for i in range(number)]
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        smooth = Image.fromarray(rng.integers(0, 256, (5, 5, 3), dtype=np.uint8))
        smooth.resize(size).save(folder / name)
    return names


def write_lines(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


def test_read_list(tmp_path: Path) -> None:
    names = image_files(tmp_path, 7)
    path = write_lines(tmp_path / "list.txt", [f"{n} {i % 3}" for i, n in enumerate(names)] + [""])
    found = read_list(path, tmp_path)
    assert found.labels.tolist() == [0, 1, 2, 0, 1, 2, 0] and found.num_classes == 3
    assert list(found.paths) == [str(tmp_path / n) for n in names] and len(found) == 7
    (tmp_path / names[3]).unlink()
    with pytest.raises(ValueError, match=r"got 1 of 7 missing: .*image 3\.png"):
        read_list(path, tmp_path)
    assert len(read_list(path, tmp_path, check_files=2)) == 7
    assert len(read_list(path, "nowhere", check_files=0)) == 7
    with pytest.raises(ValueError, match=r"got 2 of 2 missing: .*image 0\.png, .*image 6\.png"):
        read_list(path, "nowhere", check_files=2)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a.png 0", "b.png"], r"list\.txt:2, got 'b\.png'"),
        (["a.png 0", "", "b.png -1"], r"list\.txt:3, got 'b\.png -1'"),
        (["a.png 0.5"], r"list\.txt:1"),
        (["a.png ²"], r"list\.txt:1"),
        (["a.png 99999999999999999999"], r"list\.txt:1"),
        ([" 1"], r"list\.txt:1"),
        (["a.png 3"], r"a label in \[0, 3\) at .*list\.txt:1, got 3"),
        (["a.png 1"], r"all 3 classes in .*list\.txt, got none of 2: 0, 2$"),
        ([""], "expected lines 'path label' in .*, got none"),
    ],
)
def test_list_errors_name_the_line(lines: list[str], message: str, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "list.txt", lines)
    with pytest.raises(ValueError, match=message):
        read_list(path, tmp_path, num_classes=3, check_files=0)


def test_list_gaps(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "list.txt", ["a 999999999", "b 2", "c 0"])
    rule = "all 1000000000 classes .* none of 999999997: 1, 3, 4, 5, 6, ...$"
    with pytest.raises(ValueError, match=rule):
        read_list(path, tmp_path, check_files=0)
    found = read_list(path, tmp_path, check_files=0, allow_gaps=True)
    assert found.labels.tolist() == [999999999, 2, 0]
    with pytest.raises(ValueError, match="got no such file"):
        read_list(tmp_path / "none.txt", tmp_path)
    (tmp_path / "bytes.txt").write_bytes(b"\xff\xfe 0")
    with pytest.raises(ValueError, match=r"bytes\.txt to be a text file"):
        read_list(tmp_path / "bytes.txt", tmp_path)


@pytest.mark.parametrize("name", DATASETS)
def test_registered_lists(name: str, tmp_path: Path) -> None:
    (image,) = image_files(tmp_path, 1)
    dataset = DATASETS[name]
    for split, file in dataset.files.items():
        write_lines(tmp_path / file, [f"{image} {c}" for c in range(dataset.num_classes)])
        found = load_lists(name, tmp_path, tmp_path, split, check_files=5)
        assert len(found) == found.num_classes == dataset.num_classes
    with pytest.raises(ValueError, match=f"split of {name} in train, val"):
        load_lists(name, tmp_path, tmp_path, "nothing")
    with pytest.raises(ValueError, match="expected name to be one of imagenet-lt"):
        load_lists("imagenet", tmp_path, tmp_path, "train")


def test_published_names() -> None:
    files = [f for d in DATASETS.values() for f in d.files.values()]
    assert {"ImageNet_LT_test.txt", "Places_LT_val.txt", "iNaturalist18_train.txt"} <= set(files)


# The host pipeline

MEAN, STD, SIZE = (0.466, 0.471, 0.380), (0.195, 0.194, 0.192), 24


def dataset(folder: Path, number: int = 13, seed: int = 4) -> images.ViewDataset:
    names = image_files(folder, number)
    listed = ImageList(
        tuple(str(folder / n) for n in names), torch.arange(number) % 3, num_classes=3
    )
    contrastive = images.contrastive_view(MEAN, STD, SIZE)
    views = [contrastive, contrastive, images.classification_view(MEAN, STD, SIZE)]
    return images.ViewDataset(listed, views, seed)


def epoch_of(loader: images.Loader, epoch: int) -> list[list[torch.Tensor]]:
    loader.set_epoch(epoch)
    return [list(batch) for batch in loader]


def equal(a: list[list[torch.Tensor]], b: list[list[torch.Tensor]]) -> bool:
    pairs = zip(chain(*a), chain(*b), strict=True)
    return all(torch.equal(x, y) for x, y in pairs)


def test_any_number_of_workers_gives_the_same_images(tmp_path: Path) -> None:
    data = dataset(tmp_path)
    alone = images.loader(data, 4, train=True, workers=0)
    several = images.loader(data, 4, train=True, workers=2)
    first = [epoch_of(alone, e) for e in (0, 1)]
    # Workers that live on get the second epoch, and one that starts there has it at once.
    assert [equal(epoch_of(several, e), first[e]) for e in (0, 1)] == [True, True]
    torch.manual_seed(99)
    resumed = images.loader(data, 4, train=True, epoch=1, workers=0)
    assert equal([list(batch) for batch in resumed], first[1])
    views, labels, indices = first[0][0]
    assert views.shape == (4, 3, 3, SIZE, SIZE) and views.dtype == torch.float32
    assert (labels == indices % 3).all() and len(first[0]) == 3
    # Views, epochs, images and seeds all differ.
    assert not torch.equal(views[:, 0], views[:, 1])
    item = {k: data[k][0] for k in ((0, 5), (1, 5), (0, 6))}
    assert not torch.equal(item[0, 5], item[1, 5]) and not torch.equal(item[0, 5], item[0, 6])
    assert not torch.equal(item[0, 5], dataset(tmp_path, seed=5)[0, 5][0])
    assert torch.equal(data[5][0], item[0, 5])


def test_ranks_share_the_epoch(tmp_path: Path) -> None:
    data = dataset(tmp_path)
    ranks = [images.loader(data, 2, train=True, workers=0, rank=r, world_size=3) for r in range(3)]
    seen = [torch.cat([b[2] for b in epoch_of(loader, 2)]).tolist() for loader in ranks]
    assert [len(s) for s in seen] == [4, 4, 4] and len(set(chain(*seen))) == 12
    one = {int(i): v for v, _, i in (data[2, k] for k in seen[1])}
    for views, _, indices in epoch_of(ranks[1], 2):
        assert all(torch.equal(v, one[int(i)]) for v, i in zip(views, indices, strict=True))
    test = [images.loader(data, 5, train=False, workers=0, rank=r, world_size=3) for r in range(3)]
    rows = [torch.cat([b[2] for b in loader]).tolist() for loader in test]
    assert set(chain(*rows)) == set(range(13)) and [len(r) for r in rows] == [5, 5, 5]


def test_the_global_generators_go_on(tmp_path: Path) -> None:
    data = dataset(tmp_path, 2)

    def draws() -> tuple[float, float, float]:
        return float(torch.rand(())), random.random(), float(np.random.rand())  # noqa: NPY002

    def seeded() -> None:
        torch.manual_seed(1)
        random.seed(1)
        np.random.seed(1)  # noqa: NPY002

    seeded()
    expected = draws()
    seeded()
    data[0, 1]
    assert draws() == expected


def test_evaluation_view_is_resize_and_centre(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    image = Image.fromarray(rng.integers(0, 256, (300, 400, 3), dtype=np.uint8))
    found = images.evaluation_view(MEAN, STD)(image)
    small = image.resize((341, 256), Image.Resampling.BILINEAR)
    left, top = round((341 - 224) / 2), (256 - 224) // 2
    pixels = np.asarray(small.crop((left, top, left + 224, top + 224)), np.float64) / 255
    expected = ((pixels - MEAN) / STD).transpose(2, 0, 1)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-5)
    raw = images.evaluation_view(None, None)(image)
    assert raw.dtype == torch.uint8
    np.testing.assert_array_equal(raw.numpy(), np.rint(pixels * 255).transpose(2, 0, 1))


def test_contrastive_view_has_the_probabilities_of_the_recipe() -> None:
    """Grey with probability .2, flipped with .5, jittered with .8: four deviations of 800 draws."""
    view = images.contrastive_view(None, None, 8)
    ramp = np.zeros((8, 64, 3), np.uint8)
    ramp[..., 0] = 100 + np.arange(64)
    ramp[..., 1], ramp[..., 2] = 60, 200
    image = Image.fromarray(ramp)
    grey = flipped = plain = 0
    for index in range(800):
        with images.item_randomness(0, 0, index):
            out = view(image).int()
        grey += bool((out[0] == out[1]).all() and (out[1] == out[2]).all())
        plain += bool((out[1] == 60).all() and (out[2] == 200).all())
        flipped += bool(out[0, 0, 0] > out[0, 0, -1])
    for count, p in ((grey, 0.2), (plain, 0.2 * 0.8)):
        assert abs(count - 800 * p) < 4 * (800 * p * (1 - p)) ** 0.5
    # A hue may turn the ramp around, so that the share of flips is only roughly a half.
    assert 250 < flipped < 550


def test_modes_are_converted_and_broken_images_named(tmp_path: Path) -> None:
    for mode in ("L", "P", "RGBA", "CMYK"):
        path = tmp_path / f"{mode}.{'tif' if mode == 'CMYK' else 'png'}"
        Image.new(mode, (9, 7)).save(path)
        assert images.decode(str(path)).mode == "RGB"
    path = tmp_path / "a.jpg"
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(path)
    path.write_bytes(path.read_bytes()[:-900])
    listed = ImageList((str(path), str(tmp_path / "b.jpg")), torch.tensor([0, 1]), 2)
    data = images.ViewDataset(listed, [images.evaluation_view(MEAN, STD, SIZE)])
    with pytest.raises(ValueError, match=rf"expected {path} to be a whole image, got: .*truncated"):
        data[0]
    with pytest.raises(ValueError, match=r"expected the image .*b\.jpg, got no such file"):
        data[3, 1]
    path.write_bytes(b"text")
    with pytest.raises(ValueError, match="a whole image"):
        next(iter(images.loader(data, 1, train=False, workers=0)))


def test_pipeline_refuses(tmp_path: Path) -> None:
    data = dataset(tmp_path, 3)
    for arguments, message in (
        ({"batch_size": 4, "train": True}, "one batch of 4 for each of 1 ranks, got 3 images"),
        ({"batch_size": 0, "train": True}, "batch_size >= 1 and workers >= 0, got 0 and 8"),
        ({"batch_size": 1, "train": True, "rank": 0}, "both rank and world_size"),
    ):
        with pytest.raises(ValueError, match=message):
            images.loader(data, **arguments)
    with pytest.raises(ValueError, match="one view or more"):
        images.ViewDataset(data.images, [])
    with pytest.raises(ValueError, match="both mean and std, or neither"):
        images.contrastive_view(MEAN, None)
    with pytest.raises(IndexError, match=r"an index in \[0, 3\), got 3"):
        data[0, 3]
