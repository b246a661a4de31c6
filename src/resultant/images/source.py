"""Datasets of labelled images, and splits; the training images define the classes."""

from __future__ import annotations

import hashlib
import os
import unicodedata
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from PIL.Image import Image
from torch import Tensor

from resultant._core.text import listed, one_line
from resultant.images.decode import ImageError, as_picture

# Tasks that each thread has ahead.
AHEAD = 8

T = TypeVar("T")
R = TypeVar("R")


class Images:
    """Images in a fixed order: encoded bytes, pictures of Pillow or arrays."""

    def __len__(self) -> int:
        raise NotImplementedError

    def __getitem__(self, index: int) -> Any:
        raise NotImplementedError

    def name(self, index: int) -> str:
        """Return the name of an image for messages."""
        raise NotImplementedError

    def key(self, index: int) -> str:
        """Return the place of an image in its dataset, wherever the dataset lies."""
        return str(self.contents[index])

    def identity(self, index: int) -> int:
        """Return a number by which the rows of two feature files are paired."""
        return index

    def place(self, index: int) -> tuple[str, int]:
        """Return the file of an image, and its row in the file from 0."""
        return self.name(index), 0

    @cached_property
    def contents(self) -> np.ndarray:
        """Hashes [N] int64 of the encoded images, or of their pixels; every image is read once."""
        return np.fromiter(in_threads(self._content, range(len(self))), np.int64, len(self))

    def _content(self, index: int) -> int:
        try:
            image = self[index]
            if not isinstance(image, bytes):
                picture = as_picture(image, self.name(index))
                image = f"{picture.size}".encode() + picture.tobytes()
            return hashed(image)
        except ImageError:
            # Reported when the image is needed.
            return hashed(self.name(index).encode())

    def facts(self) -> Iterator[bytes]:
        """Yield bytes that differ if images differ."""
        yield self.contents.tobytes()


def hashed(data: bytes) -> int:
    """Return a hash of bytes as a number of 63 bits, the same on every machine."""
    return int.from_bytes(hashlib.sha256(data).digest()[:8], "little") >> 1


@dataclass(frozen=True, eq=False)
class ImageSource:
    """N labelled images in a fixed order: all of a collection, or its rows [N]."""

    images: Images
    every_label: np.ndarray
    class_names: tuple[str, ...]
    rows: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.index)

    @cached_property
    def index(self) -> np.ndarray:
        """Positions [N] of the images in the collection."""
        return np.arange(len(self.every_label)) if self.rows is None else self.rows

    @cached_property
    def labels(self) -> np.ndarray:
        """Labels [N] int64."""
        return self.every_label[self.index]

    def read(self, i: int) -> Image:
        """Return an image in mode RGB; an `ImageError` names a broken image."""
        return as_picture(self.images[int(self.index[i])], self.name(i))

    def name(self, i: int) -> str:
        return self.images.name(int(self.index[i]))

    def key(self, i: int) -> str:
        """Return the place of an image in its dataset, such as its path below the folder."""
        return self.images.key(int(self.index[i]))

    @property
    def identities(self) -> np.ndarray:
        """Numbers [N] int64 by which the rows of feature files are paired."""
        return np.array([self.images.identity(i) for i in self.index.tolist()], dtype=np.int64)

    def places(self) -> list[tuple[str, int]]:
        """Return the file of each image, and its row in the file."""
        return [self.images.place(i) for i in self.index.tolist()]

    @property
    def contents(self) -> np.ndarray:
        """Hashes [N] int64 of the images: an image and its copies have the same hash."""
        return self.images.contents[self.index]

    def select(self, rows: np.ndarray | Tensor | Sequence[int]) -> ImageSource:
        """Return the images at some indices in their order, or of a mask [N], without a copy."""
        rows = np.asarray(rows)
        # An empty list is an array of floats.
        return replace(self, rows=self.index[rows if rows.dtype == bool else rows.astype(int)])

    def positions_in(self, other: ImageSource) -> np.ndarray:
        """Return the indices [N] of these images in a source of the same collection."""
        order = other.order()
        return order[np.searchsorted(other.index[order], self.index)]

    @cached_property
    def digest(self) -> str:
        """A digest of the labels and the images, which names decoded images on the disk."""
        content = hashlib.sha256(np.ascontiguousarray(self.every_label).data)
        for fact in self.images.facts():
            content.update(fact)
        if self.rows is not None:
            content = hashlib.sha256(content.hexdigest().encode())
            content.update(np.ascontiguousarray(self.rows).data)
        return content.hexdigest()

    def order(self) -> np.ndarray:
        """Return the indices in the order of the collection, which a large file is read in."""
        return np.argsort(self.index, kind="stable")


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_threads(
    function: Callable[[T], R], items: Iterable[T], workers: int | None = None
) -> Iterator[R]:
    """Yield results in the order of the items, by threads: one per core, or ``workers`` at most."""
    number = cores() if workers is None else min(workers, cores())
    if not number:
        yield from map(function, items)
        return
    pool = ThreadPoolExecutor(number)
    running: deque[Future[R]] = deque()
    try:
        for item in items:
            running.append(pool.submit(function, item))
            if len(running) > AHEAD * number:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


@dataclass(frozen=True, eq=False)
class ImageSplits:
    """Training images, a subset of ``balanced`` if any, and held-out images with the same classes.
    With both, settings are chosen on ``val`` and evaluated on ``test``. ``divided`` splits were one
    collection, of which `resultant.images.held_out` has taken the test images. ``about`` are JSON
    values that features of the images keep."""

    train: ImageSource
    val: ImageSource | None = None
    test: ImageSource | None = None
    balanced: ImageSource | None = None
    skipped: tuple[str, ...] = ()
    about: Mapping[str, Any] = field(default_factory=dict)
    divided: bool = False

    def __post_init__(self) -> None:
        for name, split in self.held_out_splits.items():
            if tuple(split.class_names) != tuple(self.train.class_names):
                raise ValueError(f"expected the classes of train in {name}, got other names")
        missing = [self.class_names[c] for c in (self.counts == 0).nonzero()[:, 0].tolist()]
        if missing:
            rule = "expected training images of every class"
            raise ValueError(f"{rule}, got none of {listed(missing, 5)}")

    @property
    def class_names(self) -> tuple[str, ...]:
        return tuple(self.train.class_names)

    @property
    def num_classes(self) -> int:
        return len(self.train.class_names)

    @property
    def counts(self) -> Tensor:
        """Number of training images per class, [C]."""
        return torch.bincount(torch.from_numpy(self.train.labels), minlength=self.num_classes)

    @property
    def held_out_splits(self) -> dict[str, ImageSource]:
        """Held-out images by the name of their split."""
        both = {"val": self.val, "test": self.test}
        return {name: split for name, split in both.items() if split is not None}

    @property
    def held_out(self) -> str:
        """Name of the split that networks are evaluated on: test, or val without test images."""
        return "val" if self.test is None else "test"


def require_whole(sources: Iterable[ImageSource], workers: int | None = None) -> None:
    """Decode every image by threads; a broken one is an error now, and not after an epoch."""
    for source in sources:
        deque(in_threads(source.read, range(len(source)), workers), maxlen=0)


def without_broken(splits: ImageSplits, workers: int | None = None) -> ImageSplits:
    """Decode every image by threads and leave out the broken ones, named in ``skipped``."""

    def error_of(source: ImageSource, index: int) -> str:
        try:
            source.read(index)
        except ImageError as error:
            return str(error)
        return ""

    kept, skipped = {}, list(splits.skipped)
    for name, source in {"train": splits.train, **splits.held_out_splits}.items():
        errors = list(in_threads(partial(error_of, source), range(len(source)), workers))
        if any(errors):
            kept[name] = source.select([not text for text in errors])
        skipped += filter(None, errors)
    return replace(splits, **kept, skipped=tuple(skipped))


class LabelledImages(NamedTuple):
    """Images with labels [N], int64 or str, and all class names, if the dataset has them."""

    images: Images
    labels: np.ndarray
    classes: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()  # files that are not read, with the reason

    def at(self, index: int) -> str:
        """Return the label of an image and the name of the image, for errors."""
        return f"{one_line(self.labels[index])} of {self.images.name(index)}"


def coded(
    raw: Mapping[str, LabelledImages], names: Sequence[str] | None = None, skip: bool = False
) -> tuple[dict[str, ImageSource], list[str]]:
    """Return the splits with shared classes, of which ``names`` are those that numbers index, and
    the names of what ``skip`` leaves out: classes without training images, and their images."""
    train, skipped = raw["train"], []
    present = set(train.labels.tolist())
    if not present:
        raise ValueError("expected training images, got none")
    kinds = {
        name: "numbers" if split.labels.dtype.kind == "i" else "names"
        for name, split in raw.items()
    }
    if len(set(kinds.values())) > 1:
        got = ", ".join(f"{kind} in {name}" for name, kind in kinds.items())
        raise ValueError(f"expected labels of one kind in all splits, got {got}")
    known = tuple(names) if names is not None else train.classes
    keys = range(len(known)) if known and kinds["train"] == "numbers" else known or sorted(present)
    shown = known or tuple(map(str, keys))
    require_different(shown)
    if odd := present - set(keys):
        first = next(i for i, label in enumerate(train.labels.tolist()) if label in odd)
        rule = f"expected labels among the {len(known)} class names"
        raise ValueError(f"{rule}, got {train.at(first)}")
    pairs = list(zip(keys, shown, strict=True))
    if skip:
        empty = [name for key, name in pairs if key not in present]
        skipped += [f"class {name} without training images" for name in empty]
        pairs = [(key, name) for key, name in pairs if key in present]
    classes, code = tuple(name for _, name in pairs), {key: c for c, (key, _) in enumerate(pairs)}
    splits: dict[str, ImageSource] = {}
    for name, split in raw.items():
        labels = np.array([code.get(y, -1) for y in split.labels.tolist()], dtype=np.int64)
        unknown = np.flatnonzero(labels < 0).tolist()
        if unknown and not skip:
            got = split.at(unknown[0])
            raise ValueError(f"expected the classes of train in {name}, got {got}")
        skipped += [f"{split.images.name(i)} of a class without training images" for i in unknown]
        source = ImageSource(split.images, labels, classes)
        splits[name] = source.select(labels >= 0) if unknown else source
    return splits, skipped


def without_labels(images: Images) -> ImageSource:
    """Return images without labels as a source of one class without a name."""
    return ImageSource(images, np.zeros(len(images), dtype=np.int64), ("",))


def require_different(names: Sequence[str]) -> None:
    """Raise if two classes have the same name, up to blanks and the form of accents."""
    seen: dict[str, int] = {}
    for c, name in enumerate(names):
        key = " ".join(unicodedata.normalize("NFC", name).split())
        if key in seen:
            rule = "expected different class names"
            raise ValueError(f"{rule}, got {one_line(name)!r} for classes {seen[key]} and {c}")
        seen[key] = c
