"""Images in files of their own: folders of classes, and lists of labelled files."""

import csv
import io
import os
import re
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from resultant._core.files import read_bytes
from resultant._core.text import listed, one_line
from resultant.features.rows import reading
from resultant.images.decode import SUFFIXES, ImageError
from resultant.images.source import Images, LabelledImages, hashed, in_threads

# Digits of a number that fits in 64 bits.
DIGITS = 18

_ENDINGS = "|".join(re.escape(suffix) for suffix in SUFFIXES)
# Names of files and of classes may hold commas: the name of a file ends in one of `SUFFIXES`.
NAMED = re.compile(rf"(?P<path>.*?(?:{_ENDINGS}))\s*,\s*(?P<label>.+)", re.IGNORECASE)
FORM = "'path label' with a label >= 0, or 'path,class name'"
# Columns of a list with a header line, in order of preference.
PATHS = ("path", "image_path", "file_path", "filepath", "file_name", "filename", "file", "image")
PATHS += ("image_name", "image_id", "img", "name")
LABELS = ("label", "class_name", "class", "category", "target", "species", "y", "labels")
HEADER = "a header line may name the columns, such as path,label"


@dataclass(frozen=True, eq=False)
class FileImages(Images):
    """Images in files below the folder ``root``, and their lines in the list ``origin``."""

    paths: Sequence[str]
    root: str
    origin: str = ""
    lines: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> bytes:
        with reading(self.name(index), "an image", ImageError):
            return read_bytes(self.paths[index])

    def name(self, index: int) -> str:
        line = "" if self.lines is None else f" ({self.origin}:{self.lines[index]})"
        return f"{self.paths[index]}{line}"

    def identity(self, index: int) -> int:
        """Return a hash of the path below the folder."""
        return hashed(self.key(index).encode())

    def place(self, index: int) -> tuple[str, int]:
        return self.paths[index], 0

    def key(self, index: int) -> str:
        """Return the path below the folder, the same on every system."""
        path = os.path.relpath(self.paths[index], self.root)
        return unicodedata.normalize("NFC", Path(path).as_posix())


def read_folder(root: Path) -> LabelledImages:
    """Find the images ``root/CLASS/**``, in sorted order, labelled by the names of the folders."""
    classes = subfolders(root)
    loose = [name for name in sorted(os.listdir(root)) if is_image(name)]
    if not classes:
        rule = f"expected a folder of images per class in {root}"
        raise ValueError(f"{rule}, got {listed(loose, 3) or 'none'}")
    paths, labels = [], []
    skipped = [f"{os.path.join(root, name)}, in no class folder" for name in loose]
    for name in classes:
        files = sorted(walk(os.path.join(root, name)))
        images = [file for file in files if is_image(file)]
        others = sorted(set(files).difference(images))
        skipped += [f"{file}, of a kind that is not read" for file in others]
        paths += images
        labels += [name] * len(images)
    if not paths:
        got = f"none; {skipped[0]}" if skipped else "none"
        raise ValueError(f"expected images in the class folders of {root}, got {got}")
    images = FileImages(paths, str(root))
    return LabelledImages(images, np.array(labels), tuple(classes), tuple(skipped))


def subfolders(root: str | os.PathLike[str]) -> list[str]:
    """Return the names of the folders in a folder, without hidden ones and those of systems."""
    below = (entry.name for entry in os.scandir(root) if entry.is_dir())
    return sorted(name for name in below if not name.startswith((".", "__")))


def walk(root: str) -> Iterator[str]:
    """Yield the files below a folder, of linked folders too, without hidden ones."""
    for parent, folders, names in os.walk(root, followlinks=True):
        # A link to a folder above itself would never end.
        above = os.path.realpath(parent) + os.sep
        inside = (name for name in folders if not name.startswith("."))
        folders[:] = [
            name
            for name in inside
            if not above.startswith(os.path.realpath(os.path.join(parent, name)) + os.sep)
        ]
        yield from (os.path.join(parent, name) for name in names if not name.startswith("."))


def is_image(name: str) -> bool:
    """Return True for the name or path of an image file that is not hidden."""
    return name.lower().endswith(SUFFIXES) and not os.path.basename(name).startswith(".")


def read_list(
    path: Path, root: Path, *, skip: bool = False, outside: bool = False
) -> tuple[LabelledImages, list[str]]:
    """Read a list of images with paths below ``root``; return them, and a line per missing file."""
    rows = []
    for number, name, label in _lines(_text(path), path):
        if not outside and (os.path.isabs(name) or ".." in Path(name).parts):
            rule = f"expected images below {root} at {path}:{number}"
            raise ValueError(f"{rule}, got {name[:200]}; --allow-outside reads such files")
        rows.append((os.path.join(root, name), label, number))
    if not rows:
        raise ValueError(f"expected lines {FORM} in {path}, got none")
    # By threads: on a network disk an answer takes milliseconds.
    exists = np.array(list(in_threads(os.path.exists, [file for file, _, _ in rows])))
    lacking = [f"{rows[i][0]} ({path}:{rows[i][2]})" for i in np.flatnonzero(~exists)]
    if lacking and (not skip or len(lacking) == len(rows)):
        got = f"{len(lacking)} of {len(rows)} missing: {lacking[0]}"
        raise ValueError(f"expected every image of {path} below {root}, got {got}")
    files, labels, numbers = zip(*(rows[i] for i in np.flatnonzero(exists)), strict=True)
    # Longer numbers are names.
    numeric = all(label.isdecimal() and len(label) <= DIGITS for label in labels)
    # Objects: an array of strings gives every label the room of the longest.
    values = np.array(labels, dtype=np.int64 if numeric else object)
    images = FileImages(files, str(root), str(path), np.array(numbers))
    return LabelledImages(images, values), [f"{name}, no such file" for name in lacking]


def read_paths(path: Path, root: Path) -> FileImages:
    """Read the images of a list below ``root``: a path per line, or a list with labels."""
    text = _text(path)
    lines = [(number, line.strip()) for number, line in enumerate(text.split("\n"), start=1)]
    rows = [(number, line) for number, line in lines if line]
    if not all(is_image(line) for _, line in rows):
        rows = [(number, name) for number, name, _ in _lines(text, path)]
    if not rows:
        raise ValueError(f"expected paths of images in {path}, got none")
    for number, name in rows:
        if os.path.isabs(name) or ".." in Path(name).parts:
            got = f"{name[:200]}; --images names the folder"
            raise ValueError(f"expected images below {root} at {path}:{number}, got {got}")
    numbers, names = zip(*rows, strict=True)
    files = [os.path.join(root, name) for name in names]
    return FileImages(files, str(root), str(path), np.array(numbers))


def _text(path: Path) -> str:
    """Read the text of a list."""
    try:
        return read_bytes(path).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = "no such file" if isinstance(error, FileNotFoundError) else one_line(error)
        raise ValueError(f"expected the list {path}, got {why}") from None


def _lines(text: str, path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield the number, the path and the label of each line; a header line names the columns."""
    head = text.lstrip().partition("\n")[0].strip()
    separator = next((mark for mark in "\t;" if mark in head), ",")
    columns: list[str] = []
    with suppress(csv.Error):
        columns = [name.strip().lower() for name in next(csv.reader([head], delimiter=separator))]
    which = [next((name for name in usual if name in columns), None) for usual in (PATHS, LABELS)]
    if None in which or len(columns) < 2:
        for number, line in enumerate(text.split("\n"), start=1):
            if line.strip():
                yield number, *_parse(line.strip(), f"{path}:{number}")
        return
    places = [columns.index(str(name)) for name in which]
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    titled = False
    try:
        for fields in reader:
            if not any(map(str.strip, fields)):
                continue
            if titled:
                if len(fields) != len(columns) or not all(fields[i].strip() for i in places):
                    rule = f"expected {', '.join(columns)} at {path}:{reader.line_num}"
                    raise ValueError(f"{rule}, got {separator.join(fields)[:200]!r}")
                name, label = (fields[i].strip() for i in places)
                yield reader.line_num, name, label
            titled = True
    except csv.Error as error:
        rule = f"expected columns of text at {path}:{reader.line_num}"
        raise ValueError(f"{rule}, got: {one_line(error)}") from None


def _parse(line: str, place: str) -> tuple[str, str]:
    if "\t" in line:
        fields = [field.strip() for field in line.split("\t")]
        if len(fields) != 2 or not all(fields):
            raise ValueError(f"expected {FORM} at {place}, got {line[:200]!r}; {HEADER}")
        return fields[0], fields[1]
    if line.startswith('"'):
        # A field that is too long is an error of the module.
        with suppress(csv.Error):
            fields = next(csv.reader([line], skipinitialspace=True))
            if len(fields) == 2 and all(fields):
                return fields[0], fields[1].strip()
    if (match := NAMED.fullmatch(line)) and not re.search(r",\S", match["label"]):
        return match["path"], match["label"].strip()
    # Names of files may hold blanks: the label is the last word.
    words = line.rsplit(None, 1)
    if len(words) < 2 or not re.fullmatch("[0-9]{1,9}", words[1]):
        raise ValueError(f"expected {FORM} at {place}, got {line[:200]!r}; {HEADER}")
    return words[0], words[1]
