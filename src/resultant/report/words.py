"""Numbers as a report prints them: a dash for none, one minus sign, no break before a percent."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from resultant._core.text import signed

MISSING = "–"


def is_missing(value: object) -> bool:
    """Return True for None and for numbers that are not finite."""
    return value is None or (isinstance(value, float) and not math.isfinite(value))


def percent(fraction: float | None, digits: int = 1) -> str:
    """Return a fraction in percent."""
    return _text(fraction, lambda v: f"{100 * v:.{digits}f}\u00a0%")


def share(fraction: float | None) -> str:
    """Return a fraction in percent without the sign, for a column with the unit in its heading."""
    return percent(fraction).removesuffix("\u00a0%")


def points(change: float | None) -> str:
    """Return the change of a fraction in percentage points, with its sign."""
    return _text(change, lambda v: signed(100 * v, 2))


def seconds(value: float | None) -> str:
    """Return seconds with two digits or more."""
    return _text(value, lambda v: f"{v:.2g}" if v < 10 else f"{v:.0f}")


def number(value: Any) -> str:
    """Return any value of a table as text."""
    if isinstance(value, int):
        return _text(value, "{:,}".format)
    # With trailing zeros, so that the numbers of a column have one width.
    return str(value) if isinstance(value, str) else _text(value, "{:#.4g}".format)


def settings(values: dict[str, Any]) -> str:
    """Return settings as in a call: beta=0.25, realization='angular'."""
    return ", ".join(
        f"{name}={v:.4g}" if isinstance(v, float) else f"{name}={v!r}" for name, v in values.items()
    )


def _text(value: float | None, form: Callable[[float], str]) -> str:
    return MISSING if value is None or is_missing(value) else form(value).replace("-", "−")
