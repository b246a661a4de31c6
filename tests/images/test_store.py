"""Stores of decoded images: pixels, reuse, interruptions, full disks."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from listed import image_files
from resultant._core import tensor_files
from resultant.images import store as stores
from resultant.images.files import FileImages, file_status
from resultant.images.source import ImageSource
from resultant.images.store import ImageStore, Placement, delete_stores, open_store

SHORT = 20


def source(folder: Path, number: int = 40) -> ImageSource:
    """Images of 40 x 30 and, every fifth, of 16 x 30 pixels."""
    paths = [str(folder / name) for name in image_files(folder, number)]
    for path in paths[::5]:
        Image.open(path).resize((16, 30)).save(path)
    images = FileImages(paths, file_status(paths))
    return ImageSource(images, np.arange(number) % 3, ("a", "b", "c"))


def pixels_of(store: ImageStore, index: int) -> np.ndarray:
    (h, w), start = store.sizes[index].tolist(), int(store.offsets[index])
    return store.pixels[start : start + 3 * h * w].view(h, w, 3).numpy()


def check(store: ImageStore) -> None:
    for i in range(len(store)):
        image = store.source.read(i)
        if min(image.size) > SHORT:
            image = image.resize((26, 20), Image.Resampling.BILINEAR)
        assert np.array_equal(pixels_of(store, i), np.asarray(image))


@pytest.mark.parametrize("workers", [0, 2])
def test_images_are_decoded_and_reduced_once(
    tmp_path: Path, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    images, notes, seen = source(tmp_path / "files"), [], []

    def opened() -> ImageStore:
        return open_store(
            images,
            tmp_path / "s",
            SHORT,
            workers=workers,
            progress=lambda *a: seen.append(a),
            note=notes.append,
        )

    store = opened()
    assert len(store.pixels) == 3 * (32 * 26 * 20 + 8 * 16 * 30)
    check(store)
    assert len(notes) == 1 and notes[0].startswith("decoded 40 images in ")
    assert seen == [(k, 40) for k in range(1, 41)]
    # Opened again, nothing is decoded and nothing is noted.
    monkeypatch.setattr(ImageSource, "read", pytest.fail)
    assert torch.equal(opened().pixels, store.pixels) and len(notes) == 1


def test_interrupted_decoding_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recorded images are not decoded again; pixels beyond the record are."""
    images, read, of = source(tmp_path / "files").select(range(39, -1, -1)), [], ImageSource.read

    def reading(self: ImageSource, index: int) -> Any:
        if len(read) == 25:
            raise KeyboardInterrupt
        read.append(index)
        return of(self, index)

    with monkeypatch.context() as patch:
        patch.setattr(ImageSource, "read", reading)
        with pytest.raises(KeyboardInterrupt):
            open_store(images, tmp_path / "s", SHORT, workers=0)
    # In the order of the files.
    assert read == list(range(39, 14, -1))
    (folder,) = (tmp_path / "s").iterdir()
    with open(folder / stores.PIXELS, "ab") as file:
        file.write(b"half an image")
    with monkeypatch.context() as patch:
        patch.setattr(ImageSource, "read", lambda self, i: read.append(i) or of(self, i))
        store = open_store(images, tmp_path / "s", SHORT, workers=0)
    assert read == list(range(39, -1, -1))
    check(store)


@pytest.mark.parametrize("spoil", ["lost pixels", "cut pixels", "broken index", "other index"])
def test_spoiled_store_is_decoded_again(tmp_path: Path, spoil: str) -> None:
    images = source(tmp_path / "files", 6)
    folder = open_store(images, tmp_path / "s", SHORT, workers=0).folder
    match spoil:
        case "lost pixels":
            (folder / stores.PIXELS).unlink()
        case "cut pixels":
            os.truncate(folder / stores.PIXELS, 100)
        case "broken index":
            (folder / stores.INDEX).write_bytes(b"no index")
        case "other index":
            sizes = torch.ones(7, 2, dtype=torch.int32)
            tensor_files.save(folder / stores.INDEX, {"sizes": sizes}, {})
    check(open_store(images, tmp_path / "s", SHORT, workers=0))


def test_disk_too_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage: Callable[..., Any] = lambda path: shutil._ntuple_diskusage(10**6, 10**6, 30_000)  # noqa: E731
    monkeypatch.setattr(shutil, "disk_usage", usage)
    monkeypatch.setattr(stores, "CHECKED", 8)
    rule = r"^expected about \d+.* kB of disk for the decoded images in .*, got 30 kB free; give --"
    with pytest.raises(ValueError, match=rule):
        open_store(source(tmp_path / "files"), tmp_path / "s", SHORT, workers=0)


def test_full_disk_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    images = source(tmp_path / "files", 3)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match=r"No space left on device: '.*pixels\.bin'"):
            open_store(images, tmp_path / "s", SHORT, workers=0)
    check(open_store(images, tmp_path / "s", SHORT, workers=0))


def test_stores_are_deleted_and_nothing_else(tmp_path: Path) -> None:
    """Those of other images and other sizes too."""
    images, folder = source(tmp_path / "files", 3), tmp_path / "s"
    kinds = [(images, 20), (images, 21), (images.select([0, 1]), 20)]
    assert len({open_store(a, folder, size, workers=0).folder for a, size in kinds}) == 3
    (folder / "notes").mkdir()
    (folder / "notes" / "a.txt").write_text("mine")
    delete_stores(folder)
    assert [path.name for path in folder.iterdir()] == ["notes"]
    shutil.rmtree(folder / "notes")
    delete_stores(folder)
    assert not folder.exists()


def test_placed_batches_are_those_of_the_file(tmp_path: Path) -> None:
    store = open_store(source(tmp_path / "files", 26), tmp_path / "s", SHORT, workers=0)
    mapped, streamed = (Placement(store, torch.device("cpu"), 5, 3) for _ in range(2))
    streamed.buffers = torch.empty(3, len(store.pixels), dtype=torch.uint8)
    for slot, rows in enumerate(map(torch.tensor, [[3, 20, 4], [9, 3, 25, 0, 7], [7, 24, 24]])):
        (a, starts), (b, others) = (place.place(rows, slot) for place in (mapped, streamed))
        for row, start, other in zip(rows.tolist(), starts.tolist(), others.tolist(), strict=True):
            length = int(store.lengths[row])
            assert torch.equal(a[start : start + length], b[other : other + length])
