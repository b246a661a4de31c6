"""Sizes of the pages of a Parquet file, read before Arrow decodes any of them.

Arrow allocates what the header of a page declares, and ends the process over some footers. The
footer and the headers of pages are in the compact protocol of Thrift, of which the few fields that
matter are read here; every size is compared with the bytes that the file has.
"""

from __future__ import annotations

from typing import Any, NamedTuple

# Wanted fields by number: None keeps a number or a text, a mapping is for a structure or a list.
Wanted = dict[int, Any]
CHUNK: Wanted = {3: {5: None, 6: None, 7: None, 9: None, 11: None}}
FOOTER: Wanted = {3: None, 4: {1: CHUNK, 3: None}}
COUNTS: Wanted = {1: None, 2: None}
PAGE: Wanted = {1: None, 2: None, 3: None, 5: COUNTS, 7: COUNTS, 8: {1: None, 4: None}}

MAGIC = b"PAR1"
# Kinds of pages, and the encoding of strings by the prefix that they share with the one before.
DATA, DICTIONARY, DATA_2 = 0, 2, 3
DELTA_BYTE_ARRAY = 7
# Levels of structures; bytes of the header of a page, most of them statistics.
DEPTH = 16
HEADER, MAX_HEADER = 1 << 10, 1 << 24


class Column(NamedTuple):
    """A column of one row group: its number of values, its declared size when decompressed, and
    its place in the file."""

    values: int
    decoded: int
    start: int
    length: int


class Pages(NamedTuple):
    """The pages of a column: their bytes when decompressed, the largest of them, and whether
    strings repeat the beginnings of others."""

    decoded: int
    largest: int
    prefixes: bool


class Compact:
    """Values in the compact protocol of Thrift, one after the other from ``at`` on."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def varint(self) -> int:
        value = shift = 0
        while shift < 64:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
        raise ValueError("a number of more than 64 bits in the metadata")

    def structure(self, wanted: Wanted, depth: int = DEPTH) -> dict[int, Any]:
        """Read a structure and keep the wanted fields."""
        fields: dict[int, Any] = {}
        number = 0
        while kind := self.data[self.at]:
            self.at += 1
            if step := kind >> 4:
                number += step
            else:
                number = self._signed()
            kind &= 15
            value = self._value(kind, wanted.get(number, {}), depth, stored=False)
            if number in wanted:
                fields[number] = value
        self.at += 1
        return fields

    def _signed(self) -> int:
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def _value(self, kind: int, wanted: Wanted | None, depth: int, *, stored: bool) -> Any:
        """Read a value; a truth value in a structure is its kind, in a list a byte."""
        if depth < 0:
            raise ValueError("metadata that is nested too deeply")
        if kind in (4, 5, 6):
            return self._signed()
        if kind in (1, 2, 3, 7, 8):
            skipped = {3: 1, 7: 8}.get(kind, int(stored)) if kind != 8 else self.varint()
            self.at += skipped
            return None
        if kind in (9, 10):
            return self._list(wanted or {}, depth)
        if kind == 11:
            return self._map(depth)
        if kind == 12:
            return self.structure(wanted or {}, depth - 1)
        raise ValueError(f"a value of kind {kind} in the metadata")

    def _list(self, wanted: Wanted, depth: int) -> list[Any]:
        head = self.data[self.at]
        self.at += 1
        number, kind = head >> 4, head & 15
        number = self.varint() if number == 15 else number
        self._require(number)
        if wanted:
            return [self._value(kind, wanted, depth - 1, stored=True) for _ in range(number)]
        for _ in range(number):
            self._value(kind, None, depth - 1, stored=True)
        return []

    def _map(self, depth: int) -> None:
        number = self.varint()
        self._require(number)
        kinds = self.data[self.at] if number else 0
        self.at += bool(number)
        for _ in range(number):
            self._value(kinds >> 4, None, depth - 1, stored=True)
            self._value(kinds & 15, None, depth - 1, stored=True)

    def _require(self, number: int) -> None:
        # Every element takes at least one byte.
        if number > len(self.data) - self.at:
            raise ValueError("a list that is longer than the metadata")


def read_columns(source: Any, groups: int, width: int) -> list[tuple[int, list[Column]]]:
    """Read the rows and the columns of every row group from the footer.

    ``groups`` and ``width`` are the numbers of row groups and of columns that Arrow has read.

    Raises:
        ValueError: The footer is broken.
    """
    size = source.size()
    tail = source.read_at(8, size - 8) if size >= 12 else b""
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != MAGIC or length > size - 12:
        raise ValueError("no footer without encryption at the end: it is truncated or encrypted")
    try:
        fields = Compact(source.read_at(length, size - 8 - length)).structure(FOOTER)
        found = [
            (group[3], [_column(chunk[3]) for chunk in group[1]]) for group in fields.get(4, [])
        ]
    except (IndexError, KeyError, TypeError):
        raise ValueError("a broken footer") from None
    if len(found) != groups or any(len(columns) != width for _, columns in found):
        raise ValueError("a footer that contradicts itself")
    return found


def _column(about: dict[int, int]) -> Column:
    start = about[9]
    if 0 < about.get(11, 0) < start:
        start = about[11]
    return Column(about[5], about[6], start, about[7])


def read_pages(source: Any, column: Column) -> Pages:
    """Read the headers of the pages of a column.

    Raises:
        ValueError: A header is broken, or declares more than the column has.
    """
    at, end = column.start, column.start + column.length
    if not (len(MAGIC) <= at <= end <= source.size()) or column.values < 0:
        raise ValueError(f"a column at bytes {at:,} to {end:,} of {source.size():,}")
    decoded = largest = values = 0
    prefixes = False
    # Arrow too stops after the last value.
    while values < column.values and at < end:
        header, length = _page(source, at, end)
        kind, unpacked, packed = header[1], header[2], header[3]
        at += length + packed
        if min(unpacked, packed) < 0 or at > end:
            raise ValueError(f"a page of {packed:,} bytes beyond the end of its column")
        decoded, largest = decoded + unpacked, max(largest, unpacked)
        if kind in (DATA, DATA_2):
            number, encoding = _counts(header, kind)
            values += number
            prefixes |= encoding == DELTA_BYTE_ARRAY
    if values != column.values:
        raise ValueError(f"{values:,} values in the pages of a column of {column.values:,}")
    return Pages(decoded, largest, prefixes)


def _counts(header: dict[int, Any], kind: int) -> tuple[int, int]:
    about = header.get(5 if kind == DATA else 8, {})
    number, encoding = about.get(1), about.get(2 if kind == DATA else 4)
    if number is None or encoding is None or number < 0:
        raise ValueError("a page without a number of values")
    return number, encoding


def _page(source: Any, at: int, end: int) -> tuple[dict[int, Any], int]:
    """Read the header of a page; return it and its length."""
    size = HEADER
    while True:
        compact = Compact(source.read_at(min(size, end - at), at))
        try:
            header = compact.structure(PAGE)
            if compact.at <= len(compact.data):
                if not {1, 2, 3} <= set(header):
                    raise ValueError("a page without its sizes")
                return header, compact.at
        except IndexError:
            pass
        if size >= min(end - at, MAX_HEADER):
            raise ValueError("a broken header of a page") from None
        size *= 16
