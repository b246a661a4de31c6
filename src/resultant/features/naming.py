"""The files of a folder of features: shards, and the splits that their names tell."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

KINDS = (".safetensors", ".npz", ".npy", ".parquet")

# How a file begins or ends whose rows are those of a split, and the number that a shard ends with.
SPLIT = r"(train|validation|valid|val|test)"
BEGINS = re.compile(rf"{SPLIT}(?![a-z])", re.IGNORECASE)
ENDS = re.compile(rf".*[-_./]{SPLIT}$", re.IGNORECASE | re.DOTALL)
NUMBER = re.compile(r"[-_.]?\d+(-of-\d+)?$")


@dataclass(frozen=True)
class Shard:
    """A file of a folder: the split its name speaks of, if any, and the name without the number."""

    path: Path
    split: str | None
    name: str


def shards(folder: Path) -> list[Shard]:
    """The feature files of a folder and its subfolders in sorted order, all of one kind."""
    found = sorted(
        path
        for path in _below(folder)
        if path.suffix in KINDS
        and path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )
    kinds = sorted({path.suffix for path in found})
    if len(kinds) != 1:
        rule = f"expected {folder} to be a folder of shards of one kind ({', '.join(KINDS)})"
        raise ValueError(f"{rule}, got {' and '.join(kinds) or 'none'}")
    return [_shard(folder, path) for path in found]


def _below(folder: Path) -> Iterator[Path]:
    """The files of a folder and its subfolders; one that cannot be read is an error."""

    def refuse(error: OSError) -> None:
        raise ValueError(f"expected {error.filename} to be readable, got: {error.strerror}")

    for place, _, names in os.walk(folder, onerror=refuse):
        yield from (Path(place, name) for name in names)


def split_of(name: str) -> str | None:
    """The split that a name begins or, but for a number, ends with; validation is val."""
    match = BEGINS.match(name) or ENDS.match(NUMBER.sub("", name))
    if match is None:
        return None
    word = match[1].lower()
    return "val" if word.startswith("val") else word


def _shard(folder: Path, path: Path) -> Shard:
    parts = [*path.relative_to(folder).parts[:-1], path.stem]
    split = next((s for s in map(split_of, parts) if s is not None), None)
    return Shard(path, split, NUMBER.sub("", path.stem))
