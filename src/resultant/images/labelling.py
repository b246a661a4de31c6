"""Classes of a dataset from the labels of its splits, which are numbers or names.

The training images define the classes: names in sorted order, numbers in ascending order. Numbers
may point into a list of class names.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from resultant._core.files import read_bytes
from resultant._core.text import one_line
from resultant.images.source import Images, ImageSource, ImageSplits


class LabelledImages(NamedTuple):
    """Images with labels [N], int64 or str, and all class names, if the dataset has them."""

    images: Images
    labels: np.ndarray
    classes: tuple[str, ...] = ()

    def at(self, index: int) -> str:
        """Return the label of an image and the name of the image, for errors."""
        return f"{one_line(self.labels[index])} of {self.images.name(index)}"


def encode(
    raw: Mapping[str, LabelledImages],
    names: Sequence[str] | None = None,
    *,
    skip: bool = False,
    skipped: Sequence[str] = (),
) -> ImageSplits:
    """Build the splits with shared classes; ``names`` are the class names that numbers index.

    ``skip`` leaves out classes without training images, and the held-out images of such classes.
    """
    train, skipped = raw["train"], list(skipped)
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
    for i, label in enumerate(train.labels.tolist() if present - set(keys) else []):
        if label not in keys:
            rule = f"expected labels among the {len(known)} class names"
            raise ValueError(f"{rule}, got {train.at(i)}")
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
        splits[name] = source.select(np.flatnonzero(labels >= 0)) if unknown else source
    return ImageSplits(**splits, skipped=tuple(skipped))


def require_different(names: Sequence[str]) -> None:
    """Raise if two classes have the same name, up to blanks and the form of accents."""
    seen: dict[str, int] = {}
    for c, name in enumerate(names):
        key = " ".join(unicodedata.normalize("NFC", name).split())
        if key in seen:
            rule = "expected different class names"
            raise ValueError(f"{rule}, got {one_line(name)!r} for classes {seen[key]} and {c}")
        seen[key] = c


def read_class_names(path: str | Path) -> tuple[str, ...]:
    """Read class names: one per line, or columns ``label`` and ``name`` separated by tabs."""
    try:
        lines = read_bytes(Path(path)).decode("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"expected class names in {path}, got: {one_line(error)}") from None
    lines = [line.strip() for line in lines if line.strip()]
    if not lines:
        raise ValueError(f"expected class names in {path}, got none")
    if "\t" not in lines[0]:
        return tuple(lines)
    head, *rows = (line.split("\t") for line in lines)
    if not {"label", "name"} <= set(head):
        got = one_line(", ".join(head))
        raise ValueError(f"expected columns label and name in {path}, got {got}")
    cells = [dict(zip(head, row, strict=False)) for row in rows]
    by_label = {cell["label"]: cell.get("name", "").strip() for cell in cells}
    names = tuple(by_label.get(str(c), "") for c in range(len(rows)))
    if not all(names):
        rule = f"expected each of the labels 0 to {len(rows) - 1} once with a name in {path}"
        raise ValueError(f"{rule}, got none for {names.index('')}")
    return names
