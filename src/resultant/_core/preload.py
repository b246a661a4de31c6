"""Imports of large packages in less time."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from importlib import import_module


def preload(modules: Sequence[str]) -> None:
    """Import the modules that a command needs, with garbage collection paused.

    Objects of modules are never garbage: collections find nothing while modules load, and later
    collections pass over what was loaded here.
    """
    if all(name in sys.modules for name in modules):
        return
    collecting = gc.isenabled()
    gc.disable()
    try:
        for name in modules:
            import_module(name)
    finally:
        if collecting:
            gc.freeze()
            gc.enable()
