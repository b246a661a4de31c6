"""How names and numbers are said in the report."""

from __future__ import annotations

from resultant._core.text import counted as counted
from resultant._core.text import listed as listed
from resultant._core.text import shown as shown
from resultant.analysis import Analysis, GridPoint

NAMES = {
    "native": "Native",
    "temperature": "Direct Temperature",
    "preserve": "Intercept-Preserving",
    "angular": "Pure Angular",
    "cosine": "Cosine",
}

# What the paper calls it, said once for its readers.
NATIVE_IN_PAPER = f"{NAMES['native']} is the paper's Original vMF."

MISSING = "–"
ONE_SIZE = "no groups, as the classes are of about one size"


def percent(share: float | None, digits: int = 2) -> str:
    # A space that keeps the sign with its number.
    return MISSING if share is None or share != share else f"{100 * share:.{digits}f}\u00a0%"


def points(change: float | None) -> str:
    """A change of a share in percentage points, with its sign."""
    return MISSING if change is None or change != change else f"{100 * change:+.2f}"


def number(value: object) -> str:
    if value is None or value != value:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    # With its last zeros, so that a column has one width.
    return f"{value:#.4g}" if isinstance(value, float) else str(value)


def short(value: float) -> str:
    return f"{value:g}"


def p_value(p: float) -> str:
    return "p < 0.0001" if p < 1e-4 else f"p = {p:.2g}"


def policy(realization: str, beta: float) -> str:
    """A realization with its beta, which native and cosine do not have."""
    name = NAMES[realization]
    return name if realization in ("native", "cosine") else f"{name} at β = {beta:g}"


def class_name(name: str) -> str:
    """A class in a sentence; a name of digits is but its label."""
    return f"class {name}" if name.isdecimal() else shown(name)


def of_features(name: str) -> str:
    """The features of a name, which may be called just that."""
    return name if name.endswith("features") else f"{name} features"


def before_and_after(a: Analysis) -> tuple[GridPoint, GridPoint] | None:
    """Native and the best candidate on all held-out queries."""
    if a.grid is None or a.recommendation is None:
        return None
    r = a.recommendation
    native = a.grid.point("native", gamma=r.gamma)
    return native, a.grid.point(r.candidate, r.candidate_beta, r.gamma)
