"""A store made ready for analysis: a held-out split, classes that can be fitted, notes."""

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from resultant._core.text import counted, listed, one_line, shown
from resultant.features.identities import match_rows
from resultant.features.naming import among, split_part, what_of
from resultant.features.rows import Rows, ZeroVectorsError
from resultant.features.selection import CLASS_LABELS, CLASS_NAMES, WORDS
from resultant.features.store import FeatureStore

TEST_SHARE = 0.2
SEED = 0


@dataclass(frozen=True, eq=False)
class Divided:
    """The rows of the only split of a store, by which another store may be divided alike."""

    labels: Tensor  # classes [N] before some are left out
    identities: Tensor | None  # identities [N], or None
    keys: np.ndarray  # `row_keys` [N] that hold out a part of the rows


@dataclass(frozen=True)
class Prepared:
    """The rows of classes that can be fitted; ``notes`` are sentences, ``val`` chooses settings."""

    store: FeatureStore
    test: str
    features: tuple[str, ...]
    names: tuple[str, ...]
    notes: tuple[str, ...]
    val: str | None = None
    divided: Divided | None = None  # rows of the only split

    @property
    def arrays(self) -> list[str]:
        """The names of the feature arrays of all splits."""
        splits = [split for split in ("train", self.test, self.val) if split is not None]
        return [f"{split}/{name}" for split in splits for name in self.features]


# Hashes the rows of a feature of a store; zero vectors are an error unless they are left out.
Digests = Callable[[FeatureStore, str, bool], np.ndarray]


def read_digests(store: FeatureStore, name: str, zero: bool) -> np.ndarray:
    """Hash the rows of a feature, as int64 [N]."""
    from resultant.classifiers.inputs import digests

    return np.concatenate([digests(piece.float()) for _, piece in store.chunks(name, zero=zero)])


def prepare(
    store: FeatureStore,
    drop_zeros: bool = False,
    skip_unknown: bool = False,
    *,
    seed: int = SEED,
    like: Divided | None = None,
    digests: Digests = read_digests,
) -> Prepared:
    """Prepare a store for analysis; classes of one training row, without a spread, are left out.

    The rows of a single split are divided by their values alone: copies of a row, and rows of one
    identity or group, stay together.

    Args:
        store: The store.
        drop_zeros: Leave out rows of zero vectors.
        skip_unknown: Leave out rows of classes without a training row.
        seed: Seed of the division.
        like: The division of another store; rows of the same identities, or else in the same
            order with the same labels, are divided alike.
        digests: Hashes the rows of a feature of the store.
    """
    rows, notes, divided = _Rows(store), [], None
    source = store.splits[0]
    if store.label_files:
        notes.append(f"The labels are those of {listed(store.label_files)}.")
    if store.skipped:
        text = counted(store.skipped, "row without a label is", "rows without a label are")
        notes.append(f"{text} left out; resultant predict reads them.")
    if drop_zeros:
        notes += rows.drop_zeros()
    if len(store.splits) == 1:
        _require_unseen(store)
        rows.require_classes(source)
        names = [name for name in sorted(store.features) if split_part(name) == source]
        with zeros_may_be_dropped():
            hashes = [digests(store, name, drop_zeros) for name in names]
        divided = rows.divide(source, seed, like, hashes)
        notes.append(f"There is no test split: a fifth of each class is held out (seed {seed}).")
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
        note = f"Not read: {listed(store.left_out)}."
        if f"{source}/identities" not in store:
            note += " If one of them names the rows: --identities NAME (in Python ids=NAME)."
        notes.append(note)
    fitted = tuple(names[c] for c in classes.tolist())
    kept = rows.store(classes)
    return Prepared(kept, test, tuple(features), fitted, tuple(notes), val, divided)


def check_features(prepared: Prepared) -> None:
    """Read every feature once, raise unless all vectors are valid, keep in memory what fits."""
    for name in prepared.arrays:
        prepared.store.vectors(name)
    with zeros_may_be_dropped():
        prepared.store.check(prepared.arrays)


@contextmanager
def zeros_may_be_dropped() -> Iterator[None]:
    """Add to an error about zero vectors what leaves them out."""
    try:
        yield
    except ZeroVectorsError as error:
        hint = "--drop-zero-rows (in Python drop_zero_rows=True) leaves them out"
        raise ValueError(f"{error}; {hint}") from None


class _Rows:
    """The rows of each split that are kept, as masks [N]; ``source`` are their splits before."""

    def __init__(self, store: FeatureStore) -> None:
        for split in store.splits:
            if f"{split}/labels" not in store:
                raise ValueError(_without_labels(store))
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

    def divide(
        self, split: str, seed: int, like: Divided | None, digests: list[np.ndarray]
    ) -> Divided:
        """Divide the only split into train and test by the digests of its features."""
        from resultant.classifiers.folds import held_out, row_keys

        store, mask, y = self.whole, self.masks[split], self.labels[split]
        first, *others = digests
        known = {
            what: store[f"{split}/{what}"]
            for what in ("identities", "groups")
            if f"{split}/{what}" in store
        }
        identities = known.get("identities")
        keys = row_keys(first if like is None else _alike(like, y, identities, first))
        keys = row_keys(keys, *others, *known.values())
        held = torch.zeros_like(mask)
        held[mask] = held_out(y[mask], keys[mask.numpy()], TEST_SHARE, seed)
        if not held.any():
            most = int(torch.bincount(y[mask]).max())
            rule = f"expected 3 rows or more in some class, got {most} at the most"
            hint = "; rows of one identity or group, and copies, count as one" if known else ""
            raise ValueError(f"{rule} in {store.where}; or give a test split{hint}")
        self.source, self.labels = {"train": split, "test": split}, {"train": y, "test": y}
        self.masks = {"train": mask & ~held, "test": mask & held}
        return Divided(y, identities, keys)

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
        about = self.whole.metadata
        # Labels of features of pictures are codes of names.
        named = about.get("labels") == WORDS and about.get(CLASS_NAMES)
        own = about.get(CLASS_LABELS) or named or range(self.whole.num_classes)
        labels = [own[c] for c in classes.tolist()]
        metadata = {**self.whole.metadata, "num_classes": len(classes), CLASS_LABELS: labels}
        origins = {
            split: self.whole.origins[self.source[split]].select(mask.nonzero()[:, 0])
            for split, mask in self.masks.items()
        }
        return FeatureStore(self.whole.where, arrays, metadata, called=called, origins=origins)


def _require_unseen(store: FeatureStore) -> None:
    """Raise if the rows to hold out would be images that the network of the features has seen."""
    trained = store.metadata.get("trained_on")
    if isinstance(trained, dict) and any(trained.values()):
        rule = f"expected test rows in {store.where} that the network was not trained on"
        remedy = "extract held-out images too"
        raise ValueError(f"{rule}, got only {store.splits[0]}, which it was trained on; {remedy}")


def _alike(like: Divided, y: Tensor, identities: Tensor | None, own: np.ndarray) -> np.ndarray:
    """Return keys [N] with those of another store for the same rows."""
    match, keys = match_rows(identities, like.identities), own.copy()
    if len(match.a):
        keys[match.a.numpy()] = like.keys[match.b.numpy()]
    elif identities is None and torch.equal(y, like.labels):
        keys = like.keys
    return keys


def _without_labels(store: FeatureStore) -> str:
    """Return the message for a store whose labels are not found."""
    shown = [name for origin in store.origins.values() for name in origin.columns]
    others = [*dict.fromkeys([*store.left_out, *shown])]
    rule = f"expected labels in {store.where}: one column of words, or a name such as label"
    if not others:
        return f"{rule}, got features alone; add the labels to the file"
    if len(others) == 1:
        option = f"--labels {shlex.quote(others[0])} (in Python labels={others[0]!r})"
        return f"{rule}, got neither; add {option} if it has them"
    names = f"--labels NAME (in Python labels=NAME), NAME one of {among(others)}"
    return f"{rule}, got neither; add {names}"


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
            remedy = "--skip-unknown-classes (in Python skip_unknown_classes=True)"
            remedy += " leaves such rows out"
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
    note(((counts > 1) & (rows.counts(test) == 0)).nonzero()[:, 0].tolist(), f"no {test} row")
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
