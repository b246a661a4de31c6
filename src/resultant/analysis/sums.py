"""Sums of the rows of files: fitted piece by piece, on one machine or on Ray."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from resultant.analysis import ray as ray_engine
from resultant.classes.gain import angular_gain
from resultant.classes.statistics import ClassState
from resultant.classifiers.inputs import is_auto
from resultant.classifiers.vmf import VMFClassifier
from resultant.decisions.certificates import residual_bound
from resultant.features.naming import Names, split_part
from resultant.features.selection import CLASS_LABELS
from resultant.features.store import FeatureStore

# Arrays and columns by their usual names.
USUAL = Names()


def labelled_pieces(
    path: str, names: Names = USUAL, split: str = "train"
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Read the rows [n, p] of a split of feature files piece by piece, with their labels [n] as the
    user has them; zero rows are an error that names file and row."""
    store = FeatureStore.open(path, **names._asdict())
    own = [name for name in store.features if split_part(name) == split]
    if len(own) != 1 or f"{split}/labels" not in store:
        got = ", ".join(store) or "nothing"
        rule = f"expected one array of features of the split {split}, with labels, in {path}"
        raise ValueError(f"{rule}, got {got}; name the array by --features, the split by --split")
    labels, known = store[f"{split}/labels"].numpy(), store.metadata.get(CLASS_LABELS)
    labels = labels if known is None else np.array(known)[labels]
    for at, piece in store.chunks(own[0]):
        yield piece.float().numpy(), labels[at]


def sum_files(
    model: VMFClassifier,
    paths: Sequence[str],
    names: Names = USUAL,
    *,
    split: str = "train",
    engine: str = "local",
) -> VMFClassifier:
    """Fit a classifier to the rows of files by `VMFClassifier.partial_fit`.

    Args:
        model: The parameters.
        paths: Paths as `FeatureStore.open` takes them; each may have other classes.
        names: Names of the arrays or columns.
        split: The split of the rows.
        engine: ``local``, or ``ray`` for a task per path, whose classifiers are merged in order.
    """
    if engine == "ray":
        ray: Any = ray_engine._ray()
        with ray_engine.cluster():
            task = ray.remote(sum_files)
            tasks = [task.remote(clone(model), [path], names, split=split) for path in paths]
            first, *others = (ray.get(one) for one in tasks)
        for other in others:
            first.merge(other)
        return first
    fitted: Any = clone(model)
    for path in paths:
        for rows, labels in labelled_pieces(path, names, split):
            fitted.partial_fit(rows, labels)
    return fitted


def certified_lead(model: VMFClassifier) -> float:
    """Return the difference of cosines from which a row, whatever it is, has the same class by the
    exact scores of equal gains (angular) and by the cosine rule: a certificate of sums alone."""
    live = model.state_.count > 0
    parts = (getattr(model.state_, name)[live].double() for name in ("mu", "kappa", "count"))
    state, tau = ClassState(*parts), _temperature(model)
    return float(residual_bound(state, tau).range / angular_gain(state, tau).mean())


def _temperature(model: VMFClassifier) -> float:
    return model.temperature_ if is_auto(model.temperature) else float(model.temperature)


def describe_classes(model: VMFClassifier) -> list[dict[str, Any]]:
    """Describe each class by its sums alone, in the metric of the classifier.

    Returns:
        Of each class with rows: ``class``, ``rows``, ``mean_length`` (1 for rows that all agree),
        ``gain`` at the temperature, ``nearest`` (the class of the largest
        cosine with it) and ``cosine``.
    """
    at = (model.statistics_.weight > 0).nonzero()[:, 0]
    state, names = model.state_, model.classes_
    tau = _temperature(model)
    gain, length = angular_gain(state, tau), model.statistics_.mean_length
    mu = state.mu[at]
    cosine = (mu @ mu.T).fill_diagonal_(-1)
    rows = []
    for i, c in enumerate(at.tolist()):
        row: dict[str, Any] = {"class": names[c : c + 1].tolist()[0], "rows": int(state.count[c])}
        row |= {"mean_length": float(length[c]), "gain": float(gain[c])}
        if len(at) > 1:
            near = int(cosine[i].argmax())
            row |= {"nearest": names[[int(at[near])]].tolist()[0], "cosine": float(cosine[i, near])}
        rows.append(row)
    return rows
