"""Stores of decoded images: pixels, reuse, interruptions, full disks."""

from __future__ import annotations

import errno
import io
import os
import shutil
import threading
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
from resultant.images.decode import ImageError
from resultant.images.decoding import jpeg_size, stored_size
from resultant.images.files import FileImages, file_facts
from resultant.images.source import select
from resultant.images.store import ImageStore, delete_stores, open_store

SHORT = 20


def source(folder: Path, number: int = 40) -> FileImages:
    """Images of 40 x 30 and, every fifth, of 16 x 30 pixels."""
    paths = [str(folder / name) for name in image_files(folder, number)]
    for path in paths[::5]:
        Image.open(path).resize((16, 30)).save(path)
    return FileImages(paths, np.arange(number) % 3, ("a", "b", "c"), file_facts(paths))


def pixels_of(store: ImageStore, index: int) -> np.ndarray:
    h, w = store.sizes[index].tolist()
    return store.pixels[store.offsets[index] : store.offsets[index + 1]].view(h, w, 3).numpy()


def expected(images: FileImages, index: int) -> np.ndarray:
    image = images.read(index)
    if min(image.size) > SHORT:
        image = image.resize((26, 20), Image.Resampling.BILINEAR)
    return np.asarray(image)


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_images_are_decoded_and_reduced_once(tmp_path: Path, workers: int) -> None:
    images, notes = source(tmp_path / "files"), []
    store = open_store(images, tmp_path / "s", SHORT, workers=workers, note=notes.append)
    assert store.bytes == 3 * (32 * 26 * 20 + 8 * 16 * 30) and not store.done.any()
    assert len(notes) == 1 and notes[0].startswith("40 images are decoded to")
    # The images that are waited for come first.
    store.wait(torch.tensor([37, 5]))
    assert store.done[[37, 5]].all() and store.done.sum() < 40
    store.wait(torch.arange(40))
    for i in range(40):
        assert np.array_equal(pixels_of(store, i), expected(images, i))
    store.close()
    # Opened again, nothing is decoded and nothing is noted.
    for path in images.paths:
        os.unlink(path)
    again = open_store(images, tmp_path / "s", SHORT, workers=workers, note=notes.append)
    again.wait(torch.arange(40))
    assert torch.equal(again.pixels, store.pixels) and len(notes) == 1


def test_other_images_and_sizes_have_other_stores(tmp_path: Path) -> None:
    images = source(tmp_path / "files", 6)
    kinds = [(images, 20), (images, 21), (select(images, [0, 1]), 20)]
    folders = {open_store(a, tmp_path / "s", size, workers=0).folder for a, size in kinds}
    assert len(folders) == 3
    os.utime(images.paths[0])
    changed = FileImages(images.paths, images.labels, images.class_names, file_facts(images.paths))
    assert open_store(changed, tmp_path / "s", 20, workers=0).folder not in folders


def test_interrupted_decoding_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recorded images are not decoded again; others are."""
    images = source(tmp_path / "files", 60)
    store = open_store(images, tmp_path / "s", SHORT, workers=0)
    store.wait(torch.arange(20))
    store.close()
    recorded = store.done.clone()
    store.wait(torch.arange(40))
    # Killed here: no close.
    assert 20 <= recorded.sum() < store.done.sum() < 60
    read: list[int] = []
    of = FileImages.read
    monkeypatch.setattr(FileImages, "read", lambda self, i: read.append(i) or of(self, i))
    again = open_store(images, tmp_path / "s", SHORT, workers=0)
    assert torch.equal(again.done, recorded)
    again.fill()
    assert sorted(read) == (~recorded).nonzero()[:, 0].tolist()
    for i in (0, 25, 39, 59):
        assert np.array_equal(pixels_of(again, i), expected(images, i))


def test_pixels_are_on_the_disk_before_they_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images, events = source(tmp_path / "files", 4), []
    store = open_store(images, tmp_path / "s", SHORT, workers=0)
    fsync, save = os.fsync, tensor_files.save
    monkeypatch.setattr(os, "fsync", lambda a: events.append("pixels") or fsync(a))
    monkeypatch.setattr(tensor_files, "save", lambda *a: events.append("done") or save(*a))
    store.wait(torch.arange(4))
    store.close()
    assert events[:2] == ["pixels", "done"]


def test_images_are_used_while_they_are_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow disk delays neither the images nor an error: `close` waits for both."""
    images, slow = source(tmp_path / "files", 4), threading.Event()
    store = open_store(images, tmp_path / "s", SHORT, workers=0)
    monkeypatch.setattr(stores, "sync", lambda path: slow.wait())
    store.wait(torch.arange(4))
    assert not (store.folder / stores.DONE).exists()
    slow.set()
    store.close()
    assert (store.folder / stores.DONE).exists()

    def full(path: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    other = open_store(images, tmp_path / "s", SHORT - 1, workers=0)
    monkeypatch.setattr(stores, "sync", full)
    other.wait(torch.arange(4))
    with pytest.raises(OSError, match=r"No space left on device: '.*pixels\.bin'"):
        other.close()


@pytest.mark.parametrize("spoil", ["lost pixels", "cut pixels", "broken record", "other record"])
def test_spoiled_store_is_decoded_again(tmp_path: Path, spoil: str) -> None:
    images = source(tmp_path / "files", 6)
    store = open_store(images, tmp_path / "s", SHORT, workers=0)
    store.fill()
    pixels, done = (store.folder / name for name in (stores.PIXELS, stores.DONE))
    match spoil:
        case "lost pixels":
            pixels.unlink()
        case "cut pixels":
            os.truncate(pixels, 100)
        case "broken record":
            done.write_bytes(b"no record")
        case "other record":
            tensor_files.save(done, {"done": torch.ones(5, dtype=torch.bool)}, {})
    again = open_store(images, tmp_path / "s", SHORT, workers=0)
    assert not again.done.any()
    again.fill()
    assert np.array_equal(pixels_of(again, 3), expected(images, 3))


def test_sizes_of_other_images_are_refused(tmp_path: Path) -> None:
    images = source(tmp_path / "files", 6)
    folder = open_store(images, tmp_path / "s", SHORT, workers=0).folder
    tensor_files.save(folder / stores.INDEX, {"sizes": torch.ones(5, 2, dtype=torch.int32)}, {})
    with pytest.raises(ValueError, match=r"the sizes of 6 images in .*; delete the folder"):
        open_store(images, tmp_path / "s", SHORT, workers=0)


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_broken_image_is_named(tmp_path: Path, workers: int) -> None:
    images = source(tmp_path / "files")
    data = Path(images.paths[33]).read_bytes()
    Path(images.paths[33]).write_bytes(data[: len(data) // 2])
    store = open_store(images, tmp_path / "s", SHORT, workers=workers)
    with pytest.raises(ImageError, match=rf"^expected {images.paths[33]} to be a whole image, got"):
        store.wait(torch.arange(40))
    # The images before it are kept.
    again = open_store(images, tmp_path / "s", SHORT, workers=workers)
    assert again.done[:33].all() and not again.done[33]
    Path(images.paths[33]).write_bytes(data)
    again.fill()
    assert np.array_equal(pixels_of(again, 33), expected(images, 33))


def test_image_without_a_size_is_named(tmp_path: Path) -> None:
    images = source(tmp_path / "files", 4)
    Path(images.paths[2]).write_bytes(b"text")
    with pytest.raises(ImageError, match=rf"^expected {images.paths[2]} to be a whole image"):
        open_store(images, tmp_path / "s", SHORT, workers=0)


def test_disk_too_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage: Callable[..., Any] = lambda path: shutil._ntuple_diskusage(10**6, 10**6, 50_000)  # noqa: E731
    monkeypatch.setattr(shutil, "disk_usage", usage)
    rule = r"^expected 61.4 kB of disk for 40 images decoded to .*, got 50 kB free; give"
    with pytest.raises(ValueError, match=rule):
        open_store(source(tmp_path / "files"), tmp_path / "s", SHORT, workers=0)


def test_disk_that_cannot_reserve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*pixels\.bin'"):
        open_store(source(tmp_path / "files"), tmp_path / "s", SHORT, workers=0)
    assert not list(tmp_path.rglob("pixels.bin"))


def test_disk_that_fills_while_decoding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images, written = source(tmp_path / "files"), []
    pwrite = os.pwrite

    def filling(*arguments: Any) -> int:
        if len(written) == 25:
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(1)
        return pwrite(*arguments)

    store = open_store(images, tmp_path / "s", SHORT, workers=0)
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", filling)
        with pytest.raises(OSError, match=r"No space left on device: '.*pixels\.bin'"):
            store.wait(torch.arange(40))
    again = open_store(images, tmp_path / "s", SHORT, workers=0)
    assert again.done.sum() == 25
    again.fill()
    for i in range(40):
        assert np.array_equal(pixels_of(again, i), expected(images, i))


def test_partial_writes_are_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images, pwrite = source(tmp_path / "files", 3), os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, data, at: pwrite(file, data[:100], at))
    store = open_store(images, tmp_path / "s", SHORT, workers=0)
    store.fill()
    assert all(np.array_equal(pixels_of(store, i), expected(images, i)) for i in range(3))


def test_stores_are_deleted_and_nothing_else(tmp_path: Path) -> None:
    images, folder = source(tmp_path / "files", 3), tmp_path / "s"
    open_store(images, folder, SHORT, workers=0).fill()
    open_store(images, folder, 10, workers=0)
    (folder / "notes").mkdir()
    (folder / "notes" / "a.txt").write_text("mine")
    delete_stores(folder)
    assert [path.name for path in folder.iterdir()] == ["notes"]
    shutil.rmtree(folder / "notes")
    delete_stores(folder)
    assert not folder.exists()


def test_source_that_is_read_in_order(tmp_path: Path) -> None:
    images = source(tmp_path / "files", 30)
    read: list[int] = []

    class Ordered(FileImages):
        in_order = True

        def read(self, index: int) -> Any:
            read.append(index)
            return super().read(index)

    ordered = Ordered(images.paths, images.labels, images.class_names, images.facts)
    chosen = select(ordered, [7, 3, 20, 11])
    open_store(chosen, tmp_path / "s", SHORT, workers=0).wait(torch.tensor([2]))
    assert read == [3, 7, 11, 20]


@pytest.mark.parametrize(
    ("size", "expected_size"),
    [((30, 40), (20, 26)), ((40, 30), (26, 20)), ((20, 90), (20, 90)), ((500, 333), (30, 20))],
)
def test_stored_size(size: tuple[int, int], expected_size: tuple[int, int]) -> None:
    assert stored_size(*size, 20) == expected_size


@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"exif": b"Exif\0\0" + b"a" * 900}])
def test_size_of_a_jpeg(mode: str, options: dict[str, Any]) -> None:
    file = io.BytesIO()
    Image.new(mode, (123, 45)).save(file, "JPEG", **options)
    assert jpeg_size(file.getvalue()) == (45, 123)


def test_contents_without_a_size() -> None:
    file = io.BytesIO()
    Image.new("RGB", (9, 9)).save(file, "PNG")
    cut = b"\xff\xd8\xff\xe0\x00\x10JFIF"
    for data in (b"", b"\xff\xd8", cut, b"\xff\xd8" + b"\xff" * 50, file.getvalue()):
        assert jpeg_size(data) is None
