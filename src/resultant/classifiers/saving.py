"""Fitted classifiers as safetensors files: sums of the classes, metric, parameters and labels."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from sklearn.base import BaseEstimator

from resultant._core.tensor_files import load, save
from resultant.classes.metric import Metric
from resultant.classes.statistics import ClassStatistics
from resultant.classifiers.components import Components

FORMAT = "resultant.classifier 1"

# Sums of the statistics.
SUMS = ("count", "weight", "total")

# Attributes that a fit chooses.
CHOSEN = ("temperature_", "shrinkage_", "scale_")

Classifier = TypeVar("Classifier", bound=BaseEstimator)


def save_classifier(classifier: Any, path: Path) -> None:
    """Write a fitted classifier; see `DirectionClassifier.save`."""
    parameters = {k: v for k, v in classifier.get_params(deep=False).items() if k != "device"}
    metric: Metric | None = classifier.metric_
    if isinstance(parameters["whiten"], Metric):
        # The metric itself is in the file.
        parameters |= {"whiten": "within", "shrinkage": parameters["whiten"].shrinkage}
    chosen = {name: getattr(classifier, name, None) for name in CHOSEN}
    chosen = {name: value for name, value in chosen.items() if value is not None}
    labels = classifier.classes_
    if labels.dtype.kind not in "biufU" and not all(isinstance(a, str) for a in labels):
        raise ValueError(f"expected labels of strings or numbers, got {labels.dtype}")
    about: dict[str, Any] = {
        "format": FORMAT,
        "class": type(classifier).__name__,
        "parameters": parameters,
        "chosen": chosen,
        "labels": labels.tolist(),
        "dtype": labels.dtype.str if labels.dtype.kind != "O" else "object",
    }
    tensors = {name: getattr(classifier.statistics_, name) for name in SUMS}
    if metric is not None:
        about["metric"] = metric.shrinkage
        tensors |= {"metric.mean": metric.mean, "metric.variance": metric.variance}
        tensors |= {} if metric.basis is None else {"metric.basis": metric.basis}
    components = getattr(classifier, "components_", None)
    tensors |= {} if components is None else components.tensors()
    try:
        about = json.loads(json.dumps(about, allow_nan=False, default=_plain))
    except (TypeError, ValueError) as error:
        raise ValueError(f"expected parameters of plain values, got: {error}") from None
    save(path, tensors, about)


def _plain(value: Any) -> Any:
    """Return a number of NumPy as one of Python, for JSON."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{value!r} of type {type(value).__name__}")


def load_classifier(
    kind: type[Classifier], path: Path, device: torch.device | str | None
) -> Classifier:
    """Read a fitted classifier; see `DirectionClassifier.load`."""
    rule = f"expected {path} to be a file of {kind.__name__}.save"
    try:
        tensors, about = load(path)
    except ValueError as error:
        raise ValueError(f"{rule}, got a file that cannot be read ({error})") from None
    if about.get("format") != FORMAT or about.get("class") != kind.__name__:
        got = f"format {about.get('format')!r} of {about.get('class')!r}"
        raise ValueError(f"{rule}, got {got}")
    statistics = ClassStatistics(*tensors["total"].shape, device=device)
    for name in SUMS:
        setattr(statistics, name, tensors[name].to(statistics.device))
    parameters, chosen = about["parameters"], about["chosen"]
    # Files of earlier versions.
    parameters.pop("calibration", None)
    if chosen.pop("calibrators_", None) is not None:
        text = f"expected {path} without a calibration per class, got one, which is dropped"
        warnings.warn(f"{text}; use CalibratedClassifierCV of scikit-learn", stacklevel=3)
    classifier: Any = kind(**parameters, device=device)  # type: ignore[call-arg]
    for name, value in chosen.items():
        setattr(classifier, name, value)
    if "metric" in about:
        names = ("metric.mean", "metric.basis", "metric.variance")
        parts = (tensors[n].to(statistics.device) if n in tensors else None for n in names)
        classifier.metric_ = Metric(*parts, about["metric"])  # type: ignore[arg-type]
    if "owner" in tensors:
        classifier.components_ = Components.of(tensors, statistics.device)
    classifier.n_features_in_ = statistics.dim
    classifier.classes_ = np.array(about["labels"], dtype=about["dtype"])
    classifier._finish(statistics, torch.float64)
    return classifier
