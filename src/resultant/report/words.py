"""Names and numbers as a report prints them."""

from __future__ import annotations

from typing import NamedTuple

from resultant.analysis import Analysis, GridPoint
from resultant.analysis.advice import RULE_NAMES

NAMES = RULE_NAMES

# Printed once, for readers of the paper.
NATIVE_IN_PAPER = f"{NAMES['native']} is the paper's Original vMF."

MISSING = "–"
ONE_SIZE = "no groups, because the classes have about the same size or are all in one group"


def percent(fraction: float | None, digits: int = 2) -> str:
    """Return a fraction in percent; the space before the sign does not break.

    Example:
        >>> percent(0.5, 0)
        '50\\xa0%'
    """
    if fraction is None or fraction != fraction:
        return MISSING
    return f"{100 * fraction:.{digits}f}\u00a0%"


def points(change: float | None) -> str:
    """Return the change of a fraction in percentage points, with its sign."""
    return MISSING if change is None or change != change else f"{100 * change:+.2f}"


class Share(float):
    """A fraction that a table shows in percent."""


def number(value: object) -> str:
    """Return any value of a table as text."""
    if value is None or value != value:
        return MISSING
    if isinstance(value, Share):
        return percent(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    # With trailing zeros, so that the numbers of a column have one width.
    return f"{value:#.4g}" if isinstance(value, float) else str(value)


def short(value: float) -> str:
    return f"{value:g}"


def plain(value: float | None) -> str:
    """Return a number with three decimals."""
    return MISSING if value is None or value != value else f"{value:.3f}"


def seconds(value: float | None) -> str:
    """Return seconds with two digits or more."""
    return (
        MISSING
        if value is None or value != value
        else f"{value:.2g}"
        if value < 10
        else f"{value:.0f}"
    )


def p_value(p: float) -> str:
    return "p < 0.0001" if p < 1e-4 else f"p = {p:.2g}"


def rule_name(realization: str, beta: float) -> str:
    """Return the name of a realization with its beta; native and cosine have no beta."""
    name = NAMES[realization]
    return name if realization in ("native", "cosine") else f"{name} at β = {beta:g}"


def features_name(name: str) -> str:
    """Return the name of features in a sentence."""
    return name if name.endswith("features") else f"{name} features"


class Settings(NamedTuple):
    """A rule with its settings: realization, beta, temperature, and multiple of the log prior."""

    realization: str
    beta: float
    tau: float
    prior: float


def settings(a: Analysis) -> Settings:
    """Return the settings of the advised rule; native if there is no advice."""
    if a.advice is not None:
        row = a.advice.row(a.advice.advised)
        prior, beta = (float(row.settings.get(name) or 0.0) for name in ("prior", "beta"))
        realization = row.key if row.key in NAMES else "native"
        return Settings(realization, beta, a.space.tau, prior)
    return Settings("native", 1.0, a.space.tau, 0.0)


def before_and_after(a: Analysis) -> tuple[GridPoint, GridPoint] | None:
    """Return native and the advised rule on all held-out rows."""
    if a.grid is None:
        return None
    at = settings(a)
    return a.grid.point("native", gamma=at.prior), a.grid.point(at.realization, at.beta, at.prior)
