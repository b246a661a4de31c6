"""Images of files and of indexable datasets, as those of torchvision and Hugging Face: good, odd
and broken ones."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from images.photos import array, photo, photo_bytes
from resultant.images.decode import ImageError, decode
from resultant.images.indexable import open_indexable


def gradient(mode: str = "RGB") -> Image.Image:
    ramp = np.linspace(0, 255, 48, dtype=np.uint8).reshape(4, 4, 3)
    return Image.fromarray(ramp).convert(mode)


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def png(width: int, height: int) -> bytes:
    """Return a PNG that is small in the file and huge in memory."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    body = chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + body


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "WEBP"])
def test_lossless_formats_keep_every_pixel(kind: str) -> None:
    data = encoded(gradient(), kind, **({"lossless": True} if kind == "WEBP" else {}))
    assert np.array_equal(array(decode(data, "a")), array(gradient()))


@pytest.mark.parametrize("mode", ["L", "1", "P", "LA", "RGBA"])
def test_other_modes_become_rgb(mode: str) -> None:
    image, options = gradient(mode), {"transparency": b"\0\x80\xff"} if mode == "P" else {}
    result = decode(encoded(image, "PNG", **options), "a")
    assert result.mode == "RGB" and np.array_equal(array(result), array(image.convert("RGB")))


def test_levels_of_other_kinds() -> None:
    """Full magenta and yellow are red, 16 bits are scaled, the first of several pictures counts."""
    red = encoded(Image.new("CMYK", (16, 16), (0, 255, 255, 0)), "JPEG")
    assert np.abs(array(decode(red, "a")).astype(int) - (255, 0, 0)).max() <= 2
    levels = np.array([[0, 257 * 100, 65535]], dtype=np.uint16)
    for kind in ("PNG", "TIFF"):
        grey = array(decode(encoded(Image.fromarray(levels), kind), "a"))
        assert grey[0, :, 0].tolist() == [0, 100, 255]
    black, white = Image.new("RGB", (8, 8)), Image.new("RGB", (8, 8), "white")
    several = encoded(black, "MPO", save_all=True, append_images=[white])
    assert array(decode(several, "a")).max() == 0


def animated(kind: str) -> bytes:
    return encoded(gradient(), kind, save_all=True, append_images=[Image.new("RGB", (4, 4))])


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP"])
def test_truncated_images_are_refused(kind: str) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    data = encoded(Image.fromarray(noise), kind)
    for share in (0.1, 0.5, 0.9):
        with pytest.raises(ImageError, match=r"^expected b\.x to be a whole image, got") as caught:
            decode(data[: int(share * len(data))], "b.x")
        assert "\n" not in str(caught.value)


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize(
    ("data", "message"),
    [
        *(
            (animated(kind), "to be a still image, got 2 frames")
            for kind in ("GIF", "PNG", "WEBP", "TIFF")
        ),
        # Refused unread.
        (png(16_000, 9_000), "to have at most 134,217,728 pixels, got 16,000 x 9,000"),
        (png(100_000, 100_000), "to have at most 134,217,728 pixels, got more than Pillow opens"),
        (b"", "to be a whole image, got an empty file"),
        (b"%PDF-1.4", "to be a whole image, got no known format"),
        (encoded(gradient(), "PPM"), "to be a whole image, got no known format"),
        (
            encoded(Image.fromarray(np.ones((2, 2), np.float32)), "TIFF"),
            "to have 8 or 16 bits per channel, got 32",
        ),
    ],
)
def test_other_files_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(ImageError, match=f"^expected d {message}$"):
        decode(data, "d")


def test_large_images_of_one_colour_are_read() -> None:
    """Eighty-four kilobytes may be a blank page of 5000 x 5000 pixels."""
    data = encoded(Image.new("RGB", (5000, 5000), "white"), "PNG")
    assert len(data) < 100_000
    assert decode(data, "a").getextrema() == ((255, 255),) * 3


class Pairs(Sequence):
    """A dataset in the manner of torchvision; reading counts."""

    def __init__(self, items: list[Any]) -> None:
        self.items, self.read = items, 0

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: Any) -> Any:
        self.read += 1
        return self.items[index]


class Table(Pairs):
    """A dataset in the manner of Hugging Face: rows by number, columns by name."""

    column_names = ("image", "label")

    def __init__(self, items: list[Any], names: list[str]) -> None:
        super().__init__(items)
        self.features = {"image": None, "label": SimpleNamespace(names=names)}

    def __getitem__(self, index: Any) -> Any:
        return [row[index] for row in self.items] if isinstance(index, str) else self.items[index]


def test_pairs_and_tables() -> None:
    """Labels and names of pairs, of torchvision's attributes, and of Hugging Face's columns."""
    source = open_indexable(Pairs([(photo(i), i % 2) for i in range(4)]))
    assert source.labels.tolist() == [0, 1, 0, 1] and source.class_names == ("0", "1")
    assert np.array_equal(array(source.read(3)), array(photo(3)))
    assert source.name(2) == "Pairs[2]"
    dataset: Any = Pairs([(photo(0), 1), (photo(1), 0)])
    dataset.targets, dataset.classes = [1, 0], ["cat", "dog"]
    source = open_indexable(dataset)
    assert source.labels.tolist() == [1, 0] and source.class_names == ("cat", "dog")
    # Labels are not read from the items.
    assert dataset.read == 0
    rows = [{"image": photo(i), "label": i % 2} for i in range(3)]
    source = open_indexable(Table(rows, ["cat", "dog"]))
    assert source.labels.tolist() == [0, 1, 0] and source.class_names == ("cat", "dog")
    assert np.array_equal(array(source.read(1)), array(photo(1)))


@pytest.mark.parametrize("image", [array(photo(5)), photo_bytes(5), photo(5).convert("RGBA")])
def test_kinds_of_images(image: Any) -> None:
    source = open_indexable([(image, 0)])
    assert np.array_equal(array(source.read(0)), array(photo(5)))


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
        (["a", "c"], ["a", "b"], "among the 2 class names, got c of list.1"),
        ([None, 1], None, r"or strings as labels, .* got object"),
        ([0, 1], ["a", "a"], "expected different class names, got 'a' for classes 0 and 1"),
    ],
)
def test_labels_that_do_not_fit(labels: Any, names: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        open_indexable([(photo(0), 0), (photo(1), 1)], labels, names)
