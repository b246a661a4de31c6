"""Images that are held out of a collection, and images that a network was trained on.

The split follows each file: its path below the folder decides, so that files which come or go move
no other file. Copies of an image stay together. A network keeps the hashes of its training images,
which find them again under any name.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from resultant._core.text import counted
from resultant.images.source import ImageSource, ImageSplits

# Images of a class of which one validates.
FEWEST = 4


def held_out(source: ImageSource, share: float, seed: int = 0) -> np.ndarray:
    """Return a mask [N] of the images to hold out, about a share of them.

    An image is held out if the hash of its path is below the share. The two images of each class
    with the largest hashes stay, and so does an image with a copy that stays.
    """
    place, copies = _places_of(source, seed)
    held = place < share
    for c in range(len(source.class_names)):
        rows = np.flatnonzero(source.labels == c)
        last = np.sort(place[rows])[-2:]
        held[rows] &= place[rows] < last[0] if len(last) > 1 else False
    held &= ~np.isin(copies, copies[~held])
    if not held.any():
        rule = "expected classes of three images or more, of which a share is held out"
        remedy = "give a folder test, another --split-seed or a larger --held-out"
        got = f"none held out of {counted(len(held), 'image', 'images')}"
        raise ValueError(f"{rule}, got {got}; {remedy}")
    return held


def validation_images(source: ImageSource, share: float, seed: int = 0) -> np.ndarray:
    """Return a mask [N] of a share of each class, to choose by: one image at least of a class of
    `FEWEST`, so that every such class counts. Files that come or go may move others."""
    place, copies = _places_of(source, seed)
    held = np.zeros(len(place), dtype=bool)
    for c in range(len(source.class_names)):
        rows = np.flatnonzero(source.labels == c)
        if len(rows) >= FEWEST:
            number = min(max(1, round(share * len(rows))), len(rows) - 2)
            held[rows[np.argsort(place[rows], kind="stable")[:number]]] = True
    held &= ~np.isin(copies, copies[~held])
    return held


def _places_of(source: ImageSource, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the places [N] of images by their hashes, and numbers [N] that copies share."""
    place = _places([source.key(i) for i in range(len(source))], seed)
    # Copies take the largest of their places: another copy never moves a training image.
    _, copies = np.unique(source.contents, return_inverse=True)
    largest = np.zeros(len(place))
    np.maximum.at(largest, copies, place)
    return largest[copies], copies


def _places(keys: Sequence[str], seed: int) -> np.ndarray:
    """Return places [N] in [0, 1) that look random and follow from the keys and the seed."""
    digests = (hashlib.sha256(f"{seed}\0{key}".encode()).digest()[:7] for key in keys)
    return np.array([int.from_bytes(digest, "little") / 2**56 for digest in digests])


def divide(splits: ImageSplits, share: float, seed: int = 0) -> ImageSplits:
    """Hold out a share of the training images as test images."""
    train = splits.train
    held = held_out(train, share, seed)
    return replace(splits, train=train.select(~held), test=train.select(held), divided=True)


def without_trained(splits: ImageSplits, trained: np.ndarray) -> ImageSplits:
    """Return splits whose held-out images a network was not trained on.

    Args:
        splits: The splits.
        trained: Hashes of the images that the network was trained on.

    Returns:
        The splits. Trained images go back to the training images they were held out of; those of a
        split that the user has made are left out, and named in ``skipped``.
    """
    changes: dict[str, ImageSource] = {}
    train, skipped = splits.train, list(splits.skipped)
    for name, source in splits.held_out_splits.items():
        seen = np.isin(source.contents, trained)
        if not seen.any():
            continue
        if seen.all():
            rule = f"expected {name} images that the network was not trained on"
            raise ValueError(f"{rule}, got all {len(seen):,} trained on, such as {source.name(0)}")
        changes[name] = source.select(~seen)
        if splits.divided:
            train = replace(train, rows=np.sort(np.r_[train.index, source.index[seen]]))
        else:
            names = (source.name(i) for i in np.flatnonzero(seen).tolist())
            skipped += [f"{path} of {name}, which the network was trained on" for path in names]
    return replace(splits, train=train, skipped=tuple(skipped), **changes)
