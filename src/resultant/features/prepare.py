"""A store made ready for analysis: a held-out split, classes that can be fitted, notes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from resultant._core.text import counted, listed, one_line, shown
from resultant.features.schema import ZeroVectorsError
from resultant.features.store import FeatureStore
from resultant.features.subsets import (
    held_out,
    without_gaps,
    without_single,
    without_unknown,
    without_zeros,
)

TEST_SHARE = 0.2
SEED = 0


@dataclass(frozen=True)
class Prepared:
    """A store that can be analysed.

    Attributes:
        store: The rows of the classes that can be fitted, with labels [0, C).
        test: The name of the split with the held-out rows.
        val: The name of the split whose rows choose settings, or None.
        features: The names of the features that both splits have.
        names: The names of the classes [C].
        notes: Sentences about the rows and classes that were held out or left out.
        zeros: The rows of zero vectors that were left out, by split of the file.
    """

    store: FeatureStore
    test: str
    features: tuple[str, ...]
    names: tuple[str, ...]
    notes: tuple[str, ...]
    zeros: Mapping[str, Tensor]
    val: str | None = None

    @property
    def arrays(self) -> list[str]:
        """The names of the feature arrays of all splits."""
        splits = ("train", self.test) if self.val is None else ("train", self.test, self.val)
        return [f"{split}/{name}" for split in splits for name in self.features]


def prepare(store: FeatureStore, drop_zeros: bool = False, skip_unknown: bool = False) -> Prepared:
    """Prepare a store for analysis.

    A store of one split is divided 80 to 20 within each class. Classes without a training row are
    left out. Classes with a single training row are left out too: the direction of that row is
    exactly the direction of the class, so the row carries no information about the spread.

    Args:
        store: Features and labels of one split, or of train and test (or val).
        drop_zeros: Leave out the rows that have a zero vector.
        skip_unknown: Leave out rows of other splits whose class has no training row; without it,
            such a row is an error.

    Returns:
        The store with its test split, features, class names and notes.

    Raises:
        ValueError: The store has no labels, features or classes that can be analysed.

    Example:
        >>> z, y = torch.eye(4).repeat(5, 1), torch.arange(4).repeat(5)
        >>> store = FeatureStore("memory", {"train/features": z, "train/labels": y})
        >>> prepare(store).store.shape("test/features")
        (4, 4)
    """
    _require_labelled(store)
    where, notes = store.where, []
    if store.label_files:
        notes.append(f"The labels are those of {listed(store.label_files)}.")
    zeros: Mapping[str, Tensor] = {}
    if drop_zeros:
        store, zeros = without_zeros(store)
        for split, rows in zeros.items():
            number = counted(len(rows), "row of zero vectors is", "rows of zero vectors are")
            notes.append(f"{number} left out of {split}, the first of them row {int(rows[0])}.")
    if len(store.splits) == 1:
        _require_classes(store, store.splits[0])
        store = held_out(store, TEST_SHARE, seed=SEED)
        rule = "one split only: a fifth of every class is held out for the test"
        notes.append(f"{where} has {rule} (seed {SEED}), two rows or more are fitted.")
    elif "train" not in store.splits:
        raise ValueError(f"expected a split train in {where}, got {' and '.join(store.splits)}")
    test = "test" if "test" in store.splits else "val"
    _require_classes(store, "train")
    if skip_unknown:
        store, skipped = without_unknown(store)
        for split, number in skipped.items():
            rows = counted(number, "row is", "rows are")
            notes.append(f"{rows} left out of {split}: the class has no training row.")
    features, missing = _common_features(store, test)
    notes += [f"{name} has no rows in {test} and is left out." for name in missing]
    val = None
    if "val" in store.splits and test == "test":
        val = "val" if set(features) <= set(_common_features(store, "val")[0]) else None
        use = "chooses the settings" if val else f"is not used: it lacks features of {test}"
        notes.append(f"The split val {use}.")
    store, names, class_notes = _fittable_classes(store, test)
    notes += class_notes
    if store.left_out:
        notes.append(f"Not read: {listed(store.left_out)}.")
    return Prepared(store, test, tuple(features), names, tuple(notes), zeros, val)


def check_features(prepared: Prepared, progress: Callable[[str, float], object]) -> None:
    """Read every feature once: check the vectors and make the copies that the analysis needs.

    ``progress`` is called with the name of the step and the fraction that is done.

    Raises:
        ValueError: A feature is not finite, or a row is a zero vector.
    """
    store, done = prepared.store, 0
    total = sum(store.shape(name)[0] for name in prepared.arrays)
    for name in prepared.arrays:
        try:
            for rows in store.materialize(name):
                progress("check", (done + rows.stop) / total)
        except ZeroVectorsError as error:
            raise ValueError(f"{error}; --drop-zero-rows leaves them out") from None
        done += store.shape(name)[0]


def _require_labelled(store: FeatureStore) -> None:
    for split in store.splits:
        if f"{split}/labels" not in store:
            got = f"{', '.join([*store, *store.left_out])}; name them with --labels"
            raise ValueError(f"expected {split}/labels in {store.where}, got {got}")
        if not any(name.startswith(f"{split}/") for name in store.features):
            got = ", ".join(store)
            raise ValueError(f"expected features of {split} in {store.where}, got {got}")


def _require_classes(store: FeatureStore, split: str) -> None:
    counts = store.label_counts(split)
    rule = f"{split}/labels of {store.where}"
    if int((counts > 0).sum()) < 2:
        only = int(counts.argmax())
        raise ValueError(f"expected two classes or more in {rule}, got class {only} only")
    if int((counts > 1).sum()) < 2:
        got = f"{int((counts == 1).sum())} classes of a single row"
        raise ValueError(f"expected two classes or more of two rows or more in {rule}, got {got}")


def _common_features(store: FeatureStore, test: str) -> tuple[list[str], list[str]]:
    """Split the features of train into those that the test split has and those that it lacks."""
    where, common, missing = store.where, [], []
    for name in (n.removeprefix("train/") for n in store.features if n.startswith("train/")):
        if f"{test}/{name}" not in store:
            missing.append(name)
            continue
        width, other = store.shape(f"train/{name}")[1], store.shape(f"{test}/{name}")[1]
        if width != other:
            rule = f"expected {test}/{name} of {where} of dimension {width}, as in train/{name}"
            raise ValueError(f"{rule}, got {other}")
        if width < 2:
            raise ValueError(f"expected {name} of {where} of dimension 2 or more, got {width}")
        common.append(name)
    if not common:
        rule = f"expected features of one name in train and {test} of {where}"
        raise ValueError(f"{rule}, got {', '.join(store.features)}")
    return common, missing


def _fittable_classes(
    store: FeatureStore, test: str
) -> tuple[FeatureStore, tuple[str, ...], list[str]]:
    """Leave out the classes with fewer than two training rows."""
    names, gaps, asked = _class_names(store), store.label_gaps(), store.label_counts(test)
    store, single = without_single(store)
    store, classes = without_gaps(store)
    notes = []
    largest = int(torch.cat([classes, single]).max())
    if number := sum(c < largest for c in gaps):
        labels = counted(number, "label", "labels")
        have = "has no rows and is" if number == 1 else "have no rows and are"
        notes.append(f"{labels} below {largest} {have} left out.")
    if len(single):
        rows = counted(int(asked[single].sum()), f"{test} row", f"{test} rows")
        text = f"class has a single training row and is left out with its {rows}"
        if len(single) > 1:
            text = f"classes have a single training row and are left out with their {rows}"
        notes.append(f"{len(single)} {text}: {listed(shown(names[c]) for c in single.tolist())}.")
    kept = tuple(names[c] for c in classes.tolist())
    empty = (store.label_counts(test) == 0).nonzero()[:, 0].tolist()
    if empty:
        have = counted(len(empty), "class has", "classes have")
        notes.append(f"{have} no held-out row: {listed(shown(kept[c]) for c in empty)}.")
    return store, kept, notes


def _class_names(store: FeatureStore) -> list[str]:
    """The names of all classes from the metadata, or else their numbers."""
    names = store.metadata.get("class_names")
    if names is None:
        return [str(c) for c in range(store.num_classes)]
    largest = max(int(store[f"{split}/labels"].max()) for split in store.splits)
    if not isinstance(names, list) or len(names) <= largest:
        rule = f"expected class_names of {store.where} to be a list of {largest + 1} names or more"
        got = len(names) if isinstance(names, list) else type(names).__name__
        raise ValueError(f"{rule}, got {got}")
    return [one_line(name) for name in names]
