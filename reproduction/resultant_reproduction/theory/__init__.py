"""Numerical checks of the paper's theorems, propositions and figures.

A check is a function without required arguments that returns a `Check`. The reference is the exact
score of the library, which the library's tests compare with Arb.
"""

from __future__ import annotations

from collections.abc import Sequence

from resultant_reproduction.spec import load

# Modules register their checks when they are imported.
from resultant_reproduction.theory import decisions, expansions, identities, orders, transition  # noqa: F401
from resultant_reproduction.theory.check import FUNCTIONS, Check

# In the order of the paper.
CHECKS = {name: FUNCTIONS[name] for name in load("theory/checks")}


def selected(only: Sequence[str] = ()) -> list[str]:
    """Return the names of the checks to run in the order of the paper, all if ``only`` is empty."""
    for name in only:
        if name not in CHECKS:
            raise ValueError(f"expected names of checks ({', '.join(CHECKS)}), got {name!r}")
    return [name for name in CHECKS if not only or name in only]


__all__ = ["CHECKS", "Check", "selected"]
