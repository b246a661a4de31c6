"""Names of a folder that load on first use."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy(folder: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the function ``__getattr__`` of a folder, for the modules of its public names."""

    def find(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {folder!r} has no attribute {name!r}")
        value = getattr(import_module(f"{folder}.{names[name]}"), name)
        setattr(sys.modules[folder], name, value)
        return value

    return find
