"""Features in Arrow files, as the folders of Hugging Face datasets hold them.

The files are mapped into memory; a batch is checked before its vectors are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from resultant._core.text import one_line
from resultant.features.columns import (
    MAX_WIDTH,
    TableColumns,
    TableRows,
    arrow,
    choose,
    dataset_class_names,
    feature_dtype,
    is_vector,
    label_values,
    list_lengths,
    splits_of,
)
from resultant.features.rows import Rows
from resultant.features.selection import SPLIT

if TYPE_CHECKING:
    import pyarrow as pa

MAGIC = b"ARROW1"


def read_arrow(
    path: Path, features: str | None, labels: str | None, identities: str | None
) -> TableColumns:
    """Open the columns of an Arrow file; arguments as in `FeatureStore.open`."""
    pa = arrow()
    rule = f"expected {path} to be a whole Arrow file of features"
    try:
        schema = _schema(path)
        chosen = choose(schema, features, labels, identities)
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
        y, known = (
            None if n is None else label_values(table.column(n), n)
            for n in (chosen.label, chosen.identities)
        )
        splits = splits_of(table.column(SPLIT)) if chosen.split else {}
        rest = [n for n in schema.names if n not in chosen.used]
        return TableColumns(
            vectors, y, known, splits, dataset_class_names(schema, chosen.label), rest
        )
    except FileNotFoundError:
        raise ValueError(f"{rule}, got no such file") from None
    except (ValueError, OSError, MemoryError, OverflowError, pa.ArrowException) as error:
        raise ValueError(f"{rule}, got: {one_line(error)}") from None


class ArrowRows(TableRows):
    """Vectors of an Arrow file."""

    def batches(self, start: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        top = 0
        for batch in _batches(self.path, list(self.columns)):
            if top + batch.num_rows > start:
                yield top, batch
            top += batch.num_rows


def _width(batch: pa.RecordBatch, columns: tuple[str, ...]) -> int:
    if is_vector(batch.schema.field(columns[0]).type, integers=True):
        return int(list_lengths(batch.column(columns[0]).slice(0, 1))[0])
    return len(columns)


def _schema(path: Path) -> Any:
    pa = arrow()
    with pa.memory_map(str(path)) as source:
        return _open(source).schema


def _batches(path: Path, columns: list[str]) -> Iterator[pa.RecordBatch]:
    pa = arrow()
    with pa.memory_map(str(path)) as source:
        reader = _open(source)
        stream = isinstance(reader, pa.ipc.RecordBatchStreamReader)
        whole = reader if stream else map(reader.get_batch, range(reader.num_record_batches))
        for batch in whole:
            chosen = batch.select(columns)
            # Offsets of a hostile file may point outside of its buffers.
            chosen.validate(full=True)
            yield chosen


def _open(source: Any) -> Any:
    pa = arrow()
    magic = source.read(len(MAGIC))
    source.seek(0)
    return pa.ipc.open_file(source) if magic == MAGIC else pa.ipc.open_stream(source)
