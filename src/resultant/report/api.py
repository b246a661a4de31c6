"""`resultant.analyze`: the analysis of features from Python."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch

from resultant.analysis.analyze import Settings, analyze_sets
from resultant.analysis.data import feature_sets
from resultant.analysis.result import AnalysisResult
from resultant.features.prepare import check_features, prepare
from resultant.features.selection import WORDS
from resultant.features.store import FeatureStore
from resultant.report.page import require_report_folder, write_report


def analyze(
    X: Any,
    y: Any = None,
    *,
    test: tuple[Any, Any] | None = None,
    val: tuple[Any, Any] | None = None,
    out: str | os.PathLike[str] | None = None,
    estimator: str = "mle",
    temperature: float | None = None,
    references: str = "fast",
    calibration: str = "scale",
    device: torch.device | str = "cpu",
) -> AnalysisResult:
    """Analyze frozen features: recommend a classifier, and evaluate it.

    In a notebook the result shows the recommendation and a table of all methods.

    Args:
        X: Features [N, p], an array, tensor or data frame; or the path of a feature file, as for
            the command ``resultant analyze``.
        y: Labels [N], numbers or words; None for a file.
        test: Features and labels of test rows; by default a fifth of each class is held out.
        val: Features and labels of validation rows; by default folds of the training rows.
        out: Folder of a report, which is written if given.
        estimator: Estimator of kappa, see `concentration`.
        temperature: Temperature of the vMF classifiers; chosen by default.
        references: Classifiers of scikit-learn to compare with: ``none``, ``fast`` or ``all``.
        calibration: ``scale``, ``sigmoid`` or ``isotonic``.
        device: Device of the vMF classifiers.

    Returns:
        The result: ``first.recommendation``, ``first.methods`` and so on.

    Raises:
        ValueError: Rows or labels do not fit.

    Example:
        >>> import numpy as np
        >>> import resultant
        >>> rng = np.random.default_rng(0)
        >>> y = np.arange(200) % 4
        >>> X = np.eye(8)[y] + 0.3 * rng.normal(size=(200, 8))
        >>> result = resultant.analyze(X, y, references="none")
        >>> result.first.recommendation.key in {m.key for m in result.first.methods}
        True
    """
    if isinstance(X, (str, os.PathLike)):
        if y is not None or test is not None or val is not None:
            raise ValueError("expected a path alone, or features with labels, got a path and more")
        store, name = FeatureStore.open(X), Path(X).name
    else:
        store, name = _memory(X, y, test, val), "features"
    if out is not None:
        require_report_folder(Path(out))
    prepared = prepare(store)
    check_features(prepared)
    sets = feature_sets(prepared, name)
    settings = Settings(estimator, temperature, references, calibration, device, out is not None)
    evaluated, first = analyze_sets(sets, settings, lambda _: None)
    features = tuple(one.result for one in evaluated)
    result = AnalysisResult(sets[0].source, features, first, options=vars(settings))
    return result if out is None else write_report(Path(out), result, evaluated)


def _memory(X: Any, y: Any, test: Any, val: Any) -> FeatureStore:
    """Return a store of arrays; labels are numbered in their order."""
    if y is None:
        raise ValueError("expected labels y [N] with features X [N, p], got None")
    splits = {"train": (X, y), "test": test, "val": val}
    parts = {name: pair for name, pair in splits.items() if pair is not None}
    labels = {name: _array(own) for name, (_, own) in parts.items()}
    known = np.unique(np.concatenate(list(labels.values())))
    arrays: dict[str, Any] = {}
    for name, (x, _) in parts.items():
        rows = torch.as_tensor(np.ascontiguousarray(_array(x)))
        if rows.dim() != 2 or len(rows) != len(labels[name]):
            got = f"{tuple(rows.shape)} and {labels[name].shape}"
            raise ValueError(f"expected {name} features [N, p] and labels [N], got shapes {got}")
        arrays[f"{name}/features"] = rows if rows.is_floating_point() else rows.float()
        arrays[f"{name}/labels"] = torch.from_numpy(np.searchsorted(known, labels[name]))
    about = {"class_names": [str(label) for label in known.tolist()], "num_classes": len(known)}
    words = {"labels": WORDS} if known.dtype.kind in "UO" else {}
    return FeatureStore("features", arrays, {**about, **words})


def _array(a: Any) -> Any:
    """Return a tensor, a data frame or a list as an array."""
    if isinstance(a, torch.Tensor):
        a = a.detach().cpu()
        a = a.float() if a.dtype == torch.bfloat16 else a
    return np.asarray(a)
