"""Features in CSV files: a header line, one column per feature, and a column of labels.

The file is read in blocks. Up to `HELD_BYTES` of vectors are kept from the first reading; larger
ones are read from the file again when they are needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from resultant._core import chunks
from resultant._core.text import one_line
from resultant.features.columns import (
    MAX_WIDTH,
    TableColumns,
    TableRows,
    arrow,
    choose,
    label_values,
    splits_of,
)
from resultant.features.rows import MemoryRows, Rows
from resultant.features.selection import SPLIT

if TYPE_CHECKING:
    import pyarrow as pa


def read_csv(
    path: Path, features: str | None, labels: str | None, identities: str | None
) -> TableColumns:
    """Open the columns of a CSV file; arguments as in `FeatureStore.open`."""
    pa = arrow()
    rule = f"expected {path} to be a CSV file of features with a header line"
    try:
        schema = _reader(path, None).schema
        if all(_is_number(name) for name in schema.names):
            raise ValueError(f"numbers in the first line: {', '.join(schema.names[:3])}, ...")
        if all(pa.types.is_null(kind) for kind in schema.types):
            raise ValueError("no rows")
        if len(schema.names) > MAX_WIDTH:
            raise ValueError(f"{len(schema.names):,} columns")
        chosen = choose(schema, features, labels, identities)
        types = {n: pa.float64() for columns in chosen.vectors.values() for n in columns}
        for name in (chosen.label, chosen.identities):
            if name is not None:
                whole = pa.types.is_integer(schema.field(name).type)
                types[name] = pa.int64() if whole else pa.string()
        if chosen.split:
            types[SPLIT] = pa.string()
        single = [n for n in (chosen.label, chosen.identities, SPLIT) if n in types]
        empty = {
            n: CsvRows(path, n, (0, len(c)), torch.float64, c, types)
            for n, c in chosen.vectors.items()
        }
        kept: dict[str, list[Tensor]] | None = {n: [] for n in empty}
        width = 8 * sum(rows.shape[1] for rows in empty.values())
        texts: list[pa.Table] = []
        number = 0
        for batch in _reader(path, types):
            texts.append(pa.Table.from_batches([batch.select(single)]))
            if kept is not None:
                for name, rows in empty.items():
                    kept[name].append(rows.vectors(batch, number))
            number += batch.num_rows
            if number * width > chunks.HELD_BYTES:
                kept = None
        vectors: dict[str, Rows] = {
            n: CsvRows(path, n, (number, rows.shape[1]), rows.dtype, rows.columns, types)
            if kept is None
            else MemoryRows(torch.cat(kept[n]))
            for n, rows in empty.items()
        }
        table = pa.concat_tables(texts)
        y, known = (
            None if n is None else label_values(table.column(n), n)
            for n in (chosen.label, chosen.identities)
        )
        splits = splits_of(table.column(SPLIT)) if chosen.split else {}
        rest = [n for n in schema.names if n not in chosen.used]
        return TableColumns(vectors, y, known, splits, [], rest)
    except FileNotFoundError:
        raise ValueError(f"{rule}, got no such file") from None
    except (ValueError, OSError, MemoryError, OverflowError, pa.ArrowException) as error:
        raise ValueError(f"{rule}, got: {one_line(error)}") from None


class CsvRows(TableRows):
    """Vectors of a CSV file; a read that does not continue starts again at the first line."""

    def __init__(self, *arguments: Any) -> None:
        self.types = arguments[-1]
        super().__init__(*arguments[:-1])

    def batches(self, start: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        top = 0
        for batch in _reader(self.path, {n: self.types[n] for n in self.columns}):
            if top + batch.num_rows > start:
                yield top, batch
            top += batch.num_rows


def _reader(path: Path, types: dict[str, Any] | None) -> Any:
    """Read record batches, all columns with inferred types or those of ``types``."""
    from pyarrow import csv

    convert = csv.ConvertOptions(
        column_types=types, include_columns=list(types or ()), strings_can_be_null=False
    )
    return csv.open_csv(
        path, read_options=csv.ReadOptions(block_size=chunks.TEXT_BYTES), convert_options=convert
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
