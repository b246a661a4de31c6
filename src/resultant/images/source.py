"""Image datasets as sources: encoded or decoded images by index, with labels and class names.

Every kind of dataset (`folders`, `lists`, `parquet`, `indexable`) is an `ImageSource`. Training
and evaluation know nothing else of it. `ImageSplits` are sources that share their classes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from torch import Tensor

from resultant._core.text import listed
from resultant.images.decode import ImageError

if TYPE_CHECKING:
    from PIL.Image import Image

# Images that are checked at a time.
PIECE_IMAGES = 4096


class ImageSource(Protocol):
    """N labelled images in a fixed order.

    Attributes:
        labels: Labels [N] int64 in [0, C).
        class_names: Names of the C classes.
    """

    @property
    def labels(self) -> np.ndarray: ...

    @property
    def class_names(self) -> tuple[str, ...]: ...

    def __len__(self) -> int: ...

    def read(self, index: int) -> Image:
        """Return an image in mode RGB; an `ImageError` names a broken image."""
        ...

    def bytes_at(self, index: int) -> bytes | None:
        """Return the content of the image file; None for images that are not encoded."""
        ...

    def name(self, index: int) -> str:
        """Return the file and the row of an image, for errors."""
        ...

    def digest(self) -> str:
        """Return a digest of names, labels, sizes and times of all images, without reading them."""
        ...


@dataclass(frozen=True, eq=False)
class SelectedImages:
    """Images of a source by their indices ``rows`` [n], with ``labels`` [n]; see `select`."""

    source: ImageSource
    rows: np.ndarray
    labels: np.ndarray

    @property
    def class_names(self) -> tuple[str, ...]:
        return self.source.class_names

    def __len__(self) -> int:
        return len(self.rows)

    def read(self, index: int) -> Image:
        return self.source.read(int(self.rows[index]))

    def bytes_at(self, index: int) -> bytes | None:
        return self.source.bytes_at(int(self.rows[index]))

    def name(self, index: int) -> str:
        return self.source.name(int(self.rows[index]))

    def digest(self) -> str:
        content = hashlib.sha256(self.source.digest().encode())
        content.update(np.ascontiguousarray(self.rows).data)
        return content.hexdigest()


def select(source: ImageSource, rows: np.ndarray | Tensor | Sequence[int]) -> ImageSource:
    """Return the images of a source at some indices, in their order, without a copy."""
    rows = np.asarray(rows, dtype=np.int64)
    labels = source.labels[rows]
    if isinstance(source, SelectedImages):
        return SelectedImages(source.source, source.rows[rows], labels)
    return SelectedImages(source, rows, labels)


@dataclass(frozen=True, eq=False)
class ImageSplits:
    """Training and held-out images with the same classes.

    With both held-out splits, settings are chosen on ``val`` and judged on ``test``.

    Attributes:
        train: Training images, at least one per class.
        val: Validation images, or None.
        test: Test images, or None.
        balanced: Images that ``train`` is a long-tailed subset of, or None.
        skipped: Names of images and classes that were left out.
    """

    train: ImageSource
    val: ImageSource | None = None
    test: ImageSource | None = None
    balanced: ImageSource | None = None
    skipped: tuple[str, ...] = ()

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
        """Name of the split that judges: test, or val if there is no test."""
        return "val" if self.test is None else "test"

    @property
    def judge(self) -> ImageSource | None:
        """Images that judge."""
        return self.val if self.test is None else self.test

    @property
    def chooser(self) -> ImageSource | None:
        """Images that choose settings: val, if test judges."""
        return None if self.test is None else self.val


def without_broken(splits: ImageSplits, workers: int | None = None) -> ImageSplits:
    """Decode every image and leave out the broken ones, by ``workers`` threads.

    Returns:
        The other images; `ImageSplits.skipped` has one line per broken image.

    Raises:
        ValueError: If a class has no other training image.
    """
    kept, errors = {}, list(splits.skipped)
    with ThreadPoolExecutor(max(workers, 1) if workers is not None else None) as pool:
        for name, source in {"train": splits.train, **splits.held_out_splits}.items():
            broken = {}
            # A piece at a time: the pool would hold a task per image.
            for top in range(0, len(source), PIECE_IMAGES):
                piece = range(top, min(top + PIECE_IMAGES, len(source)))
                results = pool.map(partial(_error, source), piece)
                broken |= {i: e for i, e in zip(piece, results, strict=True) if e is not None}
            if broken:
                kept[name] = select(source, np.setdiff1d(np.arange(len(source)), list(broken)))
            errors += broken.values()
    return replace(splits, **kept, skipped=tuple(errors))


def _error(source: ImageSource, index: int) -> str | None:
    try:
        source.read(index)
    except ImageError as error:
        return str(error)
    return None
