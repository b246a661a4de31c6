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
from resultant.features.columns import (
    MAX_WIDTH,
    TableRows,
    arrow,
    batches_from,
    choose,
    table_contents,
    table_errors,
)
from resultant.features.naming import Names
from resultant.features.rows import MemoryRows, Rows
from resultant.features.selection import SPLIT, RawContents

if TYPE_CHECKING:
    import pyarrow as pa


def read_csv(path: Path, split: str, names: Names) -> RawContents:
    """Open the columns of a CSV file; rows without a split belong to ``split``."""
    pa = arrow()
    with table_errors(f"expected {path} to be a CSV file of features with a header line"):
        schema = _reader(path, None).schema
        if all(_is_number(name) for name in schema.names):
            raise ValueError(f"numbers in the first line: {', '.join(schema.names[:3])}, ...")
        if all(pa.types.is_null(kind) for kind in schema.types):
            raise ValueError("no rows")
        if len(schema.names) > MAX_WIDTH:
            raise ValueError(f"{len(schema.names):,} columns")
        chosen = choose(schema, names)
        types = {n: pa.float64() for columns in chosen.vectors.values() for n in columns}
        for name in (chosen.label, chosen.identities):
            if name is not None:
                whole = pa.types.is_integer(schema.field(name).type)
                types[name] = pa.int64() if whole else pa.string()
        if chosen.split:
            types[SPLIT] = pa.string()
        single = [n for n in (chosen.label, chosen.identities, SPLIT) if n in types]
        empty = {
            n: CsvRows(path, n, (0, len(c)), torch.float64, c) for n, c in chosen.vectors.items()
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
            n: CsvRows(path, n, (number, rows.shape[1]), rows.dtype, rows.columns)
            if kept is None
            else MemoryRows(torch.cat(kept[n]))
            for n, rows in empty.items()
        }
        table = pa.concat_tables(texts)
        return table_contents(chosen, schema, split, vectors, table.column)


class CsvRows(TableRows):
    """Vectors of a CSV file; a read that does not continue starts again at the first line."""

    def batches(self, start: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        types = dict.fromkeys(self.columns, arrow().float64())
        return batches_from(start, _reader(self.path, types))


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
