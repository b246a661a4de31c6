"""Numerical checks of the paper's theorems, propositions and figures.

A check is a function without required arguments that returns a `Check`. The reference is the exact
score of the library, which the library's tests compare with Arb.
"""

from resultant_reproduction.cells.cells import load

# Modules register their checks when they are imported.
from resultant_reproduction.theory import decisions, expansions, identities, orders, transition  # noqa: F401
from resultant_reproduction.theory.check import FUNCTIONS, Check

# In the order of the paper.
CHECKS = {name: FUNCTIONS[name] for name in load("theory/checks")}

__all__ = ["CHECKS", "Check"]
