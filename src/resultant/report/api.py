"""`resultant.analyze`: the analysis of features from Python."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from resultant.analysis.read import read
from resultant.analysis.result import AnalysisResult
from resultant.analysis.run import run
from resultant.analysis.split import Settings
from resultant.report.page import require_report_folder, write_report


def analyze(
    X: Any,
    y: Any = None,
    *,
    labels: str | None = None,
    ids: Any = None,
    groups: Any = None,
    features: str | None = None,
    test: tuple[Any, Any] | None = None,
    val: tuple[Any, Any] | None = None,
    out: str | os.PathLike[str] | None = None,
    metric: str | None = None,
    references: str = "fast",
    fit_fraction: float | None = None,
    seed: int = 0,
    estimator: str = "mle",
    temperature: float | None = None,
    device: torch.device | str = "cpu",
) -> AnalysisResult:
    """Analyze frozen features: recommend a classifier, and evaluate it.

    In a notebook the result shows the recommendation and a table of all methods.

    Args:
        X: The path of a feature file, as for the command ``resultant analyze``; a data frame; or
            features [N, p], an array or tensor.
        y: Labels [N], numbers or words, of an array; None for a file, and for a data frame that has
            a column of labels.
        labels, features: Names of columns, by default the usual ones.
        ids: Name of a column that identifies the rows, or values [N] for an array.
        groups: Name of a column whose equal values keep rows in one split and fold (such as a
            patient or a writer), or values [N] for an array.
        test: Features and labels of test rows; by default a fifth of each class is held out.
        val: Features and labels of validation rows; by default folds of the training rows.
        out: Folder of a report, which is written if given.
        metric: ``"accuracy"`` or ``"balanced accuracy"``; by default the second one where a class
            has twice the training rows of another.
        references: Classifiers of scikit-learn to compare with: ``none``, ``fast`` or ``all``.
        fit_fraction: Fraction of the training rows to fit; the others validate.
        seed: Seed of the held-out rows and of the folds.
        estimator: Estimator of kappa, see `concentration`.
        temperature: Temperature of the vMF classifiers; chosen by default.
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
    if out is not None:
        require_report_folder(Path(out))
    rows: dict[str, Any] = {"test": test, "val": val, "fit_fraction": fit_fraction, "seed": seed}
    names: dict[str, Any] = {"labels": labels, "ids": ids, "groups": groups, "features": features}
    sets = read(X, y, **names, **rows)
    settings = Settings(estimator, temperature, references, metric, device, out is not None)
    studies, first = run(sets, settings)
    found = tuple(study.result for study in studies if study.result is not None)
    result = AnalysisResult(sets[0].source, found, first, options=vars(settings))
    return result if out is None else write_report(Path(out), result, studies)
