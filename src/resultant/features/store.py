"""Features and labels on disk, mapped into memory and read in pieces.

A store is a .safetensors or .npz file, .npy files by name, a Parquet file with a list column, or a
folder of shards of one of these.

Arrays are named SPLIT/WHAT: ``train/encoder`` [N, d], ``train/projection`` [N, p] and other
features of one floating dtype each, ``train/labels`` [N] and ``train/identities`` [N] integers.
All arrays of a split have the same N. A name without a split belongs to ``train``;
``test_labels``, ``test.labels`` and ``labels_test`` are read as ``test/labels``.

In files of others, labels may also be whole floats, booleans or strings, [N] or [N, 1], features
integers, and arrays that are neither are left out.
"""

from __future__ import annotations

import json
import math
import mmap
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from resultant._core import chunks
from resultant._core.tensor_files import write_tensors
from resultant._core.text import printable
from resultant.features.npy import as_tensor
from resultant.features.readers import (
    FORMAT,
    Contents,
    full_name,
    read_arrays,
    read_npy,
    settled,
    split_part,
    what_of,
)
from resultant.features.rows import (
    IndexedRows,
    MappedRows,
    MemoryRows,
    Rows,
    Spool,
    bytes_of,
)
from resultant.features.schema import (
    INTEGERS,
    MAX_CLASSES,
    layout,
    number_of_classes,
    require_vectors,
)

Location = str | os.PathLike[str]


class FeatureStore:
    """Named features with labels, from a file. Open with `FeatureStore.open`.

    Layout and labels are checked on opening. The values of features are checked while they go by
    in `chunks` (or all at once in `check`); ``store[name]`` maps them as they are.
    """

    def __init__(
        self,
        where: str,
        arrays: Mapping[str, Tensor | Rows],
        metadata: Mapping[str, Any] | None = None,
        *,
        called: Mapping[str, str] | None = None,
        left_out: Sequence[str] = (),
        label_files: Sequence[str] = (),
    ) -> None:
        """``called`` says what arrays are called where they come from, ``left_out`` what else was
        there, and ``label_files`` where labels come from that are not in the files of features."""
        self.where, self.metadata = printable(where), dict(metadata or {})
        self.called, self.left_out = dict(called or {}), tuple(left_out)
        self.label_files = tuple(map(printable, label_files))
        try:
            json.dumps(self.metadata, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ValueError(f"expected metadata of {where} as JSON, got: {error}") from None
        self._arrays = layout(where, arrays)
        self._maps: dict[str, tuple[Tensor, mmap.mmap]] = {}
        declared = self.metadata.get("num_classes")
        known = declared is None or (type(declared) is int and 1 <= declared <= MAX_CLASSES)
        if not known:
            rule = f"expected num_classes of {where} to be an integer in [1, {MAX_CLASSES}]"
            raise ValueError(f"{rule}, got {declared!r}")
        labels = {n: self[n] for n in self._arrays if what_of(n) == "labels"}
        self.num_classes = number_of_classes(where, labels, declared)

    @staticmethod
    def open(
        path: Location | Mapping[str, Location],
        *,
        features: str | None = None,
        labels: str | None = None,
    ) -> FeatureStore:
        """The store in a file, in a folder of shards, or in .npy files by name.

        The last is a mapping such as {"train/features": "z.npy", "train/labels": "y.npy"}. A single
        .npy is taken with that of labels beside it: ``train_features.npy`` with
        ``train_labels.npy``, ``other.npy`` with ``other_labels.npy`` or else ``labels.npy``, in
        which labels may be called label, target, targets, class or y too. ``features`` and
        ``labels`` name arrays or Parquet columns that are called otherwise, ``labels`` also the
        .npy beside a single one. Shards are files of one kind, in sorted order; a split is named by
        how their names begin or end. Files that are broken or do not fit together are a ValueError
        that names them.
        """
        if isinstance(path, Mapping):
            where = ", ".join(os.fspath(p) for p in path.values())
            names = [full_name(n) for n in path]
            twice = next((n for n in names if names.count(n) > 1), None)
            if twice is not None:
                raise ValueError(f"expected one {twice} in {where}, got another")
            read = zip(names, path.values(), strict=True)
            found = [(os.fspath(p), Contents({n: read_npy(Path(p))})) for n, p in read]
            return FeatureStore.of(where, settled(where, found))
        return FeatureStore.of(os.fspath(path), read_arrays(Path(path), features, labels))

    @staticmethod
    def of(where: str, found: Contents[Rows]) -> FeatureStore:
        """The store of what was found in files."""
        return FeatureStore(
            *(where, found.arrays, found.metadata),
            called=found.called,
            left_out=found.left_out,
            label_files=found.label_files,
        )

    def __repr__(self) -> str:
        arrays = ", ".join(f"{n} {list(self.shape(n))}" for n in self._arrays)
        return f"FeatureStore({self.where}: {arrays})"

    def __getitem__(self, name: str) -> Tensor:
        """An array: labels and identities as int64, features in their own dtype.

        Features of one file are mapped. Those of shards, of Parquet, of a compressed .npz and of a
        split that was held out are put into memory, or, beyond `HELD_BYTES`, into a temporary file
        that is mapped (`copied_bytes`); `chunks` needs neither. What is mapped beyond that size is
        not to be written to.
        """
        for _ in self.settle(name) if self.copied_bytes(name) else ():
            pass
        rows = self._rows(name)
        if not isinstance(rows, MappedRows) or bytes_of(rows) <= chunks.HELD_BYTES:
            return rows.read(0, len(rows))
        # Once: a map keeps a file open.
        if name not in self._maps:
            self._maps[name] = rows.whole()
        return self._maps[name][0]

    def vectors(self, name: str) -> Tensor | MappedRows:
        """A feature of which slices and rows at places [n] are asked for; like ``store[name]``, but
        what is not in memory stays where it is."""
        tensor, rows = self[name], self._rows(name)
        large = bytes_of(rows) > chunks.HELD_BYTES
        return rows if isinstance(rows, MappedRows) and large else tensor

    def copied_bytes(self, *names: str) -> int:
        """Bytes of temporary files that ``store[name]`` of all these writes, and keeps as long as
        the store is there."""
        arrays = [self._rows(name) for name in names]
        there = (MemoryRows, MappedRows)
        sizes = [bytes_of(rows) for rows in arrays if not isinstance(rows, there)]
        return sum(size for size in sizes if size > chunks.HELD_BYTES)

    def settle(self, name: str) -> Iterator[slice]:
        """Look at every vector of a feature, and in the same reading make the copy that
        ``store[name]`` needs, if any; where the rows stand that are done."""
        if not self.copied_bytes(name):
            yield from (rows for rows, _ in self.chunks(name))
            return
        with Spool(self._rows(name), f"{name} of {self.where}") as spool:
            for rows, piece in self.chunks(name):
                spool.write(piece)
                yield rows
            self._arrays[name] = spool.mapped()

    def release(self) -> None:
        """Give back the memory of large mapped features; what is used again is read again."""
        # Where the system cannot be told, it finds out when memory is short.
        if hasattr(mmap, "MADV_DONTNEED"):
            for _, view in self._maps.values():
                view.madvise(mmap.MADV_DONTNEED)

    def _rows(self, name: str) -> Rows:
        try:
            return self._arrays[name]
        except KeyError:
            names = ", ".join(self._arrays)
            raise KeyError(f"expected one of {names} in {self.where}, got {name!r}") from None

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of an array, of which nothing is read."""
        return self._rows(name).shape

    def dtype(self, name: str) -> torch.dtype:
        """The dtype of an array, of which nothing is read."""
        return self._rows(name).dtype

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
        """How many rows of the split each class has, [C] int64."""
        return torch.bincount(self[f"{split}/labels"], minlength=self.num_classes)

    def label_gaps(self, split: str = "train") -> list[int]:
        """The classes in [0, C) that have no row in the split."""
        return (self.label_counts(split) == 0).nonzero()[:, 0].tolist()

    def chunks(
        self, name: str, rows: int | None = None, *, zero: bool = False
    ) -> Iterator[tuple[slice, Tensor]]:
        """Pieces of ``rows`` rows and where they stand, each checked to be finite and, unless
        ``zero``, without zero vectors, which have no direction."""
        array = self._rows(name)
        if rows is None:
            width = math.prod(array.shape[1:]) * array.dtype.itemsize
            rows = chunks.rows_per_chunk(width, chunks.READ_BYTES)
        if rows < 1:
            raise ValueError(f"expected rows >= 1, got {rows}")
        for top in range(0, len(array), rows):
            piece = array.read(top, min(top + rows, len(array)))
            if what_of(name) not in INTEGERS:
                called = f"{self.called.get(name, name)} of {self.where}"
                require_vectors(piece, called, array, top, zero=zero, whole=True)
            yield slice(top, top + len(piece)), piece

    def check(self, *, zero: bool = False) -> None:
        """Look at every feature; the first that is not finite, or zero, is an error."""
        for name in self.features:
            for _ in self.chunks(name, zero=zero):
                pass

    def without_zeros(self) -> tuple[FeatureStore, dict[str, Tensor]]:
        """A store without the rows of which a feature is a zero vector, and where these were, by
        split."""
        arrays, zeros = dict(self._arrays), {}
        for part in self.splits:
            names = [n for n in self._arrays if split_part(n) == part]
            features = [n for n in names if n in self.features]
            empty = torch.zeros(len(self._arrays[names[0]]), dtype=torch.bool)
            for name in features:
                for rows, piece in self.chunks(name, zero=True):
                    empty[rows] |= (piece == 0).all(-1)
            if empty.all():
                raise ValueError(f"expected {part} of {self.where} not all zero, got zero vectors")
            if empty.any():
                zeros[part], stays = empty.nonzero()[:, 0], (~empty).nonzero()[:, 0]
                arrays |= {n: IndexedRows(arrays[n], stays) for n in names}
        return self._with(arrays, self.num_classes), zeros

    def held_out(self, share: float = 0.2, *, seed: int = 0) -> FeatureStore:
        """A store of one split as train and test: of every class, ``share`` of its rows is drawn
        for the test, but two stay to be fitted."""
        if len(self.splits) != 1:
            raise ValueError(f"expected {self.where} to have one split, got {self.splits}")
        if not 0 < share < 1:
            raise ValueError(f"expected a share in (0, 1), got {share}")
        split = self.splits[0]
        labels = self[f"{split}/labels"]
        # By class, and within a class by chance.
        chance = torch.rand(len(labels), generator=torch.Generator().manual_seed(seed))
        order = chance.argsort()
        order = order[labels[order].argsort(stable=True)]
        counts = self.label_counts(split)
        tops = counts.cumsum(0) - counts
        rank = torch.arange(len(labels)) - tops[labels[order]]
        drawn = torch.minimum((share * counts).round().long(), counts - 2)
        chosen = rank < drawn[labels[order]]
        if not chosen.any():
            least = max(3, math.floor(0.5 / share) + 1)
            rule = f"expected {least} rows or more in some class of {self.where}, or a test split"
            raise ValueError(f"{rule}, got {int(counts.max())} at the most")
        places = {"train": order[~chosen].sort().values, "test": order[chosen].sort().values}
        arrays, called = {}, {}
        for name, index in places.items():
            for n, rows in self._arrays.items():
                arrays[f"{name}/{what_of(n)}"] = IndexedRows(rows, index)
                called[f"{name}/{what_of(n)}"] = self.called.get(n, n)
        return self._with(arrays, self.num_classes, called)

    def _with(
        self,
        arrays: Mapping[str, Tensor | Rows],
        num_classes: int,
        called: Mapping[str, str] | None = None,
    ) -> FeatureStore:
        """A store of other arrays that come from the same place."""
        metadata = self.metadata | {"num_classes": num_classes}
        return FeatureStore(
            *(self.where, arrays, metadata),
            called=called or self.called,
            left_out=self.left_out,
            label_files=self.label_files,
        )

    def without_rare(self, least: int) -> tuple[FeatureStore, Tensor]:
        """A store without the rows, in all splits, of the classes that have fewer than ``least``
        training rows, but some; and these classes."""
        counts = self.label_counts()
        rare = (counts > 0) & (counts < least)
        arrays = dict(self._arrays)
        for part in self.splits if rare.any() else ():
            stays = ~rare[self[f"{part}/labels"]]
            if not stays.any():
                rule = f"expected {least} rows or more in train of a class of {part}"
                raise ValueError(f"{rule} in {self.where}, got none")
            if not stays.all():
                index = stays.nonzero()[:, 0]
                of_part = (n for n in arrays if split_part(n) == part)
                arrays |= {n: IndexedRows(arrays[n], index) for n in of_part}
        return self._with(arrays, self.num_classes), rare.nonzero()[:, 0]

    def without_gaps(self) -> tuple[FeatureStore, Tensor]:
        """A store whose labels count the classes that have training rows, and these classes [K] as
        they were; a row of another class is an error."""
        classes = (self.label_counts() > 0).nonzero()[:, 0]
        place = torch.full((self.num_classes,), -1)
        place[classes] = torch.arange(len(classes))
        arrays: dict[str, Tensor | Rows] = dict(self._arrays)
        for name in (n for n in arrays if what_of(n) == "labels"):
            labels = self[name]
            lost = (place[labels] < 0).nonzero()[:, 0]
            if len(lost):
                row = int(lost[0])
                rule = f"expected {name} of {self.where} among the classes of train/labels"
                c, names = int(labels[row]), self.metadata.get("class_names")
                known = isinstance(names, list) and names[c : c + 1]
                got = f"{c} ({str(known[0])!r})" if known else f"{c}"
                raise ValueError(f"{rule}, got class {got} at row {row}")
            arrays[name] = place[labels]
        return self._with(arrays, len(classes)), classes


def write_store(
    path: Location,
    arrays: Mapping[str, Tensor | np.ndarray],
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """Write a .safetensors store, whole or not at all; arrays and values are checked before.

    ``metadata`` is anything JSON can say. ``num_classes`` there bounds the labels.
    """
    path = Path(path)
    if path.suffix != ".safetensors":
        raise ValueError(f"expected a name that ends in .safetensors, got {path}")
    try:
        header = {"format": FORMAT, "metadata": json.dumps(dict(metadata or {}), allow_nan=False)}
    except (TypeError, ValueError) as error:
        raise ValueError(f"expected metadata that JSON can say, got: {error}") from None
    tensors = {
        n: a.detach().cpu() if isinstance(a, Tensor) else as_tensor(a, path)
        for n, a in arrays.items()
    }
    store = FeatureStore(str(path), tensors, json.loads(header["metadata"]))
    store.check()
    # Each its own memory: safetensors refuses tensors that share it.
    whole: dict[str, Tensor] = {}
    for name in store:
        array = store[name].contiguous()
        taken = {a.untyped_storage().data_ptr() for a in whole.values()}
        whole[name] = array.clone() if array.untyped_storage().data_ptr() in taken else array
    write_tensors(path, whole, header)
