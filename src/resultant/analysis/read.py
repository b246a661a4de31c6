"""Read rows with labels from files, arrays or data frames."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from resultant._core.text import printable
from resultant.analysis.split import FeatureSet, feature_sets
from resultant.features.naming import Unlabelled
from resultant.features.numbering import row_numbers
from resultant.features.origins import Column, Origin
from resultant.features.prepare import Prepared, check_features, prepare
from resultant.features.rows import NonNumericArray
from resultant.features.selection import CLASS_LABELS, CLASS_NAMES, WORDS
from resultant.features.store import FeatureStore


def read(
    X: Any,
    y: Any = None,
    *,
    fit_fraction: float | None = None,
    seed: int = 0,
    drop_zero_rows: bool = False,
    skip_unknown_classes: bool = False,
    **source: Any,
) -> list[FeatureSet]:
    """Read features and labels, and divide them if they have no test rows.

    Args:
        X, y: As in `open_store`.
        fit_fraction: Fraction of the training rows to fit; the others validate.
        seed: Seed of the division and of the folds.
        drop_zero_rows: Leave out rows of zero vectors.
        skip_unknown_classes: Leave out rows of classes without a training row.
        **source: Other arguments of `open_store`.

    Returns:
        The feature sets, ready for `resultant.analysis.run`.

    Raises:
        ValueError: Rows or labels do not fit.

    Example:
        >>> (data,) = read(torch.rand(40, 3), 20 * ["ant"] + 20 * ["bee"])
        >>> data.class_names, {split.name: len(split) for split in data.splits}
        (('ant', 'bee'), {'train': 32, 'test': 8})
    """
    title, store = open_store(X, y, **source)
    prepared = prepare(store, drop_zero_rows, skip_unknown_classes, seed=seed)
    return ready(prepared, title, fit_fraction, seed)


def open_store(
    X: Any,
    y: Any = None,
    *,
    labels: str | None = None,
    ids: Any = None,
    groups: Any = None,
    features: str | None = None,
    skip_unlabelled: bool = False,
    test: tuple[Any, Any] | None = None,
    val: tuple[Any, Any] | None = None,
) -> tuple[str, FeatureStore]:
    """Open a path, a data frame or arrays as a store, and name it in a few words.

    Args:
        X: The path of a feature file, a data frame, or features [N, p].
        y: Labels [N] of an array; None for a file, and for a data frame with its labels.
        labels, ids, groups, features: Names of columns of a file or data frame, by default the
            usual ones; ``ids`` and ``groups`` of an array are values [N].
        skip_unlabelled: Leave out rows of a file or data frame that have no label.
        test, val: Features and labels of test and validation rows, of arrays.
    """
    whole = isinstance(X, str | os.PathLike)
    if whole or (y is None and hasattr(X, "columns")):
        if y is not None or test is not None or val is not None:
            got = "a path" if whole else "a data frame"
            raise ValueError(f"expected {got} alone, or features with labels, got {got} and more")
        names = {"features": features, "labels": labels, "identities": ids, "groups": groups}
        if any(name is not None and not isinstance(name, str) for name in names.values()):
            raise ValueError("expected names of columns for labels, ids and groups, got values")
        title = printable(Path(X).name) if whole else "data frame"
        unlabelled: Unlabelled = "skip" if skip_unlabelled else "refuse"
        return title, FeatureStore.open(X, **names, unlabelled=unlabelled)
    return "features", memory_store(X, y, ids, groups, test, val)


def ready(
    prepared: Prepared, title: str, fit_fraction: float | None = None, seed: int = 0
) -> list[FeatureSet]:
    """Check the rows of a prepared store, and return its feature sets."""
    check_features(prepared)
    return feature_sets(prepared, title, fit_fraction, seed=seed)


def memory_store(X: Any, y: Any, ids: Any, groups: Any, test: Any, val: Any) -> FeatureStore:
    """Return a store of arrays; labels are numbered in their order."""
    if y is None:
        raise ValueError("expected labels y [N] with features X [N, p], got None")
    splits = {"train": (X, y), "test": test, "val": val}
    parts = {name: pair for name, pair in splits.items() if pair is not None}
    labels = {name: one_per_row("labels", own) for name, (_, own) in parts.items()}
    if len({a.dtype.kind in "U" for a in labels.values()}) > 1:
        raise ValueError("expected labels of all splits as words or as numbers, got both")
    known = np.unique(np.concatenate(list(labels.values())))
    arrays: dict[str, Any] = {}
    for name, (x, _) in parts.items():
        rows = torch.as_tensor(np.ascontiguousarray(plain(x)))
        if rows.dim() != 2 or len(rows) != len(labels[name]):
            got = f"{tuple(rows.shape)} and {labels[name].shape}"
            raise ValueError(f"expected {name} features [N, p] and labels [N], got shapes {got}")
        arrays[f"{name}/features"] = rows if rows.is_floating_point() else rows.float()
        arrays[f"{name}/labels"] = torch.from_numpy(np.searchsorted(known, labels[name]))
    origins = {}
    for what, values in (("identities", ids), ("groups", groups)):
        if values is None:
            continue
        name = "ids" if what == "identities" else what
        words = one_per_row(name, values)
        if words.shape != labels["train"].shape:
            rule = f"expected {name} [{len(labels['train'])}], one per row of X"
            raise ValueError(f"{rule}, got shape {words.shape}")
        distinct, codes = np.unique(words.astype(str), return_inverse=True)
        known_words = [str(word) for word in distinct], torch.from_numpy(codes)
        column = NonNumericArray(words.shape, "strings", partial(tuple, known_words))
        arrays[f"train/{what}"] = row_numbers("X", what, column)[:]
        before = origins.get("train") or Origin.of("X", len(words))
        name = "id" if what == "identities" else "group"
        columns = {**before.columns, name: Column([column])}
        origins["train"] = Origin(before.files, before.file, before.row, columns)
    about: dict[str, Any] = {
        CLASS_NAMES: [str(label) for label in known.tolist()],
        CLASS_LABELS: known.tolist(),
    }
    about |= {"num_classes": len(known), **({"labels": WORDS} if known.dtype.kind == "U" else {})}
    return FeatureStore("features", arrays, about, origins=origins)


def one_per_row(name: str, values: Any) -> np.ndarray:
    """Return labels, ids or groups [N] as booleans, whole numbers or strings; none is missing."""
    a = plain(values)
    if a.ndim != 1:
        hint = "; take the argmax of one-hot rows" if a.ndim == 2 else ""
        raise ValueError(f"expected {name} [N], one per row, got shape {a.shape}{hint}")
    each, real = a.tolist(), a.dtype.kind in "fO"
    missing = [i for i, v in enumerate(each) if is_missing(v)]
    if missing:
        number = "" if len(missing) == 1 else f", the first of {len(missing):,} rows"
        rule = f"expected {name} in every row, got nothing in row {missing[0]}{number}"
        raise ValueError(f"{rule}; fill in these rows or leave them out")
    words = [isinstance(v, str) for v in each]
    if any(words) != all(words):
        i = words.index(not words[0])
        raise ValueError(f"expected {name} as words or as numbers, got {each[0]!r} and {each[i]!r}")
    if real and not any(words):
        bad = next((i for i, v in enumerate(each) if v != int(v)), None)
        if bad is not None:
            rule = f"expected {name} to be words or whole numbers"
            raise ValueError(f"{rule}, got {each[bad]} in row {bad}")
        return np.array(each, np.int64)
    return a.astype(str) if any(words) else a


def is_missing(value: Any) -> bool:
    """Return True for None, NaN, the missing values of pandas, and words without a letter."""
    if isinstance(value, str):
        return not value.strip()
    return value is None or type(value).__name__ in ("NAType", "NaTType") or value != value


def plain(a: Any) -> Any:
    """Return a tensor, a data frame or a list as an array."""
    if isinstance(a, torch.Tensor):
        a = a.detach().cpu()
        a = a.float() if a.dtype == torch.bfloat16 else a
    return np.asarray(a)
