"""Stores with some rows or classes of another store."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from resultant.features.naming import split_part, what_of
from resultant.features.rows import IndexedRows, Rows
from resultant.features.store import FeatureStore


def _selected(arrays: dict[str, Rows], part: str, kept: Tensor) -> dict[str, Rows]:
    """Select the rows of a split where ``kept`` [N] is True; other splits stay."""
    index = kept.nonzero()[:, 0]
    return {n: IndexedRows(a, index) if split_part(n) == part else a for n, a in arrays.items()}


def without_zeros(store: FeatureStore) -> tuple[FeatureStore, dict[str, Tensor]]:
    """Leave out the rows with a zero vector; return the store and these rows by split."""
    arrays, zeros = dict(store._arrays), {}
    for part in store.splits:
        names = [n for n in store if split_part(n) == part]
        empty = torch.zeros(store.shape(names[0])[0], dtype=torch.bool)
        for name in set(names).intersection(store.features):
            for rows, piece in store.chunks(name, zero=True):
                empty[rows] |= (piece == 0).all(-1)
        if empty.all():
            raise ValueError(f"expected {part} of {store.where} not all zero, got zero vectors")
        if empty.any():
            zeros[part] = empty.nonzero()[:, 0]
            arrays = _selected(arrays, part, ~empty)
    return store.with_arrays(arrays, store.num_classes), zeros


def held_out(store: FeatureStore, share: float = 0.2, *, seed: int = 0) -> FeatureStore:
    """Divide a store of one split into train and test at random.

    Args:
        store: Features and labels of one split.
        share: The fraction of the rows of each class for the test; two rows stay in train.
        seed: The seed of the draw.

    Returns:
        A store with the splits train and test.

    Raises:
        ValueError: The store has several splits, or no class has enough rows.
    """
    if len(store.splits) != 1:
        raise ValueError(f"expected {store.where} to have one split, got {store.splits}")
    if not 0 < share < 1:
        raise ValueError(f"expected a share in (0, 1), got {share}")
    split = store.splits[0]
    labels = store[f"{split}/labels"]
    # Sorted by class, within a class at random.
    chance = torch.rand(len(labels), generator=torch.Generator().manual_seed(seed))
    order = chance.argsort()
    order = order[labels[order].argsort(stable=True)]
    counts = store.label_counts(split)
    tops = counts.cumsum(0) - counts
    rank = torch.arange(len(labels)) - tops[labels[order]]
    drawn = torch.minimum((share * counts).round().long(), counts - 2)
    chosen = rank < drawn[labels[order]]
    if not chosen.any():
        least = max(3, math.floor(0.5 / share) + 1)
        rule = f"expected {least} rows or more in some class of {store.where}, or a test split"
        raise ValueError(f"{rule}, got {int(counts.max())} at the most")
    indices = {"train": order[~chosen].sort().values, "test": order[chosen].sort().values}
    arrays, called = {}, {}
    for name, index in indices.items():
        for n, rows in store._arrays.items():
            arrays[f"{name}/{what_of(n)}"] = IndexedRows(rows, index)
            called[f"{name}/{what_of(n)}"] = store.called.get(n, n)
    return store.with_arrays(arrays, store.num_classes, called)


def without_single(store: FeatureStore) -> tuple[FeatureStore, Tensor]:
    """Leave out the classes with one training row.

    Returns:
        A store without the rows of these classes in all splits, and the classes.
    """
    single = store.label_counts() == 1
    arrays = dict(store._arrays)
    for part in store.splits if single.any() else ():
        kept = ~single[store[f"{part}/labels"]]
        if not kept.any():
            rule = f"expected 2 rows or more in train of a class of {part}"
            raise ValueError(f"{rule} in {store.where}, got none")
        if not kept.all():
            arrays = _selected(arrays, part, kept)
    return store.with_arrays(arrays, store.num_classes), single.nonzero()[:, 0]


def without_unknown(store: FeatureStore) -> tuple[FeatureStore, dict[str, int]]:
    """Leave out the rows of other splits whose class has no training row.

    Returns:
        The store, and the number of these rows by split.
    """
    known, arrays, skipped = store.label_counts() > 0, dict(store._arrays), {}
    for part in store.splits:
        kept = known[store[f"{part}/labels"]]
        if kept.all():
            continue
        if not kept.any():
            rule = f"expected rows in {part} of {store.where} of classes that train has"
            raise ValueError(f"{rule}, got none")
        skipped[part] = int((~kept).sum())
        arrays = _selected(arrays, part, kept)
    return store.with_arrays(arrays, store.num_classes), skipped


def without_gaps(store: FeatureStore) -> tuple[FeatureStore, Tensor]:
    """Number the classes with training rows consecutively.

    Returns:
        A store with the new labels, and the old labels [K] of the new classes.

    Raises:
        ValueError: A row belongs to a class without training rows.
    """
    classes = (store.label_counts() > 0).nonzero()[:, 0]
    number = torch.full((store.num_classes,), -1)
    number[classes] = torch.arange(len(classes))
    arrays: dict[str, Tensor | Rows] = dict(store._arrays)
    for name in (n for n in arrays if what_of(n) == "labels"):
        labels = store[name]
        lost = (number[labels] < 0).nonzero()[:, 0]
        if len(lost):
            row = int(lost[0])
            rule = f"expected {name} of {store.where} among the classes of train/labels"
            c, names = int(labels[row]), store.metadata.get("class_names")
            named = isinstance(names, list) and names[c : c + 1]
            got = f"{c} ({str(named[0])!r})" if named else f"{c}"
            remedy = "--skip-unknown-classes leaves such rows out"
            raise ValueError(f"{rule}, got class {got} at row {row}; {remedy}")
        arrays[name] = number[labels]
    return store.with_arrays(arrays, len(classes)), classes
