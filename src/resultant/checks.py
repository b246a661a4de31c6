"""Checks of classifiers that take rows batch by batch: of ours, and of anybody's.

Each check takes an unfitted classifier with the methods of scikit-learn, fits clones of it, and
raises an `AssertionError` that says what was expected and what arrived. `check` runs all.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np
from sklearn.base import clone

__all__ = ["CHECKS", "check", "check_forget", "check_merge", "check_new_class", "check_order"]

Rows = tuple[Any, Any]

# Outputs that are compared, the first that a classifier has.
OUTPUTS = ("predict_proba", "decision_function", "predict")


def check(model: Any, X: Any = None, y: Any = None, *, tolerance: float = 1e-6) -> None:
    """Run all checks of this page.

    Args:
        model: A classifier with ``partial_fit``, and perhaps ``merge(other)`` and ``forget(X, y)``,
            whose checks fail if the method is missing.
        X, y: Rows [N, p] and labels [N] of three classes or more; drawn by default.
        tolerance: Largest difference of the outputs.

    Raises:
        AssertionError: For the first check that fails.

    Example:
        >>> from resultant import VMFClassifier, checks
        >>> checks.check(VMFClassifier())
    """
    for one in CHECKS:
        one(model, X, y, tolerance=tolerance)


def check_order(model: Any, X: Any = None, y: Any = None, *, tolerance: float = 1e-6) -> None:
    """Batches of any size, in any order, give the classifier of one batch.

    Example:
        >>> from sklearn.linear_model import SGDClassifier
        >>> check_order(SGDClassifier(random_state=0))
        Traceback (most recent call last):
        AssertionError: expected the decision_function of one batch, got another by ...
    """
    X, y = rows(X, y)
    whole = added(model, X, y, [np.arange(len(y))])
    for seed, size in ((0, 1), (1, 7), (2, 40)):
        order = np.random.default_rng(seed).permutation(len(y))
        parts = np.split(order, range(size, len(y), size))
        text = f"after rows in another order, {size} at a time"
        require_alike("one batch", added(model, X, y, parts), whole, X, tolerance, text)


def check_new_class(model: Any, X: Any = None, y: Any = None, *, tolerance: float = 1e-6) -> None:
    """``partial_fit`` takes a label that nobody has named before, and ends with all classes."""
    X, y = rows(X, y)
    last, grown = y == y[-1], fresh(model)
    whole = added(model, X, y, [np.arange(len(y))])
    try:
        grown.partial_fit(X[~last], y[~last])
        grown.partial_fit(X[last], y[last])
    except Exception as error:
        got = f"{type(error).__name__}: {error}"
        raise AssertionError(f"expected partial_fit to take a new label, got {got}") from error
    require_alike("one batch", grown, whole, X, tolerance, "after a new class")


def check_merge(model: Any, X: Any = None, y: Any = None, *, tolerance: float = 1e-6) -> None:
    """``merge(other)`` of classifiers of other rows and classes is one fit to the rows of both."""
    X, y = rows(X, y)
    method(model, "merge")
    whole, last = added(model, X, y, [np.arange(len(y))]), y == y[-1]
    halves = [np.flatnonzero((np.arange(len(y)) % 2 == k) & ~(last & (k == 0))) for k in (0, 1)]
    halves[1] = np.setdiff1d(np.arange(len(y)), halves[0])
    for first, second in (halves, halves[::-1]):
        mine, theirs = (added(model, X, y, [part]) for part in (first, second))
        before = outputs(theirs, X)
        mine.merge(theirs)
        require_alike("one fit to both", mine, whole, X, tolerance, "after merge")
        same = np.array_equal(outputs(theirs, X), before)
        assert same, "expected merge to leave the other classifier as it is, got another"


def check_forget(model: Any, X: Any = None, y: Any = None, *, tolerance: float = 1e-6) -> None:
    """``forget(X, y)`` of rows is a fit to the others."""
    X, y = rows(X, y)
    method(model, "forget")
    gone = np.arange(len(y)) % 3 == 0
    rest = np.flatnonzero(~gone)
    fitted = added(model, X, y, [np.arange(len(y))]).forget(X[gone], y[gone])
    refit = added(model, X, y, [rest])
    require_alike("a fit to the other rows", fitted, refit, X, tolerance, "after forget")


CHECKS: tuple[Callable[..., None], ...] = (check_order, check_new_class, check_merge, check_forget)


def rows(X: Any = None, y: Any = None) -> Rows:
    """Return the rows of a check, by default 120 of three classes."""
    if X is not None:
        return np.asarray(X), np.asarray(y)
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(120) % 3)
    return rng.uniform(size=(120, 8)) + 0.7 * np.eye(8)[y], y


def added(model: Any, X: Any, y: Any, parts: list[Any]) -> Any:
    """Fit a clone to parts of the rows; labels are named first where they must be."""
    fitted = fresh(model)
    for k, part in enumerate(parts):
        named = k == 0 and "classes" in signature(fitted.partial_fit).parameters
        options = {"classes": np.unique(y)} if named and len(parts) > 1 else {}
        try:
            fitted.partial_fit(X[part], y[part], **options)
        except ValueError:
            if options or not named:
                raise
            fitted.partial_fit(X[part], y[part], classes=np.unique(y))
    return fitted


def fresh(model: Any) -> Any:
    """Return an unfitted copy."""
    return clone(model)


def outputs(fitted: Any, X: Any) -> Any:
    """Return what a classifier says of rows."""
    name = next(name for name in OUTPUTS if hasattr(fitted, name))
    return np.asarray(getattr(fitted, name)(X))


def method(model: Any, name: str) -> None:
    """Raise unless a classifier has a method."""
    assert hasattr(model, name), f"expected a method {name} of {type(model).__name__}, got none"


def require_alike(
    expected: str, ours: Any, theirs: Any, X: Any, tolerance: float, when: str
) -> None:
    """Raise unless two classifiers have the same classes and say the same of rows."""
    classes = [np.asarray(one.classes_).tolist() for one in (theirs, ours)]
    assert classes[0] == classes[1], f"expected classes {classes[0]}, got {classes[1]} {when}"
    name = next(name for name in OUTPUTS if hasattr(theirs, name))
    one, other = outputs(ours, X), outputs(theirs, X)
    far = float((one != other).mean() if name == "predict" else np.abs(one - other).max())
    text = f"expected the {name} of {expected}, got another by {far:.1e} {when}"
    assert far <= tolerance, text
