"""Images in files of their own: folders of classes, and lists of labelled files."""

import csv
import os
import re
import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from resultant._core.files import read_bytes
from resultant._core.text import listed, one_line
from resultant.features.rows import reading
from resultant.images.decode import SUFFIXES, ImageError
from resultant.images.source import Images, LabelledImages, in_threads

# Digits of a number that fits in 64 bits.
DIGITS = 18

_ENDINGS = "|".join(re.escape(suffix) for suffix in SUFFIXES)
# Names of files and of classes may hold commas: the name of a file ends in one of `SUFFIXES`.
NAMED = re.compile(rf"(?P<path>.*?(?:{_ENDINGS}))\s*,\s*(?P<label>.+)", re.IGNORECASE)
FORM = "'path label' with a label >= 0, or 'path,class name'"


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

    def key(self, index: int) -> str:
        """Return the path below the folder, the same on every system."""
        path = os.path.relpath(self.paths[index], self.root)
        return unicodedata.normalize("NFC", Path(path).as_posix())


def read_folder(root: Path) -> LabelledImages:
    """Find the images ``root/CLASS/**``, in sorted order, labelled by the names of the folders."""
    below = (entry.name for entry in os.scandir(root) if entry.is_dir())
    classes = sorted(name for name in below if not name.startswith((".", "__")))
    if not classes:
        rule = f"expected a folder of images per class in {root}"
        loose = [name for name in sorted(os.listdir(root)) if _is_image(name)]
        raise ValueError(f"{rule}, got {listed(loose, 3) or 'none'}")
    paths, labels = [], []
    for name in classes:
        files = []
        for parent, folders, names in os.walk(os.path.join(root, name)):
            folders[:] = [folder for folder in folders if not folder.startswith(".")]
            files += [os.path.join(parent, file) for file in names if _is_image(file)]
        paths += sorted(files)
        labels += [name] * len(files)
    if not paths:
        raise ValueError(f"expected images in the class folders of {root}, got none")
    return LabelledImages(FileImages(paths, str(root)), np.array(labels), tuple(classes))


def _is_image(name: str) -> bool:
    return name.lower().endswith(SUFFIXES) and not name.startswith(".")


def read_list(
    path: Path, root: Path, *, skip: bool = False, outside: bool = False
) -> tuple[LabelledImages, list[str]]:
    """Read a list of images with paths below ``root``; return them, and a line per missing file."""
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = "no such file" if isinstance(error, FileNotFoundError) else one_line(error)
        raise ValueError(f"expected the list {path}, got {why}") from None
    rows = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        name, label = _parse(line.strip(), f"{path}:{number}")
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


def _parse(line: str, place: str) -> tuple[str, str]:
    if line.startswith('"'):
        # A field that is too long is an error of the module.
        with suppress(csv.Error):
            fields = next(csv.reader([line], skipinitialspace=True))
            if len(fields) == 2 and all(fields):
                return fields[0], fields[1].strip()
    if match := NAMED.fullmatch(line):
        return match["path"], match["label"].strip()
    # Names of files may hold blanks: the label is the last word.
    words = line.rsplit(None, 1)
    if len(words) < 2 or not re.fullmatch("[0-9]{1,9}", words[1]):
        raise ValueError(f"expected {FORM} at {place}, got {line[:200]!r}")
    return words[0], words[1]
