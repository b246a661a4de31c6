"""Classes of a dataset from the labels of its splits, which are numbers or names.

The training images define the classes: names in sorted order, numbers in ascending order. Numbers
may point into a list of class names.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from resultant._core.files import read_bytes
from resultant._core.text import listed, one_line
from resultant.images.source import Images, ImageSource, ImageSplits

# Classes that an error names at most.
NAMED = 5
# Digits of a number that fits in 64 bits.
DIGITS = 18


@dataclass(frozen=True, eq=False)
class LabelledImages:
    """Images with labels [N], int64 or str, and all class names, if the dataset has them."""

    images: Images
    labels: np.ndarray
    classes: tuple[str, ...] = ()

    def at(self, index: int) -> str:
        """Return the label of an image and the name of the image, for errors."""
        return f"{one_line(self.labels[index])} of {self.images.name(int(index))}"


def encode(
    raw: Mapping[str, LabelledImages],
    names: Sequence[str] | None = None,
    *,
    skip: bool = False,
    skipped: Sequence[str] = (),
) -> ImageSplits:
    """Build splits with shared classes.

    Args:
        raw: Splits by name: train, and val or test.
        names: Class names that numeric labels index; by default those of the dataset, else the
            numbers themselves.
        skip: Leave out classes without training images, and held-out images of such classes.
        skipped: Names of images that were left out before.

    Raises:
        ValueError: If two classes have one name, a class has no training image, or a held-out
            split has a class that train has not; the error names the class and the image.
    """
    train, skipped = raw["train"], list(skipped)
    if not len(train.labels):
        raise ValueError("expected training images, got none")
    numeric = {name: split.labels.dtype.kind == "i" for name, split in raw.items()}
    if len(set(numeric.values())) > 1:
        kinds = ", ".join(f"{'numbers' if n else 'names'} in {name}" for name, n in numeric.items())
        raise ValueError(f"expected labels of one kind in all splits, got {kinds}")
    known = tuple(names) if names is not None else train.classes
    if numeric["train"] and known:
        for split in raw.values():
            bad = np.flatnonzero((split.labels < 0) | (split.labels >= len(known)))
            if len(bad):
                rule = f"expected labels in [0, {len(known)}), one per class name"
                raise ValueError(f"{rule}, got {split.at(bad[0])}")
        values, shown = np.arange(len(known)), known
    else:
        values = np.unique(train.labels)
        if not numeric["train"] and known:
            if unknown := sorted(set(values.tolist()) - set(known)):
                rule = "expected every class of train among the class names"
                raise ValueError(f"{rule}, got {listed(unknown, NAMED)}")
            values = np.asarray(known)
        shown = tuple(str(value) for value in values.tolist())
    require_different(shown)
    order = np.argsort(values, kind="stable")
    empty = np.flatnonzero(~np.isin(values, train.labels))
    if len(empty) and not skip:
        raise ValueError(_empty_rule([shown[c] for c in empty], raw, values[empty]))
    skipped += [f"class {shown[c]} without training images" for c in empty]
    # Classes of the result, in the order of the names; the empty ones have none.
    code = np.full(len(values), -1, dtype=np.int64)
    kept = np.setdiff1d(np.arange(len(values)), empty)
    code[kept] = np.arange(len(kept))
    classes = tuple(shown[c] for c in kept)
    splits: dict[str, ImageSource] = {}
    for name, split in raw.items():
        at = order[np.searchsorted(values[order], split.labels).clip(max=len(values) - 1)]
        labels = np.where(values[at] == split.labels, code[at], -1)
        unknown = np.flatnonzero(labels < 0)
        if len(unknown) and not skip:
            got = split.at(unknown[0])
            raise ValueError(f"expected the classes of train in {name}, got {got}")
        names_of = map(split.images.name, unknown.tolist())
        skipped += [f"{image} of a class without training images" for image in names_of]
        source = ImageSource(split.images, labels, classes)
        splits[name] = source.select(np.flatnonzero(labels >= 0)) if len(unknown) else source
    return ImageSplits(**splits, skipped=tuple(skipped))


def _empty_rule(names: list[str], raw: Mapping[str, LabelledImages], values: np.ndarray) -> str:
    for name, split in raw.items():
        rows = np.flatnonzero(np.isin(split.labels, values))
        if len(rows):
            got = f"{split.at(rows[0])} only in {name}"
            return f"expected training images of every class, got {got}"
    return f"expected training images of every class, got none of {listed(names, NAMED)}"


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
    """Read class names: one per line, or columns ``label`` and ``name`` separated by tabs.

    Raises:
        ValueError: If the file has another form; the error names the line.
    """
    path = Path(path)
    try:
        lines = read_bytes(path).decode("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"expected class names in {path}, got: {one_line(error)}") from None
    if not lines or "\t" not in lines[0]:
        words = tuple(line.strip() for line in lines if line.strip())
        if not words:
            raise ValueError(f"expected class names in {path}, got none")
        return words
    names: dict[int, str] = {}
    head, *rows = (line.split("\t") for line in lines)
    if not {"label", "name"} <= set(head):
        got = one_line(", ".join(head))
        raise ValueError(f"expected columns label and name in {path}, got {got}")
    for number, row in enumerate(rows, start=2):
        if row == [""]:
            continue
        cells = dict(zip(head, row, strict=False))
        label, name = cells.get("label", ""), cells.get("name", "").strip()
        if not label.isdecimal() or len(label) > DIGITS or int(label) in names or not name:
            rule = f"expected a new label >= 0 and a name at {path}:{number}"
            raise ValueError(f"{rule}, got {one_line(label)!r} and {name!r}")
        names[int(label)] = name
    if sorted(names) != list(range(len(names))):
        raise ValueError(f"expected labels 0 to {len(names) - 1} in {path}, got others")
    return tuple(names[c] for c in range(len(names)))
