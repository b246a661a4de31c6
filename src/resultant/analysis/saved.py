"""Classifiers of scikit-learn with calibrated probabilities, saved without pickle."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from scipy.spatial.distance import cdist
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from sklearn.utils.validation import _check_feature_names

from resultant._core.files import parse_json
from resultant._core.tensor_files import require_name, write_tensors
from resultant.classifiers.files import NAMES, OF_NETWORK
from resultant.features.rows import reading

FORMAT = "resultant.ScikitClassifier 1"

# Classes that a file may name.
KINDS = {
    kind.__name__: kind
    for kind in (
        *(Normalizer, StandardScaler, NearestCentroid, LinearDiscriminantAnalysis),
        *(LogisticRegression, KNeighborsClassifier),
    )
}

# Least share of votes that counts as a probability, before probabilities are calibrated.
LEAST = 1e-6


class ScaledClassifier(ClassifierMixin, BaseEstimator):
    """A pipeline of scikit-learn whose scores are multiplied before they become probabilities.

    A scale (temperature scaling) calibrates probabilities and changes no prediction.

    Args:
        pipeline: The pipeline.
        scale: Factor of the scores.

    Attributes:
        classes_: Labels of the classes.
    """

    def __init__(self, pipeline: Any, scale: float = 1.0) -> None:
        self.pipeline = pipeline
        self.scale = scale

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the pipeline to rows [N, p] of labels [N]."""
        self.pipeline.fit(X, y)
        self.classes_ = self.pipeline.classes_
        return self

    @property
    def n_features_in_(self) -> int:
        """Number of columns of the rows."""
        return int(self.pipeline[0].n_features_in_)

    def log_proba(self, X: Any) -> np.ndarray:
        """Return scores [N, C] whose softmax are the probabilities of the pipeline."""
        if hasattr(self, NAMES) and hasattr(X, "columns"):
            # Columns in another order are an error, as in other estimators.
            _check_feature_names(self, X, reset=False)
            X = np.asarray(X)
        last = self.pipeline[-1]
        if isinstance(last, NearestCentroid):
            # Its own scores have another metric than its predictions.
            x = np.asarray(self.pipeline[:-1].transform(X), np.float64)
            return -cdist(x, last.centroids_, "sqeuclidean") / 2
        if hasattr(self.pipeline, "decision_function"):
            s = np.asarray(self.pipeline.decision_function(X), np.float64)
            return np.stack([np.zeros_like(s), s], 1) if s.ndim == 1 else s
        return np.log(np.maximum(self.pipeline.predict_proba(X), LEAST))

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return the logarithms of `predict_proba` [N, C]."""
        return log_softmax(self.scale * self.log_proba(X), axis=1)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return probabilities [N, C] of rows [N, p]."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> np.ndarray:
        """Return the most likely label of rows [N, p]."""
        return self.classes_[self.log_proba(X).argmax(1)]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a safetensors file, whole or not at all, which `load_classifier` reads."""
        path, tensors, steps = Path(path), {}, []
        require_name(path)
        for i, (_, step) in enumerate(self.pipeline.steps):
            values, kind = {}, next(k for k in KINDS.values() if isinstance(step, k))
            for name, value in _fitted(step).items():
                if isinstance(value, np.ndarray):
                    tensors[f"{i}/{name}"] = torch.from_numpy(np.ascontiguousarray(value))
                else:
                    values[name] = value
            given = step.get_params(deep=False).items()
            plain = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in given}
            steps.append({"kind": kind.__name__, "parameters": plain, "fitted": values})
        labels = [label.item() if hasattr(label, "item") else label for label in self.classes_]
        about = {"steps": steps, "scale": float(self.scale), "classes": labels}
        if hasattr(self, NAMES):
            about[NAMES] = [str(name) for name in getattr(self, NAMES)]
        if hasattr(self, OF_NETWORK):
            about[OF_NETWORK] = getattr(self, OF_NETWORK)
        write_tensors(path, tensors, {"format": FORMAT, "metadata": json.dumps(about)})


def _fitted(step: Any) -> dict[str, Any]:
    """Return what a fit has learned: arrays, and numbers."""
    if isinstance(step, KNeighborsClassifier):
        return {"X": step._fit_X, "y": step._y}
    kinds = (np.ndarray, float, int, np.floating, np.integer)
    learned = {k: v for k, v in vars(step).items() if k.endswith("_") and isinstance(v, kinds)}
    plain = {k: v.item() if isinstance(v, np.generic) else v for k, v in learned.items()}
    return {k: v for k, v in plain.items() if k != "classes_"}


def load_classifier(path: str | os.PathLike[str]) -> Any:
    """Read the classifier that an analysis recommends and saves.

    Args:
        path: The file ``classifier.safetensors`` beside the page.

    Returns:
        A fitted `VMFClassifier`, or a pipeline of scikit-learn with calibrated probabilities; both
        have ``predict`` and ``predict_proba``.

    Raises:
        ValueError: The file is missing, broken, or of another kind.

    Example:
        >>> import tempfile
        >>> import resultant
        >>> model = resultant.VMFClassifier().fit([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]], [0, 0, 1])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(f"{folder}/classifier.safetensors")
        ...     again = resultant.load_classifier(f"{folder}/classifier.safetensors")
        >>> again.predict([[2.0, 0.1]]).tolist()
        [0]
    """
    from safetensors import safe_open

    from resultant.classifiers.vmf import VMFClassifier

    kind = "a classifier that resultant saved"
    with reading(path, kind), safe_open(path, "np") as file:
        header = file.metadata() or {}
        if header.get("format") == FORMAT:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return _load(parse_json(header["metadata"]), tensors)
    return VMFClassifier.load(path)


def _load(about: dict[str, Any], tensors: dict[str, np.ndarray]) -> ScaledClassifier:
    """Return a classifier of the metadata and arrays of a file."""
    labels, steps = np.array(about["classes"]), []
    for i, made in enumerate(about["steps"]):
        step: Any = KINDS[made["kind"]](**made["parameters"])
        learned = {k.partition("/")[2]: v for k, v in tensors.items() if k.startswith(f"{i}/")}
        if isinstance(step, KNeighborsClassifier):
            step.fit(learned["X"], learned["y"])
        elif any(not name.endswith("_") for name in (*learned, *made["fitted"])):
            raise ValueError("names of attributes that are not of a fit")
        else:
            vars(step).update(learned, **made["fitted"])
        if hasattr(step, "predict"):
            step.classes_ = np.arange(len(labels))
        steps.append(step)
    pipeline: Pipeline = make_pipeline(*steps)
    loaded = ScaledClassifier(pipeline, float(about["scale"]))
    loaded.classes_ = labels
    if NAMES in about:
        setattr(loaded, NAMES, np.array(about[NAMES], dtype=object))
    if OF_NETWORK in about:
        setattr(loaded, OF_NETWORK, dict(about[OF_NETWORK]))
    width = int(getattr(steps[0], "n_features_in_", 0))
    shape = loaded.predict_proba(np.ones((1, width), np.float32)).shape
    if shape != (1, len(labels)):
        raise ValueError(f"{len(labels)} classes, and probabilities of {shape[1]}")
    return loaded
