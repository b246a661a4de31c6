"""Features and labels in files, mapped or read in pieces."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from resultant._core import memory
from resultant._core.tensor_files import require_name, write_tensors
from resultant._core.text import printable
from resultant.features import rows as rules
from resultant.features.arrays import FORMAT, TEXTS, text_tensor
from resultant.features.declared import total_memory
from resultant.features.naming import Location, Names, Unlabelled, split_part, what_of
from resultant.features.origins import Origin
from resultant.features.readers import read_arrays
from resultant.features.rows import INTEGERS, Rows, TensorRows


class FeatureStore:
    """Named features with labels, from files. Open with `FeatureStore.open`.

    Arrays are named SPLIT/WHAT: ``train/encoder`` and other features are [N, d] floats,
    ``train/labels`` and ``train/identities`` [N] integers. Opening checks the layout and the
    labels; `chunks` and `check` also the values of features.

    Attributes:
        where: The path or another name of the source.
        metadata: JSON metadata.
        num_classes: The number of classes C; labels are in [0, C).
        called: The names of the arrays in the source.
        left_out: Other arrays of the source, which are not read.
        skipped: The number of rows without a label that are left out.
        label_files: Files of labels without features.
        origins: The `Origin` of the rows of each split.

    Example:
        >>> import torch
        >>> from resultant.features import FeatureStore
        >>> z, y = torch.eye(3), torch.arange(3)
        >>> FeatureStore("memory", {"train/features": z, "train/labels": y})
        FeatureStore(memory: train/features [3, 3], train/labels [3])
    """

    def __init__(
        self,
        where: str,
        arrays: Mapping[str, Tensor | Rows],
        metadata: Mapping[str, Any] | None = None,
        *,
        called: Mapping[str, str] | None = None,
        left_out: Sequence[str] = (),
        skipped: int = 0,
        label_files: Sequence[str] = (),
        origins: Mapping[str, Origin] | None = None,
    ) -> None:
        """Check the arrays; the arguments are the attributes of the class."""
        self.where, self.metadata = printable(where), dict(metadata or {})
        self.called, self.left_out = dict(called or {}), tuple(left_out)
        self.skipped = skipped
        self.label_files = tuple(map(printable, label_files))
        try:
            json.dumps(self.metadata, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ValueError(f"expected metadata of {where} as JSON, got: {error}") from None
        self._arrays = rules.check_layout(where, arrays)
        labels = {n: self[n] for n in self._arrays if what_of(n) == "labels"}
        self.num_classes = rules.number_of_classes(where, labels, self.metadata.get("num_classes"))
        sizes = {split_part(name): len(rows) for name, rows in self._arrays.items()}
        own = {split: Origin.of(self.where, number) for split, number in sizes.items()}
        self.origins = own | dict(origins or {})

    @staticmethod
    def open(
        path: Any,
        *,
        features: str | None = None,
        labels: str | None = None,
        identities: str | None = None,
        groups: str | None = None,
        columns: Sequence[str] = (),
        unlabelled: Unlabelled = "refuse",
    ) -> FeatureStore:
        """Open a file, a folder of shards, or .npy files by name as a store.

        A single .npy of features is read with the .npy of labels in the same folder, such as
        ``train_labels.npy`` or ``labels.npy``. Shards are files of one kind, in sorted order, whose
        names begin or end with the split.

        Args:
            path: A file, a folder, a pattern such as ``features/*.parquet``, a URL of Parquet,
                a mapping such as {"train/features": "z.npy", "train/labels": "y.npy"}, or a data
                frame of pandas or polars.
            features: The name of the array or column of features, if several could be; of a
                table with one column per feature, the name before the numbers.
            labels: The name of the array, column or .npy of labels, if not a usual one.
            identities: The name of integers or strings that identify the rows, if not a usual one.
            groups: The name of integers or strings, of which equal ones keep rows together.
            columns: The columns of a table that are its features, in this order; other columns of
                numbers are then left out.
            unlabelled: If some rows have no label: ``refuse`` the file, ``skip`` these rows, or
                ``keep`` all rows and read no labels.

        Raises:
            ValueError: A file is missing, broken or does not fit the others.
        """
        names = Names(features, labels, identities, groups, tuple(columns), unlabelled)
        return FeatureStore(**read_arrays(path, names))

    def __repr__(self) -> str:
        arrays = ", ".join(f"{n} {list(self.shape(n))}" for n in self._arrays)
        return f"FeatureStore({self.where}: {arrays})"

    def __getitem__(self, name: str) -> Tensor:
        """Return an array in memory: labels and identities as int64, features in their dtype."""
        return self.rows(name)[:]

    def vectors(self, name: str) -> Tensor | Rows:
        """Return features to be indexed as arrays; beyond 1/8 of the memory they stay on disk."""
        rows = self.rows(name)
        if not isinstance(rows, TensorRows) and rows.nbytes <= total_memory() // 8:
            rows = self._arrays[name] = TensorRows(self[name], rows)
        return rows.tensor if isinstance(rows, TensorRows) else rows

    def rows(self, name: str) -> Rows:
        """The rows of an array, read on demand."""
        if name not in self._arrays:
            names = ", ".join(self._arrays)
            raise KeyError(f"expected one of {names} in {self.where}, got {name!r}")
        return self._arrays[name]

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of an array; nothing is read."""
        return self.rows(name).shape

    def dtype(self, name: str) -> torch.dtype:
        """The dtype of an array; nothing is read."""
        return self.rows(name).dtype

    def __contains__(self, name: object) -> bool:
        return name in self._arrays

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    @property
    def splits(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(split_part(n) for n in self._arrays))

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the feature arrays."""
        return tuple(n for n in self._arrays if what_of(n) not in INTEGERS)

    def label_counts(self, split: str = "train") -> Tensor:
        """The number of rows of each class in the split, [C] int64."""
        return torch.bincount(self[f"{split}/labels"], minlength=self.num_classes)

    def chunks(
        self, name: str, rows: int | None = None, *, zero: bool = False
    ) -> Iterator[tuple[slice, Tensor]]:
        """Read an array in pieces of ``rows`` rows; yield the slice of each, and the piece.

        Raises:
            ValueError: A vector is not finite, or zero without ``zero``; with row and file.
        """
        array = self.rows(name)
        if rows is None:
            rows = memory.rows_per_chunk(array.nbytes // len(array), memory.MATRIX_BYTES)
        if rows < 1:
            raise ValueError(f"expected rows >= 1, got {rows}")
        for top in range(0, len(array), rows):
            piece = array[top : top + rows]
            if what_of(name) not in INTEGERS:
                source = f"{self.called.get(name, name)} of {self.where}"
                rules.require_vectors(piece, source, array, top, zero=zero)
            yield slice(top, top + len(piece)), piece

    def check(self, names: Iterable[str] | None = None) -> None:
        """Check features, by default all; a vector that is not finite, or zero, is an error."""
        for name in self.features if names is None else names:
            for _ in self.chunks(name):
                pass


def write_store(
    path: Location,
    arrays: Mapping[str, Tensor | np.ndarray],
    metadata: Mapping[str, Any] | None = None,
    texts: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Write a .safetensors store, completely or not at all.

    Args:
        path: A file name that ends in .safetensors.
        arrays: The arrays by name; layout and values are checked first.
        metadata: Values that JSON can represent; ``num_classes`` bounds the labels.
        texts: A text per row, such as the file of an image, as ``train/file``.

    Raises:
        ValueError: The arrays or the metadata are not valid.

    Example:
        >>> import tempfile, torch
        >>> from resultant.features import FeatureStore, write_store
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_store(f"{folder}/a.safetensors", {"features": torch.eye(2)})
        ...     FeatureStore.open(f"{folder}/a.safetensors").shape("train/features")
        (2, 2)
    """
    path, metadata = Path(path), dict(metadata or {})
    require_name(path)
    tensors: dict[str, Tensor] = {}
    for name, array in arrays.items():
        try:
            tensors[name] = torch.as_tensor(array).detach().cpu()
        except (TypeError, ValueError):
            got = f"{array.dtype} {tuple(array.shape)}"
            raise ValueError(f"expected {name} of {path} to be numbers, got {got}") from None
    store = FeatureStore(str(path), tensors, metadata)
    store.check()
    whole: dict[str, Tensor] = {}
    for name in store:
        array = store[name].contiguous()
        memories = {a.untyped_storage().data_ptr() for a in whole.values()}
        # safetensors refuses tensors that share memory.
        whole[name] = array.clone() if array.untyped_storage().data_ptr() in memories else array
    for name, words in (texts or {}).items():
        whole[name] = text_tensor(words)
        metadata = {**metadata, TEXTS: [*metadata.get(TEXTS, ()), name]}
    write_tensors(path, whole, {"format": FORMAT, "metadata": json.dumps(metadata)})
