"""Indexable datasets, as those of torchvision and Hugging Face."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from images.photos import array, photo, photo_bytes
from resultant.images.decode import ImageError
from resultant.images.indexable import open_indexable


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
def test_refused(labels: Any, names: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        open_indexable([(photo(0), 0), (photo(1), 1)], labels, names)
