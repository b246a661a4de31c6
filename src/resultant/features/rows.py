"""Rows of features, in memory, mapped or read on demand; the rules for the arrays of a store; and
errors of reading as one line."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from resultant._core import memory
from resultant._core.files import require_input_file
from resultant._core.text import one_line
from resultant.features.naming import NAMING, SPLITS, full_name, split_part, what_of

INTEGERS = ("labels", "identities", "groups")

FEATURE_DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
INTEGER_DTYPES = (
    *(torch.int64, torch.int32, torch.int16, torch.int8),
    *(torch.uint8, torch.uint16, torch.uint32, torch.uint64),
)

# Counts per class are allocated up to the largest label, which a broken file could inflate.
MAX_CLASSES = 1 << 22


class Rows:
    """An array [N, ...] whose rows are read on demand, by ``read`` or ``take`` of a subclass."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    # Names of the columns of features, where a table has a column for each number.
    names: tuple[str, ...] = ()

    def __len__(self) -> int:
        return self.shape[0]

    def __str__(self) -> str:
        return f"{self.dtype} {self.shape}"

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def read(self, start: int, stop: int) -> Tensor:
        """Read the rows from start to stop, 0 <= start <= stop <= N."""
        return self.take(torch.arange(start, stop))

    def take(self, index: Tensor) -> Tensor:
        """Read the rows at indices [n] in [0, N), in any order."""
        out = torch.empty((len(index), *self.shape[1:]), dtype=self.dtype)
        ranked, order = index.sort()
        height = memory.rows_per_chunk(self.nbytes // max(1, len(self)), memory.MATRIX_BYTES)
        low = 0
        while low < len(ranked):
            top = int(ranked[low])
            high = int(torch.searchsorted(ranked, top + height))
            piece = self.read(top, int(ranked[high - 1]) + 1)
            out[order[low:high]] = piece[ranked[low:high] - top]
            low = high
        return out

    def where(self, row: int) -> str:
        """Name the place of a row in its file."""
        return f"row {row}"

    def numbers(self) -> Tensor:
        """Return the number [N] of each row in its file."""
        return torch.arange(len(self))

    def present(self) -> Tensor:
        """Return True [N] for the rows that have a value."""
        return ~self[:].reshape(len(self), -1).isnan().any(1)

    def select(self, index: Tensor, dtype: torch.dtype | None = None) -> Rows:
        """Return the rows at indices [M], read on demand and converted to ``dtype``."""
        return IndexedRows(self, index, dtype or self.dtype)

    def __getitem__(self, key: Any) -> Tensor:
        """Return rows as NumPy does along the first axis."""
        if isinstance(key, slice) and key.step in (None, 1):
            start, stop, _ = key.indices(len(self))
            return self.read(start, max(start, stop))
        key = key.cpu().numpy() if isinstance(key, Tensor) else key
        index = torch.from_numpy(np.array(np.arange(len(self))[key]))
        return self.take(index.reshape(-1)).reshape(*index.shape, *self.shape[1:])


class TensorRows(Rows):
    """Rows of a tensor, in memory or mapped from a file; ``source`` are the rows it was read of."""

    def __init__(self, tensor: Tensor, source: Rows | None = None) -> None:
        self.tensor, self.shape, self.dtype = tensor, tuple(tensor.shape), tensor.dtype
        self.source = source

    def where(self, row: int) -> str:
        return super().where(row) if self.source is None else self.source.where(row)

    def numbers(self) -> Tensor:
        return super().numbers() if self.source is None else self.source.numbers()

    def read(self, start: int, stop: int) -> Tensor:
        return self.tensor if stop - start == len(self) else self.tensor[start:stop]

    def take(self, index: Tensor) -> Tensor:
        return self.tensor[index]


class FileRows(Rows):
    """Rows of an array in a file, which ``part`` opens at each reading: shards may be thousands.
    Those that are ``decoded`` as a whole are read at once."""

    def __init__(
        self,
        part: Callable[[int, int], np.ndarray],
        shape: tuple[int, ...],
        dtype: torch.dtype,
        decoded: bool = False,
    ) -> None:
        self.part, self.shape, self.dtype, self.decoded = part, shape, dtype, decoded

    def read(self, start: int, stop: int) -> Tensor:
        if self.decoded:
            return self._piece(start, stop)
        # In pieces: the memory of a mapped file counts until it is closed.
        out = torch.empty((stop - start, *self.shape[1:]), dtype=self.dtype)
        width = self.nbytes // max(1, len(self))
        for at in memory.row_slices(len(out), width, memory.MATRIX_BYTES):
            out[at] = self._piece(start + at.start, min(start + at.stop, stop))
        return out

    def _piece(self, start: int, stop: int) -> Tensor:
        part, shape = self.part(start, stop), (stop - start, *self.shape[1:])
        if part.shape != shape:
            raise ValueError(f"expected rows {shape}, got {part.shape}; the file has changed")
        # In the byte order of this machine, and aligned; a map is a copy that may change.
        kind, mapped = part.dtype.newbyteorder("="), isinstance(part, np.memmap)
        rows = np.array(part, kind, copy=mapped or None, order="C")
        return torch.from_numpy(np.require(rows, requirements=("A", "W"))).to(self.dtype)


class ConcatRows(Rows):
    """The rows of several arrays of one width and dtype in order, with the files of the arrays."""

    def __init__(self, parts: Sequence[Rows], files: Sequence[str]) -> None:
        self.parts, self.files = list(parts), list(files)
        self.ends = torch.tensor([len(part) for part in parts]).cumsum(0)
        self.shape, self.dtype = (int(self.ends[-1]), *parts[0].shape[1:]), parts[0].dtype

    def take(self, index: Tensor) -> Tensor:
        out = torch.empty((len(index), *self.shape[1:]), dtype=self.dtype)
        part = torch.searchsorted(self.ends, index.contiguous(), right=True)
        for k in part.unique().tolist():
            at = (part == k).nonzero()[:, 0]
            out[at] = self.parts[k].take(index[at] - self.ends[k] + len(self.parts[k]))
        return out

    def where(self, row: int) -> str:
        k = int(torch.searchsorted(self.ends, row, right=True))
        row -= int(self.ends[k]) - len(self.parts[k])
        return f"{self.parts[k].where(row)} of {self.files[k]}"


class IndexedRows(Rows):
    """The rows of an array at indices ``index`` [M], converted to ``dtype``."""

    def __init__(self, rows: Rows, index: Tensor, dtype: torch.dtype) -> None:
        self.rows, self.index, self.dtype, self.names = rows, index, dtype, rows.names
        self.shape = (len(index), *rows.shape[1:])

    def present(self) -> Tensor:
        return self.rows.present()[self.index]

    def take(self, index: Tensor) -> Tensor:
        return self.rows.take(self.index[index]).to(self.dtype)

    def where(self, row: int) -> str:
        return self.rows.where(int(self.index[row]))

    def numbers(self) -> Tensor:
        return self.rows.numbers()[self.index]


class ReorderedRows(Rows):
    """Features whose named columns are taken in another order."""

    def __init__(self, rows: Rows, names: tuple[str, ...]) -> None:
        self.rows, self.names, self.shape, self.dtype = rows, names, rows.shape, rows.dtype
        self.columns = torch.tensor([rows.names.index(name) for name in names])

    def read(self, start: int, stop: int) -> Tensor:
        return self.rows.read(start, stop)[:, self.columns]

    def take(self, index: Tensor) -> Tensor:
        return self.rows.take(index)[:, self.columns]

    def where(self, row: int) -> str:
        return self.rows.where(row)

    def numbers(self) -> Tensor:
        return self.rows.numbers()


@dataclass(frozen=True)
class NonNumericArray:
    """An array of strings or objects; ``read`` returns distinct strings, None for a missing one,
    and an index per row."""

    shape: tuple[int, ...]
    kind: str
    read: Callable[[], tuple[list[Any], Tensor]] | None = None

    def __str__(self) -> str:
        return f"{self.kind} {self.shape}"

    def present(self) -> Tensor:
        """Return True [N] for the rows that have a value."""
        words, codes = self.read() if self.read else ([""], torch.zeros(self.shape[0]).long())
        return torch.tensor([word is not None for word in words])[codes]

    def select(self, index: Tensor) -> NonNumericArray:
        """Return the rows at indices [M]."""
        shape, read = (len(index), *self.shape[1:]), self.read
        if read is None or math.prod(shape[1:]) != 1:
            return NonNumericArray(shape, self.kind)

        def chosen() -> tuple[list[Any], Tensor]:
            words, codes = read()
            return words, codes[index]

        return NonNumericArray(shape, self.kind, chosen)


AnyArray = Rows | NonNumericArray


def torch_dtype(dtype: np.dtype[Any]) -> torch.dtype | None:
    """Return the dtype of torch in the byte order of this machine, None if torch has none."""
    if dtype.kind == "u" and dtype.itemsize > 1:
        # torch has no assignment to rows of these.
        return torch.int64
    try:
        return torch.from_numpy(np.empty(0, dtype.newbyteorder("="))).dtype
    except TypeError:
        return None


class FileError(ValueError):
    """A file is missing, broken or of another kind; the message has the path."""


@contextmanager
def reading(
    path: str | os.PathLike[str], kind: str, refusal: type[ValueError] = FileError
) -> Iterator[None]:
    """Turn all errors over a file or URL, and libraries raise almost any, into ``refusal``."""
    rule = f"expected {os.fspath(path)} to be {kind}"
    try:
        if "://" not in os.fspath(path):
            require_input_file(path)
        yield
    except refusal:
        raise
    except FileNotFoundError:
        raise refusal(f"{rule}, got no such file") from None
    except Exception as error:
        text = one_line(error) or type(error).__name__
        raise refusal(f"{rule}, got: {text}") from None


class ZeroVectorsError(ValueError):
    """A row is a zero vector, which has no direction."""


def check_layout(where: str, arrays: Mapping[str, Tensor | Rows]) -> dict[str, Rows]:
    """Check names, dtypes, shapes and lengths; return the arrays by full name."""
    checked: dict[str, Rows] = {}
    for old, array in sorted(arrays.items()):
        name = full_name(old)
        rows = array if isinstance(array, Rows) else TensorRows(array)
        integers = what_of(name) in INTEGERS
        dim, dtypes = (1, INTEGER_DTYPES) if integers else (2, FEATURE_DTYPES)
        if split_part(name) not in SPLITS or not what_of(name):
            raise ValueError(f"expected arrays of {where} named {NAMING}, got {old!r}")
        if name in checked:
            raise ValueError(f"expected one {name} in {where}, got another called {old!r}")
        if len(rows.shape) != dim or rows.dtype not in dtypes:
            rule = "[N] integers" if integers else "[N, d] floats"
            raise ValueError(f"expected {name} of {where} to be {rule}, got {rows}")
        if not math.prod(rows.shape):
            raise ValueError(f"expected {name} of {where} not empty, got {rows.shape}")
        checked[name] = TensorRows(rows[:].to(torch.int64)) if integers else rows
    if not checked:
        raise ValueError(f"expected arrays such as train/features in {where}, got none")
    for split in SPLITS:
        lengths = {n: len(rows) for n, rows in checked.items() if split_part(n) == split}
        ((usual, _), *_) = Counter(lengths.values()).most_common(1) or [(0, 0)]
        like = next((name for name, n in lengths.items() if n == usual), "")
        for name, n in lengths.items():
            if n != usual:
                rule = f"expected {usual} rows in {name} of {where}, as in {like}, got {n}"
                raise ValueError(f"{rule} (names are {NAMING}; --features chooses one)")
    return checked


def number_of_classes(where: str, arrays: Mapping[str, Tensor], declared: Any) -> int:
    """Return the declared number of classes, or one more than the largest label of all splits."""
    if declared is not None and not (type(declared) is int and 1 <= declared <= MAX_CLASSES):
        rule = f"expected num_classes of {where} to be an integer in [1, {MAX_CLASSES}]"
        raise ValueError(f"{rule}, got {declared!r}")
    number = declared or MAX_CLASSES
    for name, labels in arrays.items():
        bad = ((labels < 0) | (labels >= number)).nonzero()[:, 0]
        if len(bad):
            got = f"{int(labels[bad[0]])} at row {int(bad[0])}"
            hint = "; labels number the classes from 0, or are strings" * (declared is None)
            raise ValueError(f"expected {name} of {where} in [0, {number}), got {got}{hint}")
    return declared or max((int(labels.max()) + 1 for labels in arrays.values()), default=0)


def require_vectors(
    piece: Tensor, name: str, rows: Rows, top: int = 0, *, zero: bool = False
) -> None:
    """Raise unless vectors [n, d] from row ``top`` on are finite and, unless ``zero``, not zero."""
    # One pass over valid rows: a finite norm above zero proves a valid vector.
    norm = torch.linalg.vector_norm(piece, dim=1, dtype=torch.float64)
    if norm.isfinite().all() and (zero or (norm > 0).all()):
        return
    finite = piece.isfinite().all(-1)
    if not finite.all():
        i = int((~finite).nonzero()[0])
        value = piece[i][~piece[i].isfinite()][0]
        raise ValueError(f"expected {name} finite, got {float(value)} in {rows.where(top + i)}")
    empty = (piece == 0).all(-1)
    if not zero and empty.any():
        place = f"in {rows.where(top + int(empty.nonzero()[0]))}"
        later = (rows[i : i + len(piece)] for i in range(top, len(rows), len(piece)))
        number = sum(int((block == 0).all(-1).sum()) for block in later)
        got = "one" if number < 2 else f"{number:,} of {len(rows):,} rows, the first"
        raise ZeroVectorsError(f"expected {name} without zero vectors, got {got} {place}")
