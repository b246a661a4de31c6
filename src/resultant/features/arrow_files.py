"""Features in Arrow files, as the folders of Hugging Face datasets hold them.

One record batch is in memory at a time: a mapped file that is truncated meanwhile would end the
process. The sizes of compressed buffers are compared with the size of the file before Arrow
allocates them, and a batch is checked before its vectors are read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from resultant._core import chunks
from resultant.features.columns import (
    MAX_WIDTH,
    TableRows,
    arrow,
    batches_from,
    choose,
    feature_dtype,
    is_vector,
    list_lengths,
    table_contents,
    table_errors,
)
from resultant.features.naming import Names
from resultant.features.rows import Rows
from resultant.features.selection import SPLIT, RawContents

if TYPE_CHECKING:
    import pyarrow as pa

# A file is this and a stream, followed by an index that is not used.
MAGIC, END = b"ARROW1\0\0", b"ARROW1"
# The mark before the length of a message, and kinds of messages.
MARK, DICTIONARY, BATCH = 0xFFFFFFFF, 2, 3


def read_arrow(path: Path, split: str, names: Names) -> RawContents:
    """Open the columns of an Arrow file; rows without a split belong to ``split``."""
    pa = arrow()
    with table_errors(f"expected {path} to be a whole Arrow file of features"):
        _refuse_bombs(path)
        schema = _schema(path)
        chosen = choose(schema, names)
        single = [n for n in (chosen.label, chosen.identities) if n is not None]
        single += [SPLIT] if chosen.split else []
        number, texts, widths = 0, [], {}
        for batch in _batches(path, chosen.used):
            texts.append(pa.Table.from_batches([batch.select(single)]))
            for name, columns in chosen.vectors.items():
                if batch.num_rows and name not in widths:
                    widths[name] = _width(batch, columns)
            number += batch.num_rows
        if not number:
            raise ValueError("no rows")
        for name, width in widths.items():
            if not 1 <= width <= MAX_WIDTH:
                raise ValueError(f"{width:,} numbers in the first row of {name!r}")
        vectors: dict[str, Rows] = {
            n: ArrowRows(path, n, (number, widths[n]), feature_dtype(schema, columns), columns)
            for n, columns in chosen.vectors.items()
        }
        table = pa.concat_tables(texts)
        return table_contents(chosen, schema, split, vectors, table.column)


class ArrowRows(TableRows):
    """Vectors of an Arrow file."""

    def batches(self, start: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        return batches_from(start, _batches(self.path, list(self.columns)))


def _width(batch: pa.RecordBatch, columns: tuple[str, ...]) -> int:
    if is_vector(batch.schema.field(columns[0]).type, integers=True):
        return int(list_lengths(batch.column(columns[0]).slice(0, 1))[0])
    return len(columns)


def _schema(path: Path) -> Any:
    with arrow().OSFile(str(path)) as source:
        return _open(source).schema


def _batches(path: Path, columns: list[str]) -> Iterator[pa.RecordBatch]:
    with arrow().OSFile(str(path)) as source:
        for batch in _open(source):
            chosen = batch.select(columns)
            # Offsets of a hostile file may point outside of its buffers.
            chosen.validate(full=True)
            yield chosen


def _open(source: Any) -> Any:
    if source.read(len(MAGIC)) != MAGIC:
        source.seek(0)
    return arrow().ipc.open_stream(source)


def _refuse_bombs(path: Path) -> None:
    """Raise if compressed buffers declare far more bytes than the file has."""
    with open(path, "rb") as file:
        size, total = file.seek(0, 2), 0
        file.seek(0)
        at = len(MAGIC) if file.read(len(MAGIC)) == MAGIC else 0
        file.seek(size - len(END) if at else 0)
        if at and file.read() != END:
            raise ValueError("no end: it is truncated")
        while at < size:
            file.seek(at)
            mark, length = struct.unpack("<II", file.read(8).ljust(8, b"\0"))
            # Files of Arrow before 0.15 have no mark.
            head, length = (8, length) if mark == MARK else (4, mark)
            if not length:
                return
            file.seek(at + head)
            try:
                body, buffers = _message(file.read(min(length, size)))
            except (struct.error, OverflowError, IndexError):
                raise ValueError("a broken message") from None
            at += head + length
            for start in buffers:
                file.seek(at + start)
                total += max(0, int.from_bytes(file.read(8), "little", signed=True))
                chunks.require_decoded(total, size)
            at += body


def _message(data: bytes) -> tuple[int, list[int]]:
    """Return the length of the body of a message, and the places of its compressed buffers."""
    message = _number(data, 0, "I")
    kind, length = _field(data, message, 1), _field(data, message, 3)
    body = _number(data, length, "q") if length else 0
    if body < 0:
        raise ValueError("a message of negative length")
    batch = _table(data, message, 2)
    kind = data[kind] if kind else 0
    if kind == DICTIONARY and batch:
        batch = _table(data, batch, 1)
    compressed = kind in (DICTIONARY, BATCH) and batch and _field(data, batch, 3)
    if not compressed or not (buffers := _table(data, batch, 2)):
        return body, []
    places = range(buffers + 4, buffers + 4 + 16 * _number(data, buffers, "I"), 16)
    found = [struct.unpack_from("<qq", data, place) for place in places]
    if any(not 0 <= start <= start + size <= body for start, size in found):
        raise ValueError("a buffer outside of its message")
    return body, [start for start, size in found if size]


def _number(data: bytes, at: int, kind: str) -> int:
    return struct.unpack_from(f"<{kind}", data, at)[0]


def _field(data: bytes, table: int, number: int) -> int:
    """The place of a field of a table of FlatBuffers, 0 if the table has none."""
    known = table - _number(data, table, "i")
    if known < 0 or 4 + 2 * number >= _number(data, known, "H"):
        return 0
    offset = _number(data, known + 4 + 2 * number, "H")
    return table + offset if offset else 0


def _table(data: bytes, table: int, number: int) -> int:
    """The place of the table or vector that a field refers to, 0 for none."""
    place = _field(data, table, number)
    return place + _number(data, place, "I") if place else 0
