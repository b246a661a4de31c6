"""A store made ready for analysis: a held-out split, classes that can be fitted, notes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from resultant._core.hold_out import held_out_rows
from resultant._core.text import counted, listed, one_line, shown
from resultant.features.naming import split_part, what_of
from resultant.features.rows import IndexedRows, Rows
from resultant.features.schema import ZeroVectorsError
from resultant.features.store import FeatureStore

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
    rows, notes = _Rows(store), []
    if store.label_files:
        notes.append(f"The labels are those of {listed(store.label_files)}.")
    zeros = _zero_rows(store) if drop_zeros else {}
    for split, index in zeros.items():
        number = counted(len(index), "row of zero vectors is", "rows of zero vectors are")
        notes.append(f"{number} left out of {split}, the first of them row {int(index[0])}.")
        rows.keep(split, ~torch.isin(rows.index[split], index))
    if len(store.splits) == 1:
        _require_classes(store.where, store.splits[0], rows.counts(store.splits[0]))
        rows.divide(TEST_SHARE, SEED)
        rule = "one split only: a fifth of every class is held out for the test"
        notes.append(f"{store.where} has {rule} (seed {SEED}), two rows or more are fitted.")
    elif "train" not in store.splits:
        got = " and ".join(store.splits)
        raise ValueError(f"expected a split train in {store.where}, got {got}")
    test = "test" if "test" in rows.index else "val"
    _require_classes(store.where, "train", rows.counts("train"))
    if skip_unknown:
        for split, number in rows.keep_classes(
            rows.counts("train") > 0, "of classes that train has"
        ):
            text = counted(number, "row is", "rows are")
            notes.append(f"{text} left out of {split}: the class has no training row.")
    features, missing = _common_features(store, rows, test)
    notes += [f"{name} has no rows in {test} and is left out." for name in missing]
    val = None
    if "val" in rows.index and test == "test":
        val = "val" if set(features) <= set(_common_features(store, rows, "val")[0]) else None
        use = "chooses the settings" if val else f"is not used: it lacks features of {test}"
        notes.append(f"The split val {use}.")
    names, class_notes = _fit_classes(store, rows, test)
    if store.left_out:
        class_notes.append(f"Not read: {listed(store.left_out)}.")
    notes = (*notes, *class_notes)
    return Prepared(rows.store(len(names)), test, tuple(features), names, notes, zeros, val)


def check_features(prepared: Prepared, progress: Callable[[str, float], object]) -> None:
    """Read every feature once, check the vectors, and keep in memory what fits.

    ``progress`` is called with the name of the step and the fraction that is done.

    Raises:
        ValueError: A feature is not finite, or a row is a zero vector.
    """
    store, done = prepared.store, 0
    total = sum(store.shape(name)[0] for name in prepared.arrays)
    for name in prepared.arrays:
        store.vectors(name)
        try:
            for rows, _ in store.chunks(name):
                progress("check", (done + rows.stop) / total)
        except ZeroVectorsError as error:
            raise ValueError(f"{error}; --drop-zero-rows leaves them out") from None
        done += store.shape(name)[0]


class _Rows:
    """The rows of each split that are kept, and their classes.

    Attributes:
        source: The splits of the store by split.
        index: Indices [n] of the kept rows in the split of the store, by split.
        labels: Their labels [n], by split.
    """

    def __init__(self, store: FeatureStore) -> None:
        self.whole = store
        self.source = {split: split for split in store.splits}
        self.labels = {split: store[f"{split}/labels"] for split in store.splits}
        self.index = {split: torch.arange(len(y)) for split, y in self.labels.items()}

    def counts(self, split: str) -> Tensor:
        """The number of rows of each class, [C]."""
        return torch.bincount(self.labels[split], minlength=self.whole.num_classes)

    def keep(self, split: str, mask: Tensor) -> None:
        """Keep the rows of a split where ``mask`` [n] is True."""
        self.index[split], self.labels[split] = self.index[split][mask], self.labels[split][mask]

    def keep_classes(self, kept: Tensor, rule: str) -> list[tuple[str, int]]:
        """Keep the rows of classes where ``kept`` [C] is True; return what splits have lost."""
        lost = []
        for split, y in list(self.labels.items()):
            mask = kept[y]
            if not mask.any():
                where = f"in {split} of {self.whole.where}"
                raise ValueError(f"expected rows {rule} {where}, got none")
            if not mask.all():
                self.keep(split, mask)
                lost.append((split, int((~mask).sum())))
        return lost

    def divide(self, share: float, seed: int) -> None:
        """Divide the only split into train and test."""
        (split,) = self.index
        index, y = self.index[split], self.labels[split]
        try:
            held = held_out_rows(y, share, seed)
        except ValueError as error:
            raise ValueError(f"{error} in {self.whole.where}; or give a test split") from None
        self.source = {"train": split, "test": split}
        self.index = {"train": index[~held], "test": index[held]}
        self.labels = {"train": y[~held], "test": y[held]}

    def store(self, num_classes: int) -> FeatureStore:
        """Return the kept rows with their labels as a store."""
        arrays: dict[str, Tensor | Rows] = {}
        called: dict[str, str] = {}
        for split, index in self.index.items():
            for old in (n for n in self.whole if split_part(n) == self.source[split]):
                rows, name = self.whole.rows(old), f"{split}/{what_of(old)}"
                arrays[name] = rows if len(index) == len(rows) else IndexedRows(rows, index)
                called[name] = self.whole.called.get(old, old)
            arrays[f"{split}/labels"] = self.labels[split]
        return FeatureStore(
            *(self.whole.where, arrays, self.whole.metadata | {"num_classes": num_classes}),
            called=called,
            left_out=self.whole.left_out,
            label_files=self.whole.label_files,
        )


def _zero_rows(store: FeatureStore) -> dict[str, Tensor]:
    """The rows of each split that have a zero vector, for splits with such rows."""
    zeros = {}
    for split in store.splits:
        empty = torch.zeros(len(store[f"{split}/labels"]), dtype=torch.bool)
        for name in (n for n in store.features if split_part(n) == split):
            for rows, piece in store.chunks(name, zero=True):
                empty[rows] |= (piece == 0).all(-1)
        if empty.all():
            raise ValueError(f"expected {split} of {store.where} not all zero, got zero vectors")
        if empty.any():
            zeros[split] = empty.nonzero()[:, 0]
    return zeros


def _require_labelled(store: FeatureStore) -> None:
    for split in store.splits:
        if f"{split}/labels" not in store:
            got = f"{', '.join([*store, *store.left_out])}; name them with --labels"
            raise ValueError(f"expected {split}/labels in {store.where}, got {got}")
        if not any(name.startswith(f"{split}/") for name in store.features):
            got = ", ".join(store)
            raise ValueError(f"expected features of {split} in {store.where}, got {got}")


def _require_classes(where: str, split: str, counts: Tensor) -> None:
    rule = f"{split}/labels of {where}"
    if int((counts > 0).sum()) < 2:
        only = int(counts.argmax())
        raise ValueError(f"expected two classes or more in {rule}, got class {only} only")
    if int((counts > 1).sum()) < 2:
        got = f"{int((counts == 1).sum())} classes of a single row"
        raise ValueError(f"expected two classes or more of two rows or more in {rule}, got {got}")


def _common_features(store: FeatureStore, rows: _Rows, test: str) -> tuple[list[str], list[str]]:
    """Split the features of train into those that the test split has and those that it lacks."""
    where, common, missing = store.where, [], []
    train, held = rows.source["train"], rows.source[test]
    for name in (what_of(n) for n in store.features if split_part(n) == train):
        if f"{held}/{name}" not in store:
            missing.append(name)
            continue
        width, other = store.shape(f"{train}/{name}")[1], store.shape(f"{held}/{name}")[1]
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


def _fit_classes(store: FeatureStore, rows: _Rows, test: str) -> tuple[tuple[str, ...], list[str]]:
    """Leave out the classes with fewer than two training rows, and number the others."""
    names, counts, asked = _class_names(store), rows.counts("train"), rows.counts(test)
    single = (counts == 1).nonzero()[:, 0]
    rows.keep_classes(counts != 1, "of classes of 2 rows or more in train")
    classes = (counts > 1).nonzero()[:, 0]
    number = torch.full((store.num_classes,), -1)
    number[classes] = torch.arange(len(classes))
    for split, y in rows.labels.items():
        lost = (number[y] < 0).nonzero()[:, 0]
        if len(lost):
            c, row = int(y[lost[0]]), int(rows.index[split][lost[0]])
            rule = f"expected {split}/labels of {store.where} among the classes of train/labels"
            got = f"{c}" if names[c] == str(c) else f"{c} ({names[c]!r})"
            remedy = "--skip-unknown-classes leaves such rows out"
            raise ValueError(f"{rule}, got class {got} at row {row}; {remedy}")
        rows.labels[split] = number[y]
    notes, largest = [], int((counts > 0).nonzero()[-1])
    if gaps := int((counts[:largest] == 0).sum()):
        have = "has no rows and is" if gaps == 1 else "have no rows and are"
        notes.append(f"{counted(gaps, 'label', 'labels')} below {largest} {have} left out.")
    if len(single):
        lost = counted(int(asked[single].sum()), f"{test} row", f"{test} rows")
        text = f"class has a single training row and is left out with its {lost}"
        if len(single) > 1:
            text = f"classes have a single training row and are left out with their {lost}"
        notes.append(f"{len(single)} {text}: {listed(shown(names[c]) for c in single.tolist())}.")
    kept = tuple(names[c] for c in classes.tolist())
    empty = (rows.counts(test)[: len(kept)] == 0).nonzero()[:, 0].tolist()
    if empty:
        have = counted(len(empty), "class has", "classes have")
        notes.append(f"{have} no held-out row: {listed(shown(kept[c]) for c in empty)}.")
    return kept, notes


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
