"""Images of files and of indexable datasets, as those of torchvision and Hugging Face: good, odd
and broken ones."""

from __future__ import annotations

import io
import struct
import zlib
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
from PIL import Image

from images.photos import photo, photo_bytes, same
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


GREY = np.array([[0, 100, 255]], dtype=np.uint8)
BLACK, WHITE = (Image.new("RGB", (8, 8), colour) for colour in ("black", "white"))
GOOD: list[tuple[bytes, Image.Image]] = [
    *((encoded(gradient(), kind), gradient()) for kind in ("PNG", "BMP", "TIFF")),
    (encoded(gradient(), "WEBP", lossless=True), gradient()),
    *((encoded(gradient(mode), "PNG"), gradient(mode)) for mode in ("L", "1", "LA", "RGBA")),
    (encoded(gradient("P"), "PNG", transparency=b"\0\x80\xff"), gradient("P")),
    # 16 bits are scaled, and the first of several pictures counts.
    *((encoded(Image.fromarray(257 * GREY.astype(np.uint16)), kind), Image.fromarray(GREY))
      for kind in ("PNG", "TIFF")),
    (encoded(BLACK, "MPO", save_all=True, append_images=[WHITE]), BLACK),
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
        (["a", "c"], ["a", "b"], "among the 2 class names, got c of list.1"),
        ([None, 1], None, r"or strings as labels, .* got object"),
        ([0, 1], ["a", "a"], "expected different class names, got 'a' for classes 0 and 1"),
    ],
)
def test_labels_that_do_not_fit(labels: Any, names: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        open_indexable([(photo(0), 0), (photo(1), 1)], labels, names)
