"""Imports of large packages in less time."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from importlib import import_module


def preload(modules: Sequence[str], without: Sequence[str] = ()) -> None:
    """Import modules that a command needs, with garbage collection paused.

    Objects of modules are never garbage: collections find nothing while modules load, and later
    collections pass over what was loaded here.

    Args:
        modules: Names of modules; loaded ones cost nothing.
        without: Packages that the modules can do without, such as pandas for scikit-learn.
            Code that imports them later loads them as always.
    """
    if all(name in sys.modules for name in modules):
        return
    hidden = [name for name in without if name not in sys.modules]
    collecting = gc.isenabled()
    gc.disable()
    # None in the table of modules is an import error.
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]
    try:
        for name in modules:
            import_module(name)
    finally:
        for name in hidden:
            sys.modules.pop(name, None)
        if collecting:
            gc.freeze()
            gc.enable()
