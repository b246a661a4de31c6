"""`resultant.analyze` and `resultant.compare`: the commands from Python."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from resultant.analysis.compare import compare_stores, same_features
from resultant.analysis.read import open_store, read
from resultant.analysis.result import AnalysisResult
from resultant.analysis.run import result_of, run
from resultant.analysis.split import Settings
from resultant.features.prepare import prepare
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
    drop_zero_rows: bool = False,
    skip_unlabelled: bool = False,
    skip_unknown_classes: bool = False,
    estimator: str = "mle",
    temperature: float | None = None,
    time_limit: float | None = None,
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
        drop_zero_rows: Leave out rows of zero vectors.
        skip_unlabelled: Leave out rows of a file or data frame that have no label.
        skip_unknown_classes: Leave out validation and test rows of classes without a training row.
        estimator: Estimator of kappa, see `concentration`.
        temperature: Temperature of the vMF classifiers; chosen by default.
        time_limit: Seconds of the search of vMF settings; the best so far is taken, and a note says
            so. By default no limit, and the same result on every machine.
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
    rows |= {"drop_zero_rows": drop_zero_rows, "skip_unknown_classes": skip_unknown_classes}
    names: dict[str, Any] = {"labels": labels, "ids": ids, "groups": groups, "features": features}
    names["skip_unlabelled"] = skip_unlabelled
    sets = read(X, y, **names, **rows)
    settings = Settings(estimator, temperature, references, metric, device, time_limit)
    settings = replace(settings, theory=out is not None)
    studies, first = run(sets, settings)
    result = result_of(sets[0].source, studies, first, options=vars(settings))
    return result if out is None else write_report(Path(out), result, studies)


def compare(
    a: Any,
    b: Any,
    *,
    labels: str | None = None,
    ids: str | None = None,
    groups: str | None = None,
    features: str | None = None,
    out: str | os.PathLike[str] | None = None,
    metric: str | None = None,
    references: str = "fast",
    seed: int = 0,
    estimator: str = "mle",
    temperature: float | None = None,
    device: torch.device | str = "cpu",
) -> AnalysisResult:
    """Compare two feature sets of the same classes: which gives the better classifier.

    Each side is analyzed as by `analyze`. Test rows are paired by their ids; without ids they are
    taken for two samples of rows.

    Args:
        a, b: The two sides, each the path of a feature file, a data frame, or a tuple (X, y) or
            (X, y, ids) of features [N, p], labels [N] and values [N] that identify the rows.
        labels, ids, groups, features: Names of columns of files and data frames, see `analyze`.
        out: Folder of a report, which is written if given.
        metric, references, seed, estimator, temperature, device: As in `analyze`, for both sides.

    Returns:
        The result: ``comparisons[0].sentence``, ``comparisons[0].difference`` and so on.

    Raises:
        ValueError: Rows, labels or classes do not fit.

    Example:
        >>> import numpy as np
        >>> import resultant
        >>> rng = np.random.default_rng(0)
        >>> y = np.arange(400) % 4
        >>> before, after = (np.eye(8)[y] + s * rng.normal(size=(400, 8)) for s in (1.0, 0.3))
        >>> result = resultant.compare((before, y), (after, y), references="none")
        >>> result.comparisons[0].difference.verdict
        'better'
    """
    if out is not None:
        require_report_folder(Path(out))
    names: dict[str, Any] = {"labels": labels, "ids": ids, "groups": groups}
    titles, stores = [], []
    for side in (a, b):
        if isinstance(side, tuple):
            title, store = open_store(*side[:2], ids=side[2] if len(side) > 2 else None)
        else:
            title, store = open_store(side, features=features, **names)
        titles.append(title)
        # The rows of B are divided as the same rows of A.
        like = stores[0].divided if stores else None
        stores.append(prepare(store, seed=seed, like=like))
    titles = ["A", "B"] if titles[0] == titles[1] else titles
    sides, _ = same_features(stores, titles)
    settings = Settings(estimator, temperature, references, metric, device, theory=out is not None)
    studies, comparisons, chosen = compare_stores(sides, titles, settings, seed)
    used = chosen[comparisons[chosen[0]].difference.verdict == "better"]
    about: dict[str, Any] = {"comparisons": comparisons, "options": vars(settings)}
    result = result_of(" and ".join(titles), studies, used, **about)
    return result if out is None else write_report(Path(out), result, studies)
