"""Sets of classes with a promise, on the test rows; see `VMFClassifier.predict_set`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from resultant._core.text import class_name, counted, listed
from resultant.analysis.result import FeatureData, SetSummary
from resultant.analysis.split import FeatureSet
from resultant.classifiers.vmf import VMFClassifier

# Share of the rows of a class whose set may miss it.
ERROR = 0.1


def sets_of(model: Any, x: Tensor) -> Tensor | None:
    """Return the sets [n, C] bool of rows [n, p], or None for a classifier without sets."""
    if not isinstance(model, VMFClassifier) or not model._can_promise():
        return None
    return torch.as_tensor(model.predict_set(x.numpy(), ERROR))


def summary_of(model: Any, data: FeatureSet, rows: Tensor) -> SetSummary | None:
    """Count the classes in the sets of some test rows."""
    size, hits = [], []
    for _, x, y in data.test.chunks(rows, data.num_classes):
        found = sets_of(model, x)
        if found is None:
            return None
        size.append(found.sum(1))
        hits.append(found.gather(1, y[:, None])[:, 0])
    number, hit = torch.cat(size).double(), torch.cat(hits).double()
    known = model.conformal_.number.cpu()
    return SetSummary(
        error=ERROR,
        single=float((number == 1).double().mean()),
        empty=float((number == 0).double().mean()),
        size=float(number.mean()),
        missed=1 - float(hit.mean()),
        hollow=(known + 1 < 1 / ERROR).nonzero()[:, 0].numpy(),
    )


def sentence(data: FeatureData, sets: SetSummary) -> str:
    """Return what the sets are worth, and for which classes nothing is promised."""
    text = f"model.predict_set(X, error={sets.error:g}) gives a set of classes that misses the "
    text += f"class of about {100 * sets.error:.0f} % of the rows of each class at most. On the "
    text += f"test rows {100 * sets.single:.1f} % of the sets have one class, "
    text += f"{100 * sets.empty:.1f} % have none, and the mean is {sets.size:.2f}; "
    text += f"{100 * sets.missed:.1f} % miss the class."
    if len(sets.hollow):
        names = listed(class_name(data.class_names[c]) for c in sets.hollow)
        have = counted(len(sets.hollow), "class that has", "classes that have")
        text += f" The promise is empty for {have} too few rows, and are in every set: {names}."
    return text
