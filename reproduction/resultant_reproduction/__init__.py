"""The paper behind resultant, rerun: printed tables, figures and claims with our numbers.

An item holds the printed values and computes ours from an `Evidence`: records of training
runs, feature stores, and the checks of `resultant_reproduction.theory`. Importing the package loads
nothing else, so that commands answer at once; the names below load on first use.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from resultant_reproduction.pages.compute import ITEMS, Evidence, Item, Outcome, Records

__all__ = ["ITEMS", "Evidence", "Item", "Outcome", "Records"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from resultant_reproduction.pages import compute as items

    return getattr(items, name)
