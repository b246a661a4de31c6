"""Images of files and of indexable datasets, good, odd and broken; and stores of decoded images:
pixels, reuse, interruptions, full disks."""

import errno
import io
import os
import shutil
import struct
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from PIL import Image

from images.photos import photo, photo_bytes, same
from resultant._core import tensor_files
from resultant.images import store as stores
from resultant.images.decode import ImageError, decode
from resultant.images.files import FileImages
from resultant.images.indexable import open_indexable
from resultant.images.source import ImageSource
from resultant.images.store import ImageStore, Placement, delete_stores, open_store


def gradient(mode: str = "RGB") -> Image.Image:
    ramp = np.linspace(0, 255, 48, dtype=np.uint8).reshape(4, 4, 3)
    return Image.fromarray(ramp).convert(mode)


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def png(width: int, height: int) -> bytes:
    """Return a PNG that is small in the file and huge in memory."""
    data = encoded(Image.new("L", (1, 1)), "PNG")
    header = b"IHDR" + struct.pack(">II", width, height) + data[24:29]
    return data[:12] + header + struct.pack(">I", zlib.crc32(header)) + data[33:]


def two_pictures(kind: str) -> bytes:
    """Encode a black picture and a white one."""
    black, white = (Image.new("RGB", (8, 8), colour) for colour in ("black", "white"))
    return encoded(black, kind, save_all=True, append_images=[white])


GREY = np.array([[0, 100, 255]], dtype=np.uint8)
BLACK = Image.new("RGB", (8, 8))
GOOD: list[tuple[bytes, Image.Image]] = [
    *((encoded(gradient(), kind), gradient()) for kind in ("PNG", "BMP", "TIFF")),
    (encoded(gradient(), "WEBP", lossless=True), gradient()),
    *((encoded(gradient(mode), "PNG"), gradient(mode)) for mode in ("L", "1", "LA", "RGBA")),
    (encoded(gradient("P"), "PNG", transparency=b"\0\x80\xff"), gradient("P")),
    # 16 bits are scaled, and the first of several pictures counts.
    *((encoded(Image.fromarray(257 * GREY.astype(np.uint16)), kind), Image.fromarray(GREY))
      for kind in ("PNG", "TIFF")),
    (two_pictures("MPO"), BLACK),
]  # fmt: skip


def test_good_images() -> None:
    for data, image in GOOD:
        result = decode(data, "a")
        assert result.mode == "RGB" and same(result, image.convert("RGB"))
    # Full magenta and yellow are red.
    red = encoded(Image.new("CMYK", (16, 16), (0, 255, 255, 0)), "JPEG")
    assert np.abs(np.array(decode(red, "a")).astype(int) - (255, 0, 0)).max() <= 2
    # Eighty-four kilobytes may be a blank page.
    data = encoded(Image.new("RGB", (5000, 5000), "white"), "PNG")
    assert len(data) < 100_000
    assert decode(data, "a").getextrema() == ((255, 255),) * 3


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP"])
def test_truncated_images_are_refused(kind: str) -> None:
    data = encoded(photo(0, (64, 64)), kind)
    for share in (0.1, 0.5, 0.9):
        with pytest.raises(ImageError, match=r"^expected b\.x to be a whole image, got") as caught:
            decode(data[: int(share * len(data))], "b.x")
        assert "\n" not in str(caught.value)


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize(
    ("data", "message"),
    [
        *(
            (two_pictures(kind), "to be a still image, got 2 frames")
            for kind in ("GIF", "PNG", "WEBP", "TIFF")
        ),
        # Refused unread.
        (png(16_000, 9_000), "to have at most 134,217,728 pixels, got 16,000 x 9,000"),
        (png(100_000, 100_000), "to have at most 134,217,728 pixels, got more than Pillow opens"),
        (b"", "to be a whole image, got an empty file"),
        (b"%PDF-1.4", "to be a whole image, got no known format"),
        (encoded(gradient(), "TGA"), "to be a whole image, got no known format"),
        (
            encoded(Image.fromarray(np.ones((2, 2), np.float32)), "TIFF"),
            "to have 8 or 16 bits per channel, got 32",
        ),
    ],
)
def test_other_files_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(ImageError, match=f"^expected d {message}$"):
        decode(data, "d")


class Pairs(list):
    """A dataset in the manner of torchvision."""

    targets: list[int]
    classes: list[str]


class Table(list):
    """A dataset in the manner of Hugging Face: rows by number, columns by name."""

    column_names = ("image", "label")
    features: ClassVar = {"image": None, "label": SimpleNamespace(names=["cat", "dog"])}

    def __getitem__(self, index: Any) -> Any:
        return (
            [row[index] for row in self] if isinstance(index, str) else super().__getitem__(index)
        )


def test_pairs_and_tables() -> None:
    """Labels and names of pairs, of torchvision's attributes, and of Hugging Face's columns."""
    source = open_indexable(Pairs((photo(i), i % 2) for i in range(4)))
    assert source.labels.tolist() == [0, 1, 0, 1] and source.class_names == ("0", "1")
    assert same(source.read(3), photo(3))
    assert source.name(2) == "Pairs[2]"
    # Labels are not read from the items.
    dataset = Pairs([None, None])
    dataset.targets, dataset.classes = [1, 0], ["cat", "dog"]
    source = open_indexable(dataset)
    assert source.labels.tolist() == [1, 0] and source.class_names == ("cat", "dog")
    source = open_indexable(Table({"image": photo(i), "label": i % 2} for i in range(3)))
    assert source.labels.tolist() == [0, 1, 0] and source.class_names == ("cat", "dog")
    assert same(source.read(1), photo(1))


@pytest.mark.parametrize("image", [np.array(photo(5)), photo_bytes(5), photo(5).convert("RGBA")])
def test_kinds_of_images(image: Any) -> None:
    source = open_indexable([(image, 0)])
    assert same(source.read(0), photo(5))


def test_broken_items_are_named() -> None:
    source = open_indexable([(b"text", 0), (np.zeros((2, 2, 3)), 1), (None, 1)])
    with pytest.raises(ImageError, match=r"expected list\[0\] to be a whole image, got no known"):
        source.read(0)
    with pytest.raises(ImageError, match=r"expected list\[1\] to be .* uint8 .*, got float64"):
        source.read(1)

    class Failing(Pairs):
        def __getitem__(self, index: Any) -> Any:
            raise OSError("disk\ngone")

    failing = open_indexable(Failing([0]), labels=[0])
    with pytest.raises(ImageError, match=r"^expected an image at Failing\[0\], got OSError: disk "):
        failing.read(0)


@pytest.mark.parametrize(
    ("labels", "names", "message"),
    [
        ([0, 5], ["a", "b"], "among the 2 class names, got 5 of list.1"),
        ([0.5, 1], None, r"or strings as labels, one per image \[2\], got float64 \[2\]"),
        ([0], None, r"or strings as labels, one per image \[2\], got int64 \[1\]"),
        ([None, 1], None, r"or strings as labels, .* got object"),
    ],
)
def test_labels_that_do_not_fit(labels: Any, names: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        open_indexable([(photo(0), 0), (photo(1), 1)], labels, names)


SHORT = 20


def source(folder: Path, number: int = 40) -> ImageSource:
    """Images of 40 x 30 and, every fifth, of 16 x 30 pixels."""
    folder.mkdir()
    paths = [str(folder / f"{i}.png") for i in range(number)]
    for i, path in enumerate(paths):
        photo(i, (40 if i % 5 else 16, 30)).save(path)
    images = FileImages(paths, str(folder))
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
    opened = partial(
        *(open_store, images, tmp_path / "s", SHORT, workers),
        *(lambda *numbers: seen.append(numbers), notes.append),
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
        read.append(index)
        if len(read) == 26:
            raise KeyboardInterrupt
        return of(self, index)

    monkeypatch.setattr(ImageSource, "read", reading)
    with pytest.raises(KeyboardInterrupt):
        open_store(images, tmp_path / "s", SHORT, workers=0)
    # In the order of the files.
    assert read == list(range(39, 13, -1))
    (folder,) = (tmp_path / "s").iterdir()
    with open(folder / stores.PIXELS, "ab") as file:
        file.write(b"half an image")
    store = open_store(images, tmp_path / "s", SHORT, workers=0)
    assert read[26:] == list(range(14, -1, -1))
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


def test_images_are_selected_by_indices_or_a_mask(tmp_path: Path) -> None:
    images = source(tmp_path / "files", 3)
    for rows, expected in (([2, 0], [2, 0]), ([False, True, True], [1, 2]), ([], [])):
        assert images.select(rows).index.tolist() == expected


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
            length = 3 * int(store.sizes[row].prod())
            assert torch.equal(a[start : start + length], b[other : other + length])
