"""Images in files of their own."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from resultant._core.files import require_input_file
from resultant.images.decode import ImageError, decode

if TYPE_CHECKING:
    from PIL.Image import Image

# Threads that ask for sizes; on a network disk an answer takes milliseconds.
THREADS = 32
# Size of a file that is missing.
MISSING = -1


@dataclass(frozen=True, eq=False)
class FileImages:
    """Images in files, an `resultant.images.source.ImageSource`.

    Attributes:
        paths: Paths of the files.
        labels: Labels [N].
        class_names: Names of the classes.
        facts: Size and time of change of every file, [N, 2]; see `file_facts`.
        origin: The list that names the files; empty for none.
        lines: Number of the line of each file in the list, [N].
    """

    paths: Sequence[str]
    labels: np.ndarray
    class_names: tuple[str, ...]
    facts: np.ndarray = field(repr=False)
    origin: str = ""
    lines: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.paths)

    def read(self, index: int) -> Image:
        return decode(self.bytes_at(index), self.name(index))

    def bytes_at(self, index: int) -> bytes:
        try:
            require_input_file(self.paths[index])
            with open(self.paths[index], "rb") as file:
                return file.read()
        except OSError as error:
            why = "no such file" if isinstance(error, FileNotFoundError) else error.strerror
            raise ImageError(f"expected the image {self.name(index)}, got {why}") from None
        except ValueError as error:
            raise ImageError(f"{error} ({self.name(index)})") from None

    def name(self, index: int) -> str:
        line = "" if self.lines is None else f" ({self.origin}:{self.lines[index]})"
        return f"{self.paths[index]}{line}"

    def labelled(self, labels: np.ndarray, class_names: tuple[str, ...]) -> FileImages:
        """Return the same images with other labels."""
        return replace(self, labels=labels, class_names=class_names)

    def digest(self) -> str:
        """Return a digest of labels, sizes, times, and paths below the common folder.

        The folder itself may have moved when a job is continued.
        """
        paths = list(map(os.path.normpath, self.paths))
        folder = os.path.commonpath([os.path.dirname(path) for path in paths]) if paths else ""
        content = hashlib.sha256(np.ascontiguousarray(self.labels).data)
        content.update(np.ascontiguousarray(self.facts).data)
        for path in paths:
            content.update(os.fsencode(path.removeprefix(folder)) + b"\0")
        return content.hexdigest()


def file_facts(paths: Sequence[str]) -> np.ndarray:
    """Return size and time of change of files in nanoseconds, [N, 2] int64.

    The size of a missing file is `MISSING`.
    """
    facts = np.empty((len(paths), 2), dtype=np.int64)
    with ThreadPoolExecutor(THREADS) as pool:
        for top in range(0, len(paths), 4096):
            piece = paths[top : top + 4096]
            facts[top : top + len(piece)] = list(pool.map(_facts, piece))
    return facts


def _facts(path: str) -> tuple[int, int]:
    try:
        status = os.stat(path)
    except OSError:
        return MISSING, 0
    return status.st_size, status.st_mtime_ns
