"""A store made ready for analysis: a held-out split, classes that can be fitted, notes."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from resultant._core.text import counted, listed, one_line, shown
from resultant.features.naming import split_part, what_of
from resultant.features.rows import Rows, ZeroVectorsError
from resultant.features.store import FeatureStore

TEST_SHARE = 0.2
SEED = 0


@dataclass(frozen=True)
class Prepared:
    """The rows of classes that can be fitted; ``notes`` are sentences, ``val`` chooses settings."""

    store: FeatureStore
    test: str
    features: tuple[str, ...]
    names: tuple[str, ...]
    notes: tuple[str, ...]
    val: str | None = None

    @property
    def arrays(self) -> list[str]:
        """The names of the feature arrays of all splits."""
        splits = [split for split in ("train", self.test, self.val) if split is not None]
        return [f"{split}/{name}" for split in splits for name in self.features]


def prepare(store: FeatureStore, drop_zeros: bool = False, skip_unknown: bool = False) -> Prepared:
    """Prepare a store for analysis; classes of one training row, without a spread, are left out."""
    rows, notes = _Rows(store), []
    if store.label_files:
        notes.append(f"The labels are those of {listed(store.label_files)}.")
    if drop_zeros:
        notes += rows.drop_zeros()
    if len(store.splits) == 1:
        rows.require_classes(store.splits[0])
        rows.divide(store.splits[0])
        rule = "one split only: a fifth of every class is held out for the test"
        notes.append(f"{store.where} has {rule} (seed {SEED}), two rows or more are fitted.")
    elif "train" not in store.splits:
        got = " and ".join(store.splits)
        raise ValueError(f"expected a split train in {store.where}, got {got}")
    test = "test" if "test" in rows.masks else "val"
    rows.require_classes("train")
    if skip_unknown:
        for split, number in rows.keep(rows.counts("train") > 0, "of classes that train has"):
            text = counted(number, "row is", "rows are")
            notes.append(f"{text} left out of {split}: the class has no training row.")
    features, missing = rows.common_features(test)
    notes += [f"{name} has no rows in {test} and is left out." for name in missing]
    val = None
    if "val" in rows.masks and test == "test":
        val = "val" if set(features) <= set(rows.common_features("val")[0]) else None
        use = "chooses the settings" if val else f"is not used: it lacks features of {test}"
        notes.append(f"The split val {use}.")
    names = _class_names(store)
    classes, class_notes = _fitted_classes(rows, test, names)
    notes += class_notes
    if store.left_out:
        notes.append(f"Not read: {listed(store.left_out)}.")
    fitted = tuple(names[c] for c in classes.tolist())
    return Prepared(rows.store(classes), test, tuple(features), fitted, tuple(notes), val)


def check_features(prepared: Prepared) -> None:
    """Read every feature once, raise unless all vectors are valid, keep in memory what fits."""
    for name in prepared.arrays:
        prepared.store.vectors(name)
    try:
        prepared.store.check(prepared.arrays)
    except ZeroVectorsError as error:
        raise ValueError(f"{error}; --drop-zero-rows leaves them out") from None


class _Rows:
    """The rows of each split that are kept, as masks [N]; ``source`` are their splits before."""

    def __init__(self, store: FeatureStore) -> None:
        for split in store.splits:
            if f"{split}/labels" not in store:
                got = f"{', '.join([*store, *store.left_out])}; name them with --labels"
                raise ValueError(f"expected {split}/labels in {store.where}, got {got}")
            if not any(split_part(name) == split for name in store.features):
                got = ", ".join(store)
                raise ValueError(f"expected features of {split} in {store.where}, got {got}")
        self.whole, self.source = store, {split: split for split in store.splits}
        self.labels = {split: store[f"{split}/labels"] for split in store.splits}
        self.masks = {s: torch.ones_like(y, dtype=torch.bool) for s, y in self.labels.items()}

    def counts(self, split: str) -> Tensor:
        """Return the number of kept rows of each class, [C]."""
        y = self.labels[split][self.masks[split]]
        return torch.bincount(y, minlength=self.whole.num_classes)

    def require_classes(self, split: str) -> None:
        """Raise unless two classes have two rows or more."""
        counts = self.counts(split)
        if int((counts > 1).sum()) < 2:
            number = counted(int((counts > 0).sum()), "class", "classes")
            got = f"{number}, {int((counts == 1).sum())} of a single row"
            rule = "expected two classes or more of two rows or more in"
            raise ValueError(f"{rule} {split}/labels of {self.whole.where}, got {got}")

    def drop_zeros(self) -> list[str]:
        """Leave out the rows with a zero vector; return notes."""
        notes = []
        for split, mask in self.masks.items():
            for name in (n for n in self.whole.features if split_part(n) == split):
                for rows, piece in self.whole.chunks(name, zero=True):
                    mask[rows] &= (piece != 0).any(-1)
            if not mask.any():
                rule = f"expected {split} of {self.whole.where} not all zero"
                raise ValueError(f"{rule}, got zero vectors")
            zeros = (~mask).nonzero()[:, 0].tolist()
            if zeros:
                number = counted(len(zeros), "row of zero vectors is", "rows of zero vectors are")
                notes.append(f"{number} left out of {split}, the first of them row {zeros[0]}.")
        return notes

    def keep(self, classes: Tensor, rule: str) -> list[tuple[str, int]]:
        """Keep the rows of classes where ``classes`` [C] is True; return what splits have lost."""
        lost = []
        for split, mask in self.masks.items():
            self.masks[split] = mask & classes[self.labels[split]]
            if not self.masks[split].any():
                raise ValueError(f"expected rows {rule} in {split} of {self.whole.where}, got none")
            lost.append((split, int(mask.sum() - self.masks[split].sum())))
        return [(split, number) for split, number in lost if number]

    def divide(self, split: str) -> None:
        """Divide the only split into train and test."""
        mask, y = self.masks[split], self.labels[split]
        held = torch.zeros_like(mask)
        try:
            held[mask] = held_out_rows(y[mask], TEST_SHARE, SEED)
        except ValueError as error:
            raise ValueError(f"{error} in {self.whole.where}; or give a test split") from None
        self.source, self.labels = {"train": split, "test": split}, {"train": y, "test": y}
        self.masks = {"train": mask & ~held, "test": mask & held}

    def common_features(self, test: str) -> tuple[list[str], list[str]]:
        """Split the features of train into those that the test split has and those it lacks."""
        store, train, held = self.whole, self.source["train"], self.source[test]
        names = [what_of(n) for n in store.features if split_part(n) == train]
        common = [name for name in names if f"{held}/{name}" in store]
        for name in common:
            width, other = store.shape(f"{train}/{name}")[1], store.shape(f"{held}/{name}")[1]
            if width != other:
                rule = f"expected {test}/{name} of {store.where} of dimension {width}"
                raise ValueError(f"{rule}, as in train/{name}, got {other}")
            if width < 2:
                rule = f"expected {name} of {store.where} of dimension 2 or more"
                raise ValueError(f"{rule}, got {width}")
        if not common:
            rule = f"expected features of one name in train and {test} of {store.where}"
            raise ValueError(f"{rule}, got {', '.join(store.features)}")
        return common, [name for name in names if name not in common]

    def store(self, classes: Tensor) -> FeatureStore:
        """Return the kept rows as a store, with the labels of ``classes`` [C'] as 0 to C' - 1."""
        arrays: dict[str, Tensor | Rows] = {}
        called: dict[str, str] = {}
        for split, mask in self.masks.items():
            for old in (n for n in self.whole if split_part(n) == self.source[split]):
                rows, name = self.whole.rows(old), f"{split}/{what_of(old)}"
                arrays[name] = rows if mask.all() else rows.select(mask.nonzero()[:, 0])
                called[name] = self.whole.called.get(old, old)
            arrays[f"{split}/labels"] = torch.searchsorted(classes, self.labels[split][mask])
        metadata = self.whole.metadata | {"num_classes": len(classes)}
        return FeatureStore(self.whole.where, arrays, metadata, called=called)


def _fitted_classes(rows: _Rows, test: str, names: list[str]) -> tuple[Tensor, list[str]]:
    """Return the classes [C'] of two training rows or more, and notes; leave the others out."""
    counts, asked, notes = rows.counts("train"), rows.counts(test), []
    rows.keep(counts != 1, "of classes of 2 rows or more in train")
    for split, mask in rows.masks.items():
        y = rows.labels[split]
        lost = (mask & (counts == 0)[y]).nonzero()[:, 0].tolist()
        if lost:
            c = int(y[lost[0]])
            rule = f"expected {split}/labels of {rows.whole.where} among those of train/labels"
            got = f"{c}" if names[c] == str(c) else f"{c} ({names[c]!r})"
            remedy = "--skip-unknown-classes leaves such rows out"
            raise ValueError(f"{rule}, got class {got} at row {lost[0]}; {remedy}")

    def note(classes: list[int], text: str) -> None:
        if classes:
            have = counted(len(classes), "class has", "classes have")
            notes.append(f"{have} {text}: {listed(shown(names[c]) for c in classes)}.")

    largest = int((counts > 0).nonzero()[-1])
    if gaps := int((counts[:largest] == 0).sum()):
        text = counted(gaps, f"label below {largest} has", f"labels below {largest} have")
        notes.append(f"{text} no rows.")
    lost = counted(int(asked[counts == 1].sum()), f"{test} row", f"{test} rows")
    single = (counts == 1).nonzero()[:, 0].tolist()
    note(single, f"a single training row, left out with {lost}")
    note(((counts > 1) & (rows.counts(test) == 0)).nonzero()[:, 0].tolist(), "no held-out row")
    return (counts > 1).nonzero()[:, 0], notes


def _class_names(store: FeatureStore) -> list[str]:
    """Return the names of all classes from the metadata, or else their numbers."""
    names = store.metadata.get("class_names")
    if names is None:
        return [str(c) for c in range(store.num_classes)]
    largest = max(int(store[f"{split}/labels"].max()) for split in store.splits)
    if not isinstance(names, list) or len(names) <= largest:
        rule = f"expected class_names of {store.where} to be a list of {largest + 1} names or more"
        got = len(names) if isinstance(names, list) else type(names).__name__
        raise ValueError(f"{rule}, got {got}")
    return [one_line(name) for name in names]


def held_out_rows(labels: Tensor, share: float, seed: int = 0) -> Tensor:
    """Draw a mask [N] of a share of the rows of each class, but for two rows that are kept."""
    if not 0 < share < 1:
        raise ValueError(f"expected a share in (0, 1), got {share}")
    # Sorted by class, within a class at random.
    order = torch.rand(len(labels), generator=torch.Generator().manual_seed(seed)).argsort()
    order = order[labels[order].argsort(stable=True)]
    counts = torch.bincount(labels)
    first = counts.cumsum(0) - counts
    rank = torch.arange(len(labels)) - first[labels[order]]
    number = torch.minimum((share * counts).round().long(), counts - 2)
    mask = torch.zeros(len(labels), dtype=torch.bool)
    mask[order] = rank < number[labels[order]]
    if not mask.any():
        least = max(3, math.floor(0.5 / share) + 1)
        got = f"{int(counts.max()) if len(counts) else 0} at the most"
        raise ValueError(f"expected {least} rows or more in some class, got {got}")
    return mask
