"""Features and labels on disk, mapped into memory and read in pieces.

Arrays are named SPLIT/WHAT: ``train/encoder`` [N, d], ``train/projection`` [N, p] and other
features of one floating dtype each, ``train/labels`` [N] and ``train/identities`` [N] integers.
All arrays of a split have the same N. A name without a split belongs to ``train``, and
``test_labels`` is read as ``test/labels``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from resultant.data._npy import map_npy, read_npz

FORMAT = "resultant.FeatureStore 1"
SPLITS = ("train", "val", "test")
INTEGERS = ("labels", "identities")

FEATURE_DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
INTEGER_DTYPES = (
    *(torch.int64, torch.int32, torch.int16, torch.int8),
    *(torch.uint8, torch.uint16, torch.uint32, torch.uint64),
)

# Labels are counted up to the largest, which a broken file must not make astronomic.
MAX_CLASSES = 1 << 22

# Bytes of a feature array that are looked at at a time.
CHUNK_BYTES = 1 << 25

Location = str | os.PathLike[str]


class FeatureStore:
    """Named features with labels, from a file. Open with `FeatureStore.open`.

    Layout and labels are checked on opening. The values of features are checked while they go by
    in `chunks` (or all at once in `check`); ``store[name]`` maps them as they are.
    """

    def __init__(
        self, where: str, arrays: Mapping[str, Tensor], metadata: Mapping[str, Any] | None = None
    ) -> None:
        self.where, self.metadata = where, dict(metadata or {})
        self._arrays = _layout(where, arrays)
        declared = self.metadata.get("num_classes")
        known = declared is None or (type(declared) is int and 1 <= declared <= MAX_CLASSES)
        if not known:
            rule = f"expected num_classes of {where} to be an integer in [1, {MAX_CLASSES}]"
            raise ValueError(f"{rule}, got {declared!r}")
        self.num_classes = _number_of_classes(where, self._arrays, declared)

    @staticmethod
    def open(path: Location | Mapping[str, Location]) -> FeatureStore:
        """The store in a .safetensors (mapped) or .npz file, or in .npy files (mapped) by name.

        The last is a mapping such as {"train/features": "z.npy", "train/labels": "y.npy"}. Files
        that are broken or do not fit together are a ValueError that names them.
        """
        if isinstance(path, Mapping):
            where = ", ".join(os.fspath(p) for p in path.values())
            return FeatureStore(where, {n: _tensor(map_npy(p), p) for n, p in path.items()})
        suffix, where = Path(path).suffix, os.fspath(path)
        if suffix == ".npz":
            return FeatureStore(where, {n: _tensor(a, path) for n, a in read_npz(path).items()})
        if suffix == ".npy":
            rule = "expected an .npy of features together with one of labels"
            example = f'{{"train/features": {where!r}, "train/labels": ...}}'
            raise ValueError(f"{rule}, as a mapping {example}, got it alone")
        return FeatureStore(where, *_read_safetensors(path))

    def __repr__(self) -> str:
        arrays = ", ".join(f"{n} {list(a.shape)}" for n, a in self._arrays.items())
        return f"FeatureStore({self.where}: {arrays})"

    def __getitem__(self, name: str) -> Tensor:
        """An array: labels and identities as int64, features in their own dtype."""
        try:
            return self._arrays[name]
        except KeyError:
            names = ", ".join(self._arrays)
            raise KeyError(f"expected one of {names} in {self.where}, got {name!r}") from None

    def __contains__(self, name: object) -> bool:
        return name in self._arrays

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    @property
    def splits(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(_split(n) for n in self._arrays))

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the feature arrays."""
        return tuple(n for n in self._arrays if _what(n) not in INTEGERS)

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
        array = self[name]
        if rows is None:
            width = array[0].numel() * array.element_size()
            rows = max(1, CHUNK_BYTES // max(1, width))
        if rows < 1:
            raise ValueError(f"expected rows >= 1, got {rows}")
        for top in range(0, len(array), rows):
            piece = array[top : top + rows]
            if _what(name) not in INTEGERS:
                _require_vectors(piece, top, f"{name} of {self.where}", zero)
            yield slice(top, top + len(piece)), piece

    def check(self, *, zero: bool = False) -> None:
        """Look at every feature; the first that is not finite, or zero, is an error."""
        for name in self.features:
            for _ in self.chunks(name, zero=zero):
                pass


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
        n: a.detach().cpu() if isinstance(a, Tensor) else _tensor(a, path)
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
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        save_file(whole, temporary, metadata=header)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _read_safetensors(path: Location) -> tuple[dict[str, Tensor], dict[str, Any]]:
    rule = f"expected {os.fspath(path)} to be a whole safetensors file of features"
    try:
        # The tensors keep the file mapped.
        with safe_open(path, framework="pt", device="cpu") as file:
            header = file.metadata() or {}
            arrays = {n: file.get_tensor(n) for n in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise ValueError(f"{rule}, got no such file") from None
    except (SafetensorError, OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise ValueError(f"{rule}, got: {error}") from None
    except (RuntimeError, OverflowError, MemoryError) as error:
        raise ValueError(f"{rule}, got: {error}") from None
    # Files of others have no format, and are welcome.
    if header.get("format", FORMAT) not in (FORMAT, "pt", "np"):
        raise ValueError(f"{rule} (format {FORMAT!r}), got format {header['format']!r}")
    try:
        metadata = json.loads(header.get("metadata", "{}"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{rule} with JSON metadata, got: {error}") from None
    if not isinstance(metadata, dict):
        raise ValueError(f"{rule} with a JSON object, got {type(metadata).__name__}")
    return arrays, metadata


def _tensor(array: np.ndarray, path: Location) -> Tensor:
    try:
        return torch.from_numpy(array)
    except (TypeError, ValueError):
        rule = f"expected an array of numbers in this machine's byte order in {os.fspath(path)}"
        raise ValueError(f"{rule}, got {array.dtype} {array.shape}") from None


def _split(name: str) -> str:
    return name.partition("/")[0]


def _what(name: str) -> str:
    return name.partition("/")[2]


def _full_name(name: str) -> str:
    if "/" in name:
        return name
    split, _, what = name.partition("_")
    return f"{split}/{what}" if split in SPLITS and what else f"train/{name}"


def _layout(where: str, arrays: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The arrays by full name, each of a right dtype and shape, all of a split of one length."""
    found: dict[str, Tensor] = {}
    lengths: dict[str, tuple[int, str]] = {}
    for given, array in sorted(arrays.items()):
        name = _full_name(given)
        split, what = _split(name), _what(name)
        if split not in SPLITS or not what:
            rule = f"expected arrays of {where} named SPLIT/WHAT, SPLIT in {', '.join(SPLITS)}"
            raise ValueError(f"{rule}, got {given!r}")
        if name in found:
            raise ValueError(f"expected one {name} in {where}, got another called {given!r}")
        integers = what in INTEGERS
        if integers and (array.dim() != 1 or array.dtype not in INTEGER_DTYPES):
            rule = f"expected {name} of {where} to be [N] integers"
            raise ValueError(f"{rule}, got {array.dtype} {tuple(array.shape)}")
        if not integers and (array.dim() != 2 or array.dtype not in FEATURE_DTYPES):
            rule = f"expected {name} of {where} to be [N, d] floats"
            raise ValueError(f"{rule}, got {array.dtype} {tuple(array.shape)}")
        if not array.numel():
            raise ValueError(f"expected {name} of {where} not empty, got {tuple(array.shape)}")
        length, first = lengths.setdefault(split, (len(array), name))
        if len(array) != length:
            rule = f"expected {length} rows in {name} of {where}, as in {first}"
            raise ValueError(f"{rule}, got {len(array)}")
        found[name] = array.to(torch.int64) if integers else array
    if not found:
        raise ValueError(f"expected arrays such as train/features in {where}, got none")
    return found


def _number_of_classes(where: str, arrays: Mapping[str, Tensor], declared: int | None) -> int:
    """The number declared, or one more than the largest label of all splits."""
    number = declared or MAX_CLASSES
    largest = -1
    for name, labels in arrays.items():
        if _what(name) != "labels":
            continue
        bad = (labels < 0) | (labels >= number)
        if bad.any():
            i = int(bad.nonzero()[0])
            rule = f"expected {name} of {where} in [0, {number})"
            raise ValueError(f"{rule}, got {int(labels[i])} at row {i}")
        largest = max(largest, int(labels.max()))
    return number if declared else largest + 1


def _require_vectors(piece: Tensor, top: int, where: str, zero: bool) -> None:
    finite = piece.isfinite().all(-1)
    if not finite.all():
        row = top + int((~finite).nonzero()[0])
        value = piece[row - top][~piece[row - top].isfinite()][0]
        raise ValueError(f"expected {where} finite, got {float(value)} in row {row}")
    empty = (piece == 0).all(-1)
    if not zero and empty.any():
        row = top + int(empty.nonzero()[0])
        raise ValueError(f"expected {where} without zero vectors, got one in row {row}")
