"""Fitted classifiers as safetensors files: the sums of the classes, parameters and labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from sklearn.base import BaseEstimator

from resultant._core.tensor_files import load, save
from resultant.classes.statistics import ClassStatistics
from resultant.classifiers.calibrators import Calibrators
from resultant.classifiers.components import Components

FORMAT = "resultant.classifier 1"

# Sums of the statistics.
SUMS = ("count", "weight", "total")

# Attributes that a fit chooses.
CHOSEN = ("temperature_", "scale_")

Classifier = TypeVar("Classifier", bound=BaseEstimator)


def save_classifier(classifier: Any, path: Path) -> None:
    """Write a fitted classifier; see `IncrementalClassifier.save`."""
    statistics = classifier.statistics_
    parameters = {k: v for k, v in classifier.get_params(deep=False).items() if k != "device"}
    chosen = {name: getattr(classifier, name, None) for name in CHOSEN}
    chosen = {name: value for name, value in chosen.items() if value is not None}
    calibrators = getattr(classifier, "calibrators_", None)
    if calibrators is not None:
        chosen["calibrators_"] = calibrators.method
    labels = classifier.classes_
    if labels.dtype.kind not in "biufU" and not all(isinstance(a, str) for a in labels):
        raise ValueError(f"expected labels of strings or numbers, got {labels.dtype}")
    about = {
        "format": FORMAT,
        "class": type(classifier).__name__,
        "parameters": parameters,
        "chosen": chosen,
        "labels": labels.tolist(),
        "dtype": labels.dtype.str if labels.dtype.kind != "O" else "object",
    }
    try:
        json.dumps(about, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"expected parameters of plain values, got: {error}") from None
    components = getattr(classifier, "components_", None)
    more = {} if components is None else components.tensors()
    more |= {} if calibrators is None else calibrators.tensors()
    save(path, {name: getattr(statistics, name) for name in SUMS} | more, about)


def load_classifier(
    kind: type[Classifier], path: Path, device: torch.device | str | None
) -> Classifier:
    """Read a fitted classifier; see `IncrementalClassifier.load`."""
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
    classifier: Any = kind(**about["parameters"], device=device)  # type: ignore[call-arg]
    for name, value in about["chosen"].items():
        setattr(classifier, name, value)
    if "calibrators_" in about["chosen"]:
        method, classes = about["chosen"]["calibrators_"], statistics.num_classes
        classifier.calibrators_ = Calibrators.of(tensors, method, classes)
    if "owner" in tensors:
        classifier.components_ = Components.of(tensors, statistics.device)
    classifier.n_features_in_ = statistics.dim
    return classifier._finish(statistics, np.array(about["labels"], dtype=about["dtype"]))
