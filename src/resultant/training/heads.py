"""Classifiers of the features of a network, as `tune` fits, validates, refits and tests them.

Validation images choose between classifiers of the training images. Then each is fitted to both:
a tuned network has not memorised the validation images, so their features look like new ones.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor

from resultant.analysis.metrics import mean_and_error, paired_gain, share
from resultant.analysis.split import BALANCED, row_weights
from resultant.classes.groups import group_masks
from resultant.classifiers.calibration import fit_scale
from resultant.classifiers.vmf import VMFClassifier
from resultant.features.store import FeatureStore
from resultant.training.checkpoints import LoadedNetwork

# Standard errors by which a fine-tuned network must be ahead on the validation images: the network
# as it came is simpler.
AHEAD = 1.0
# Refined classes on tuned features, whose training rows promise too much to choose by.
REFINED: dict[str, Any] = {"refine": 0.3, "whiten": "within", "shrinkage": 0.85}
# Parts of the validation images, each predicted by a classifier that was fitted to the others.
FOLDS = 5


@dataclass(frozen=True, eq=False)
class Head:
    """A network with a classifier of its features, and predictions of the held-out images."""

    key: str  # frozen, own, head or refined
    name: str  # name for people
    network: LoadedNetwork
    classifier: Any  # None for the classifier of the network
    validated: Tensor  # correct predictions [V] of the validation images, 1 or 0
    tested: Tensor  # correct predictions [M] of the test images
    scale: float | None = None  # factor of the logits of the network's own classifier


class Rows(NamedTuple):
    """Features [N, d] of images, and the names [N] of their classes."""

    x: np.ndarray
    y: np.ndarray

    @staticmethod
    def of(store: FeatureStore, split: str, class_names: np.ndarray) -> "Rows":
        x = store[f"{split}/encoder"].float().numpy()
        return Rows(x, class_names[store[f"{split}/labels"].numpy()])

    def at(self, rows: np.ndarray) -> "Rows":
        return Rows(self.x[rows], self.y[rows])

    def joined(self, other: "Rows") -> "Rows":
        return Rows(np.concatenate([self.x, other.x]), np.concatenate([self.y, other.y]))

    def hits(self, classifier: Any) -> Tensor:
        """Return the correct predictions [N] of a classifier, 1 or 0."""
        p = np.asarray(classifier.predict_proba(self.x))
        return torch.from_numpy(classifier.classes_[p.argmax(1)] == self.y).double()


def head(
    key: str,
    name: str,
    network: LoadedNetwork,
    store: FeatureStore,
    class_names: np.ndarray,
    classifier: Any,
    refits: bool = True,
) -> Head:
    """Validate and refit a classifier that was fitted to training rows.

    A classifier of tuned features is validated and calibrated by fits to the training rows and the
    other validation rows: its training rows promise too much. Without ``refits``, for one of so
    many rows that it was fitted to a part of them, it stays as it is.
    """
    train, val, test = (Rows.of(store, split, class_names) for split in ("train", "val", "test"))
    known = np.isin(val.y, classifier.classes_)
    rows, validated = np.flatnonzero(known), val.hits(classifier)
    fitted = train.at(np.isin(train.y, classifier.classes_)).joined(val.at(known))
    final = fresh(classifier).fit(*fitted) if refits else classifier
    if key != "frozen":
        others = []
        for part in folds(val.y[rows]) if refits else ():
            outside = np.ones(len(fitted.x), dtype=bool)
            outside[len(fitted.x) - len(rows) + part] = False
            others.append((part, fresh(classifier).fit(*fitted.at(outside))))
            validated[rows[part]] = val.at(rows[part]).hits(others[-1][1])
        final.calibrate(*val.at(rows), without=others or None)
    name += f" on the {'frozen' if key == 'frozen' else 'tuned'} features"
    return Head(key, name, network, final, validated, test.hits(final))


def fresh(classifier: Any) -> Any:
    """Return a classifier with the same parameters that is not fitted."""
    return clone(classifier)


def folds(y: np.ndarray) -> list[np.ndarray]:
    """Return the rows of each fold, in which the classes y [N] are spread evenly."""
    turn = np.argsort(np.argsort(y, kind="stable"), kind="stable") % FOLDS
    parts = (np.flatnonzero(turn == k) for k in range(FOLDS))
    return [part for part in parts if len(part)]


def refined(network: LoadedNetwork, store: FeatureStore, class_names: np.ndarray) -> Head:
    """Fit the refined classes of `REFINED`, which nothing chooses."""
    model = VMFClassifier(**REFINED).fit(*Rows.of(store, "train", class_names))
    return head("refined", "refined vMF", network, store, class_names, model)


def own_head(network: LoadedNetwork, store: FeatureStore, device: torch.device) -> Head:
    """Return the tuned network with its own classifier, whose probabilities are calibrated too."""
    classifier: Any = network.network.classifier
    hits, scores, labels = {}, {}, {}
    with torch.no_grad():
        for name in ("val", "test"):
            x = store[f"{name}/encoder"].float().to(device)
            labels[name] = store[f"{name}/labels"].long()
            scores[name] = classifier.to(device)(x).double().cpu()
            hits[name] = (scores[name].argmax(-1) == labels[name]).double()
    scale = fit_scale(scores["val"], labels["val"], torch.ones(len(labels["val"])).double())
    return Head("own", "its own classifier", network, None, hits["val"], hits["test"], scale)


def best_head(heads: list[Head], weights: Tensor) -> Head:
    """Return the best of the tuned ones if it is ahead of the first one, the frozen network, on
    the validation images of ``weights`` [V]."""
    frozen, *tuned = heads
    best = max(tuned, key=lambda one: float(one.validated @ weights))
    gain, error = mean_and_error(best.validated - frozen.validated, weights)
    return best if gain > AHEAD * error else frozen


def compared(heads: list[Head], y: Tensor, counts: Tensor, weights: Tensor) -> list[dict[str, Any]]:
    """Return what heads reach, as JSON types, and their paired differences to the first one.

    Args:
        heads: The heads.
        y: Classes [M] of the test images.
        counts: Training images [C] per class, for the groups of head, medium and tail classes.
        weights: Weights [V] of the validation images.
    """
    measured = {"accuracy": torch.full((len(y),), 1 / len(y), dtype=torch.float64)}
    every = torch.ones(len(counts), dtype=torch.bool)
    for name, classes in {BALANCED: every, **group_masks(counts)}.items():
        if (inside := classes[y]).any():
            measured[name] = torch.zeros(len(y), dtype=torch.float64)
            measured[name][inside] = row_weights(y[inside], BALANCED)

    def numbers(one: Head) -> dict[str, Any]:
        gains = {n: paired_gain(heads[0].tested, one.tested, w) for n, w in measured.items()}
        return {
            "key": one.key,
            "name": one.name,
            "validation": float(one.validated @ weights),
            "test": {name: share(one.tested, w).to_dict() for name, w in measured.items()},
            "difference": {name: gain.to_dict() for name, gain in gains.items()},
        }

    first, *others = map(numbers, heads)
    return [first | {"difference": None}, *others]
