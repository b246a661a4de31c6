"""Images in files of their own: folders of classes, and lists of labelled files."""

import csv
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from resultant._core.files import read_bytes
from resultant._core.text import listed, one_line
from resultant.features.rows import reading
from resultant.images.decode import SUFFIXES, ImageError
from resultant.images.source import LabelledImages, in_threads

# Size of a file that is missing, and digits of a number that fits in 64 bits.
MISSING, DIGITS = -1, 18

_ENDINGS = "|".join(re.escape(suffix) for suffix in SUFFIXES)
# Names of files and of classes may hold commas: the name of a file ends in one of `SUFFIXES`.
NAMED = re.compile(rf"(?P<path>.*?(?:{_ENDINGS}))\s*,\s*(?P<label>.+)", re.IGNORECASE)
FORM = "'path label' with a label >= 0, or 'path,class name'"


@dataclass(frozen=True, eq=False)
class FileImages:
    """Images in files with the `file_status` of each, and their lines in the list ``origin``."""

    paths: Sequence[str]
    status: np.ndarray = field(repr=False)
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

    def facts(self) -> Iterator[bytes]:
        """Yield sizes and times, and the paths below the common folder, which may have moved."""
        yield np.ascontiguousarray(self.status).tobytes()
        paths = list(map(os.path.abspath, self.paths))
        folder = os.path.commonpath(list(map(os.path.dirname, paths))) if paths else ""
        for path in paths:
            yield os.fsencode(path.removeprefix(folder)) + b"\0"


def file_status(paths: Sequence[str]) -> np.ndarray:
    """Return size and time of change of files, [N, 2] int64; a missing file has size `MISSING`."""

    def status(path: str) -> tuple[int, int]:
        with suppress(OSError):
            result = os.stat(path)
            return result.st_size, result.st_mtime_ns
        return MISSING, 0

    # By threads: on a network disk an answer takes milliseconds.
    return np.array(list(in_threads(status, paths)), dtype=np.int64).reshape(-1, 2)


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
    return LabelledImages(FileImages(paths, file_status(paths)), np.array(labels), tuple(classes))


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
    status = file_status([file for file, _, _ in rows])
    exists = status[:, 0] != MISSING
    lacking = [f"{rows[i][0]} ({path}:{rows[i][2]})" for i in np.flatnonzero(~exists)]
    if lacking and (not skip or len(lacking) == len(rows)):
        got = f"{len(lacking)} of {len(rows)} missing: {lacking[0]}"
        raise ValueError(f"expected every image of {path} below {root}, got {got}")
    files, labels, numbers = zip(*(rows[i] for i in np.flatnonzero(exists)), strict=True)
    # Longer numbers are names.
    numeric = all(label.isdecimal() and len(label) <= DIGITS for label in labels)
    # Objects: an array of strings gives every label the room of the longest.
    values = np.array(labels, dtype=np.int64 if numeric else object)
    images = FileImages(files, status[exists], str(path), np.array(numbers))
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
