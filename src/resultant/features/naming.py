"""Names of feature files and of their arrays, and the splits in these names."""

from __future__ import annotations

import difflib
import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

Location = str | os.PathLike[str]

# Kinds whose columns are chosen when a file is read.
TABLES = (".parquet", ".csv", ".tsv", ".arrow", ".feather")
KINDS = (".safetensors", ".npz", ".npy", ".pt", ".pth", ".h5ad", *TABLES)
SPLITS = ("train", "val", "test")

# An array or column with the split of each row.
SPLIT = "split"

# Names of labels and of identities of rows, in order of preference.
LABELS = (
    *("labels", "label", "target", "targets", "class", "y", "cell_type", "species", "category"),
    *("variety", "cultivar", "intent", "diagnosis"),
)
IDENTITIES = ("identities", "identity", "row_id", "ids", "id")
# Other names of ids, such as doc_id, user id or imageId.
_ID = re.compile(r"(.*[_. -])?(id|ID|Id|uuid|UUID)|.*[a-z](Id|ID)", re.DOTALL)

# Files that Hugging Face datasets adds to its folders: results and indices of earlier calls.
_CACHES = ("cache-", "indices", "tmp")

# The rule for names of arrays, as messages state it.
NAMING = f"SPLIT/WHAT, SPLIT_WHAT, SPLIT.WHAT or WHAT_SPLIT, SPLIT in {', '.join(SPLITS)}"

# A split at the beginning or the end of the name of a file, and the number at the end of a shard.
_SPLIT = r"(train|validation|valid|val|test)"
_BEGINS = re.compile(rf"{_SPLIT}(?![a-z])", re.IGNORECASE)
_ENDS = re.compile(rf".*[-_./]{_SPLIT}$", re.IGNORECASE | re.DOTALL)
# From its first digit: every other would be tried too.
_NUMBER = re.compile(r"[-_.]?(?<!\d)\d+(-of-\d+)?$")

# A split before or after the name of an array.
_BEFORE = re.compile(rf"{_SPLIT}[/_.-](.+)", re.IGNORECASE | re.DOTALL)
_AFTER = re.compile(rf"(.+)[/_.-]{_SPLIT}", re.IGNORECASE | re.DOTALL)


Unlabelled = Literal["refuse", "skip", "keep"]


class Names(NamedTuple):
    """Names of features, labels, identities and groups in files, None for the usual names; the
    ``columns`` of a table that are its features, if known; and where some rows have no label, if
    these rows are left out or if no labels are read, in place of an error."""

    features: str | None = None
    labels: str | None = None
    identities: str | None = None
    groups: str | None = None
    columns: tuple[str, ...] = ()
    unlabelled: Unlabelled = "refuse"


class Shard(NamedTuple):
    """A file: its path or URL, the split in its name if any, the name without number."""

    path: Path | str
    split: str | None
    name: str

    @staticmethod
    def of(path: Path | str, parts: Sequence[str]) -> Shard:
        """Return a file by its path and the names of folders and itself that can hold a split."""
        stem = Path(parts[-1].removesuffix(".gz")).stem
        split = next((s for s in map(split_of, [*parts[:-1], stem]) if s is not None), None)
        return Shard(path, split, _NUMBER.sub("", stem))


def shards(where: Path, files: Iterable[Path] | None = None) -> list[Shard]:
    """List the feature files of a folder and its subfolders, or of a pattern; all of one kind."""
    folder = where
    if files is not None:
        fixed = next(i for i, part in enumerate(where.parts) if set(part) & set("*?["))
        folder = Path(*where.parts[:fixed])
    chosen = [
        path
        for path in sorted(_walk(folder) if files is None else files)
        if kind_of(path) in KINDS
        and path.is_file()
        and not (path.suffix == ".arrow" and path.name.startswith(_CACHES))
        and is_shown(path, folder)
    ]
    kinds = sorted({kind_of(path) for path in chosen})
    if len(kinds) > 1:
        # Such a table beside shards describes them.
        kinds = [kind for kind in kinds if kind != ".tsv"]
    if len(kinds) != 1:
        rule = f"expected {where} to be a folder of feature files of one kind ({', '.join(KINDS)})"
        none = "none; of images, resultant extract writes the features"
        raise ValueError(f"{rule}, got {' and '.join(kinds) or none}")
    return [Shard.of(p, p.relative_to(folder).parts) for p in chosen if kind_of(p) == kinds[0]]


def kind_of(path: Path | str) -> str:
    """Return the suffix of a file or URL in small letters; a packed table is a table."""
    name = str(path).partition("?")[0].lower()
    packed = name.removesuffix(".gz")
    suffix = Path(packed).suffix
    return suffix if packed == name or suffix in (".csv", ".tsv") else ".gz"


def is_shown(path: Path, folder: Path) -> bool:
    """Return True unless a file or a folder on the way from ``folder`` to it is hidden."""
    return not any(part.startswith(".") for part in path.relative_to(folder).parts)


def _walk(folder: Path) -> Iterator[Path]:
    """List the files of a folder and its subfolders; an unreadable folder is an error."""

    def refuse(error: OSError) -> None:
        raise ValueError(f"expected {error.filename} to be readable, got: {error.strerror}")

    for parent, _, names in os.walk(folder, onerror=refuse):
        yield from (Path(parent, name) for name in names)


def split_of(name: str) -> str | None:
    """The split at the beginning of a name or, before a number, at its end; validation is val."""
    match = _BEGINS.match(name) or _ENDS.match(_NUMBER.sub("", name))
    if match is None:
        return None
    word = match[1].lower()
    return "val" if word.startswith("val") else word


def full_name(name: str, split: str = "train") -> str:
    """The name SPLIT/WHAT of an array whose name follows `NAMING`; ``split`` if it names none."""
    if match := _BEFORE.fullmatch(name):
        return f"{split_of(match[1])}/{match[2]}"
    if match := _AFTER.fullmatch(name):
        return f"{split_of(match[2])}/{match[1]}"
    return name if "/" in name else f"{split}/{name}"


def split_part(name: str) -> str:
    """The SPLIT of SPLIT/WHAT."""
    return name.partition("/")[0]


def what_of(name: str) -> str:
    """The WHAT of SPLIT/WHAT."""
    return name.partition("/")[2]


def require_name(where: str, name: str, names: Sequence[str]) -> None:
    """Raise a ValueError with the closest name if a name is not among the names."""
    if name not in names:
        close = difflib.get_close_matches(name, names, 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"expected {name!r} among the names in {where}, got {among(names)}{hint}")


def among(names: Sequence[str]) -> str:
    """Names in a message, shortened: a table can have one column per dimension."""
    return ", ".join(names if len(names) <= 12 else [*names[:6], "...", *names[-3:]])


def usual_name(names: Iterable[str], usual: Sequence[str]) -> str | None:
    """The first of `LABELS` or `IDENTITIES` among the names, in upper or lower case."""
    by_lower = {n.lower(): n for n in sorted(names)}
    return next((by_lower[n] for n in usual if n in by_lower), None)


def is_identity(name: str) -> bool:
    """Return True for the name of a column of ids."""
    return name.lower() in IDENTITIES or _ID.fullmatch(name) is not None


def is_numeral(word: str) -> bool:
    """Return True for the text of a finite number."""
    try:
        return math.isfinite(float(word))
    except ValueError:
        return False
