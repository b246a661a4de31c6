"""A table of all rows: places, most likely classes, label quality, outliers and duplicates."""

from __future__ import annotations

from typing import Any

import torch

from resultant.analysis.read import read
from resultant.analysis.run import run
from resultant.analysis.split import Settings
from resultant.analysis.write import row_columns


def rows(
    X: Any,
    y: Any = None,
    *,
    references: str = "fast",
    metric: str | None = None,
    time_limit: float | None = None,
    device: torch.device | str = "cpu",
    **options: Any,
) -> Any:
    """Score the label of every row, by a classifier that is chosen as `analyze` does and is fitted
    without the row; find outliers of each class and near-duplicates.

    Args:
        X, y: Features and labels, a data frame, or the path of a file, as in `analyze`.
        references, metric, time_limit, device: As in `analyze`.
        **options: Other arguments of `analyze` about rows: ``labels``, ``ids``, ``groups``,
            ``features``, ``test``, ``val``, ``fit_fraction``, ``seed``, ``drop_zero_rows``,
            ``skip_unlabelled`` and ``skip_unknown_classes``.

    Returns:
        A data frame of pandas, one line per row, in the order of the rows in their files. ``file``
        and ``row`` lead back to the row, with its id, text and path. ``split`` and ``fold`` say
        where it was left out. ``label``, ``predicted`` and ``probability``, up to
        ``probability_5``, are the most likely classes. ``label_quality`` is between 0 and 1, small
        if the label is unlikely and another class likely; ``is_label_issue`` flags likely label
        errors, for which ``suggested_label`` is another class. ``outlier_p`` is the share of rows
        of its class that are as far from it, ``is_outlier`` flags rows that are very far.
        ``duplicate_group`` numbers groups of nearly equal rows, ``label_conflict`` marks rows with
        a copy that has another label. ``class_share`` is the share of the training rows of its
        class that is lost if the row is dropped.

    Raises:
        ValueError: Rows or labels do not fit.

    Example:
        >>> import numpy as np
        >>> import resultant
        >>> rng = np.random.default_rng(0)
        >>> y = np.arange(200) % 4
        >>> X = np.eye(8)[y] + 0.3 * rng.normal(size=(200, 8))
        >>> y[7] = 0  # it was 3
        >>> table = resultant.rows(X, y, references="none")
        >>> int(table.label_quality.idxmin()), table.suggested_label[7]
        (7, 3)
    """
    try:
        import pandas
    except ImportError:
        raise ValueError("expected pandas: pip install pandas") from None
    settings = Settings(
        references=references, metric=metric, device=device, time_limit=time_limit, theory=False
    )
    studies, first = run(read(X, y, **options), settings)
    return pandas.DataFrame(row_columns(studies[first]))
