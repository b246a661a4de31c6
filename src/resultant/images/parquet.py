"""Encoded images in Parquet files, binary or a struct with ``bytes`` as on the Hugging Face hub."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as t

from resultant._core.text import one_line
from resultant.features.columns import dataset_class_names, is_text
from resultant.features.rows import FileError, reading
from resultant.features.tables import open_parquet, require_sizes
from resultant.images.decode import ImageError
from resultant.images.source import Images, LabelledImages

# Row groups that are kept in memory.
GROUPS = 4


@dataclass(frozen=True, eq=False)
class ParquetImages(Images):
    """Images in ``columns`` of Parquet files, in row groups (file, row group) [G, 2]."""

    files: tuple[str, ...]
    columns: tuple[str, ...]
    groups: np.ndarray
    starts: np.ndarray

    def __len__(self) -> int:
        return int(self.starts[-1])

    def __getitem__(self, index: int) -> bytes:
        group = self._group(index)
        value = self._images(group)[index - int(self.starts[group])].as_py()
        if value is None:
            raise ImageError(f"expected an image at {self.name(index)}, got null")
        return value

    def name(self, index: int) -> str:
        """Return the file and the row in the file, counted from 0."""
        return "{} row {}".format(*self.place(index))

    def place(self, index: int) -> tuple[str, int]:
        file = int(self.groups[self._group(index), 0])
        first = int(self.starts[np.searchsorted(self.groups[:, 0], file)])
        return self.files[file], index - first

    def _group(self, index: int) -> int:
        return int(np.searchsorted(self.starts, index, side="right")) - 1

    @lru_cache(maxsize=GROUPS)  # noqa: B019
    def _images(self, group: int) -> Any:
        """Return the encoded images of a row group, where an image that repeats is held once;
        images are read in order, or nearly."""
        index, number = self.groups[group].tolist()
        path, column, place = self.files[index], self.columns[index], int(self.starts[group])
        with reading(self.name(place), "the start of a whole row group", ImageError):
            # Opened for each row group: threads share no handle.
            with open_parquet(path, [column]) as file:
                require_sizes(file, [number], [column], f"row group {number}")
                images = file.read_row_group(number, columns=[column]).column(0).combine_chunks()
            # Unlike field, flatten keeps the nulls of the structs.
            return images.flatten()[0] if t.is_struct(images.type) else images


def has_column(path: Path, column: str) -> bool:
    """Return True if a file is Parquet with a column of this name."""
    with suppress(FileError), reading(path, "Parquet"), open_parquet(path) as file:
        return column in file.schema_arrow.names
    return False


def read_parquet(
    paths: Sequence[Path], image_column: str = "image", label_column: str | None = "label"
) -> LabelledImages:
    """Open Parquet files as one split, with the images in the order of the files; without a column
    of labels, all are 0."""
    columns, groups, sizes, labels, names = [], [], [], [], ()
    for number, path in enumerate(paths):
        with reading(path, "Parquet"), open_parquet(path) as file:
            schema, metadata = file.schema_arrow, file.metadata
            columns.append(_image_path(schema, path, image_column, label_column))
            column = label_column and file.read([label_column]).column(label_column)
        for group in range(metadata.num_row_groups):
            groups.append((number, group))
            sizes.append(metadata.row_group(group).num_rows)
        if label_column is None:
            labels.append(np.zeros(metadata.num_rows, dtype=np.int64))
            continue
        labels.append(_labels(column, path, label_column))
        names = names or tuple(dataset_class_names(schema, label_column))
    if len({a.dtype.kind for a in labels}) > 1:
        raise ValueError(f"expected {label_column} of one type in all files, got both kinds")
    images = ParquetImages(
        tuple(map(str, paths)),
        tuple(columns),
        np.array(groups, dtype=np.int64).reshape(-1, 2),
        np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]),
    )
    return LabelledImages(images, np.concatenate(labels), names)


def _image_path(schema: Any, path: Path, image_column: str, label_column: str | None) -> str:
    """Check the columns, and return the path of the column of encoded images."""
    for column in (image_column, label_column):
        if column is not None and column not in schema.names:
            got = ", ".join(map(one_line, schema.names))
            raise FileError(f"expected a column {column!r} in {path}, got {got}")
    image = schema.field(image_column).type
    label = pa.int64() if label_column is None else schema.field(label_column).type
    inside = t.is_struct(image) and image.get_field_index("bytes") >= 0
    content = image.field("bytes").type if inside else image
    number = label.value_type if t.is_dictionary(label) else label
    binary = t.is_binary(content) or t.is_large_binary(content)
    for column, kind, rule, valid in (
        (image_column, image, "binary or a struct with bytes", binary),
        (label_column, label, "integers or strings", t.is_integer(number) or is_text(label)),
    ):
        if not valid:
            rule = f"expected the column {column!r} of {path} to be {rule}"
            raise FileError(f"{rule}, got {one_line(kind)[:80]}")
    return f"{image_column}.bytes" if inside else image_column


def _labels(column: Any, path: Path, name: str) -> np.ndarray:
    values = column.to_pylist()
    if None in values:
        rule = f"expected a label in {name!r} at {path} row {values.index(None)}"
        raise ValueError(f"{rule}, got null")
    # Objects: an array of strings gives every row the room of the longest.
    numeric = bool(values) and isinstance(values[0], int)
    try:
        return np.array(values, dtype=np.int64 if numeric else object)
    except OverflowError:
        raise ValueError(f"expected labels of {path} below 2^63, got {max(values)}") from None
