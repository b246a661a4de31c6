"""Image folders: one folder of files per class."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from resultant._core.text import listed
from resultant.images.decode import SUFFIXES
from resultant.images.files import FileImages, file_facts
from resultant.images.labelling import RawSplit


def read_folder(root: Path) -> RawSplit:
    """Find the images ``root/CLASS/**``, in sorted order, with the names of the folders as labels.

    Hidden files and files with other endings than those of images are left out. A folder without
    images is a class without images.

    Raises:
        ValueError: If there is no class folder.
    """
    classes = sorted(entry.name for entry in os.scandir(root) if _is_class(entry))
    if not classes:
        rule = f"expected a folder of images per class in {root}"
        loose = [name for name in sorted(os.listdir(root)) if _is_image(name)]
        raise ValueError(f"{rule}, got {listed(loose, 3) or 'none'}")
    paths, labels = [], []
    for name in classes:
        files = sorted(_images(os.path.join(root, name)))
        paths += files
        labels += [name] * len(files)
    if not paths:
        raise ValueError(f"expected images in the class folders of {root}, got none")
    images = FileImages(paths, np.array(labels), tuple(classes), file_facts(paths))
    return RawSplit(images.labels, images.name, images.labelled, images.class_names)


def _is_class(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir() and not entry.name.startswith((".", "__"))


def _is_image(name: str) -> bool:
    return name.lower().endswith(SUFFIXES) and not name.startswith(".")


def _images(folder: str) -> Iterator[str]:
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (os.path.join(place, name) for name in names if _is_image(name))
