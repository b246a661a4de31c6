"""Lists of labelled images, one ``path label`` per line: ImageNet-LT, Places-LT, iNaturalist."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

# Classes or files that an error names at most.
NAMED = 5

LABEL = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, eq=False)
class ImageList:
    """Paths of N images and their labels [N] int64 in [0, num_classes)."""

    paths: tuple[str, ...]
    labels: Tensor
    num_classes: int

    def __len__(self) -> int:
        return len(self.paths)


@dataclass(frozen=True)
class ListedDataset:
    """Dataset published as lists: files by split, number of classes, and channel statistics."""

    files: dict[str, str]
    num_classes: int
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    std: tuple[float, float, float] = (0.229, 0.224, 0.225)

    @property
    def held_out(self) -> str:
        """Held-out split: test, or val for a dataset without test."""
        return "test" if "test" in self.files else "val"


def _named(stem: str, *splits: str) -> dict[str, str]:
    return {split: f"{stem}_{split}.txt" for split in splits}


DATASETS = {
    "imagenet-lt": ListedDataset(_named("ImageNet_LT", "train", "val", "test"), 1000),
    "places-lt": ListedDataset(_named("Places_LT", "train", "val", "test"), 365),
    "inaturalist18": ListedDataset(
        _named("iNaturalist18", "train", "val"),
        8142,
        mean=(0.466, 0.471, 0.380),
        std=(0.195, 0.194, 0.192),
    ),
}


def load_lists(
    name: str,
    lists_root: str | os.PathLike[str],
    image_root: str | os.PathLike[str],
    split: str,
    *,
    check_files: int | None = None,
) -> ImageList:
    """Load one split of a dataset of `DATASETS`.

    Args:
        name: Name of the dataset.
        lists_root: Folder of the lists.
        image_root: Folder that the paths of the lists are relative to.
        split: Name of the split.
        check_files: Number of images to look for; see `read_list`.

    Returns:
        The images in the order of the list.

    Raises:
        ValueError: For an unknown name or split, and for a broken list.
    """
    if name not in DATASETS:
        raise ValueError(f"expected name to be one of {', '.join(DATASETS)}, got {name!r}")
    dataset = DATASETS[name]
    if split not in dataset.files:
        raise ValueError(f"expected split of {name} in {', '.join(dataset.files)}, got {split!r}")
    path = Path(lists_root) / dataset.files[split]
    return read_list(path, image_root, num_classes=dataset.num_classes, check_files=check_files)


def read_list(
    path: str | os.PathLike[str],
    root: str | os.PathLike[str],
    *,
    num_classes: int | None = None,
    allow_gaps: bool = False,
    check_files: int | None = None,
) -> ImageList:
    """Read a list of labelled images.

    Args:
        path: Text file with one ``path label`` per line.
        root: Folder that the paths are relative to.
        num_classes: Number of classes, by default one more than the largest label.
        allow_gaps: Allow classes without images.
        check_files: Number of images to look for, evenly spread; by default all. Half a million
            images can take minutes on a network disk.

    Returns:
        The images in the order of the lines.

    Raises:
        ValueError: For a line without path and label, labels out of range, classes without images,
            or missing images; the error names the line or the file.
    """
    if check_files is not None and check_files < 0:
        raise ValueError(f"expected check_files >= 0, got {check_files}")
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ValueError(f"expected the list {os.fspath(path)}, got no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"expected {os.fspath(path)} to be a text file, got: {error}") from None
    paths, labels = [], []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        # The label is the last word: names may hold blanks.
        words = line.rsplit(maxsplit=1)
        if len(words) != 2 or not LABEL.fullmatch(words[1]):
            rule = f"expected 'path label', a label >= 0, at {os.fspath(path)}:{number}"
            raise ValueError(f"{rule}, got {line[:200]!r}")
        label = int(words[1])
        if num_classes is not None and label >= num_classes:
            rule = f"expected a label in [0, {num_classes}) at {os.fspath(path)}:{number}"
            raise ValueError(f"{rule}, got {label}")
        paths.append(os.path.join(root, words[0].strip()))
        labels.append(label)
    if not paths:
        raise ValueError(f"expected lines 'path label' in {os.fspath(path)}, got none")
    present = np.unique(labels)
    total = num_classes or int(present[-1]) + 1
    if len(present) < total and not allow_gaps:
        # Enough classes to contain all those that the error names.
        missing = np.setdiff1d(np.arange(min(total, len(present) + NAMED)), present)
        rule = f"expected images of all {total} classes in {os.fspath(path)}"
        more = ", ..." if total - len(present) > NAMED else ""
        names = ", ".join(str(c) for c in missing[:NAMED])
        raise ValueError(f"{rule}, got none of {total - len(present)}: {names}{more}")
    _require_files(paths, check_files, path)
    return ImageList(tuple(paths), torch.tensor(labels), total)


def _require_files(
    paths: list[str], check_files: int | None, where: str | os.PathLike[str]
) -> None:
    checked = paths
    if check_files is not None and check_files < len(paths):
        checked = [paths[i] for i in np.linspace(0, len(paths) - 1, check_files).astype(int)]
    missing = [p for p in checked if not os.path.isfile(p)]
    if missing:
        names = ", ".join(missing[:NAMED]) + (", ..." if len(missing) > NAMED else "")
        rule = f"expected every image of {os.fspath(where)}"
        raise ValueError(f"{rule}, got {len(missing)} of {len(checked)} missing: {names}")
