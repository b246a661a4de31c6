"""The places of rows in the files of the user, and columns that describe the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from resultant.features.rows import AnyArray, NonNumericArray

# Names of columns that name an image per row, and of all that a table shows beside the row.
IMAGES = ("image", "image_path", "img", "path", "paths", "file", "file_name", "filename", "files")
DESCRIPTIONS = ("text", "sentence", "title", "caption", "content", "question", "document", "review")
DESCRIPTIONS += (*IMAGES, "url", "name")


class Column:
    """One value per row as text, spelled as in the file, and read when it is asked for."""

    def __init__(self, parts: Sequence[AnyArray], index: Tensor | None = None) -> None:
        self.parts, self.index = list(parts), index

    @cached_property
    def _read(self) -> tuple[list[str], Tensor]:
        """Distinct values of all parts, and the index [N] of each row among them."""
        words: list[str] = []
        codes = []
        for part in self.parts:
            if isinstance(part, NonNumericArray):
                assert part.read is not None, "only arrays of words are columns"
                own, code = part.read()
            else:
                values, code = part.read(0, len(part)).reshape(-1).unique(return_inverse=True)
                own = [str(value) for value in values.tolist()]
            codes.append(code + len(words))
            words += ["" if word is None else word for word in own]
        return words, torch.cat(codes)

    def select(self, index: Tensor) -> Column:
        """Return the column of the rows at indices [M]."""
        chosen = Column(self.parts, index if self.index is None else self.index[index])
        if "_read" in vars(self):
            chosen.__dict__["_read"] = self._read
        return chosen

    def __getitem__(self, rows: Tensor) -> list[str]:
        """Return the values of rows [n]."""
        words, codes = self._read
        at = rows if self.index is None else self.index[rows]
        return [words[c] for c in codes[at].tolist()]


@dataclass(frozen=True, eq=False)
class Origin:
    """The file of each row, its number in the file from 0, and the columns that describe it."""

    files: tuple[str, ...]
    file: Tensor  # indices [N] of the files
    row: Tensor  # numbers [N] of the rows in their files
    columns: Mapping[str, Column] = field(default_factory=dict)  # by name, an identity first

    def __len__(self) -> int:
        return len(self.row)

    @staticmethod
    def of(file: str, number: int) -> Origin:
        """Return the origin of the rows of one file in order."""
        return Origin((file,), torch.zeros(number, dtype=torch.int64), torch.arange(number))

    def select(self, index: Tensor) -> Origin:
        """Return the origin of the rows at indices [M]."""
        columns = {name: column.select(index) for name, column in self.columns.items()}
        return Origin(self.files, self.file[index], self.row[index], columns)

    def names(self, rows: Tensor) -> list[str]:
        """Return the file of rows [n]."""
        return [self.files[i] for i in self.file[rows].tolist()]
