"""Counts, lists and names in notes and messages."""

from __future__ import annotations

import os
from collections.abc import Iterable


def counted(n: int, one: str, several: str) -> str:
    """A count with its noun in the singular or the plural."""
    return f"{n:,} {one if n == 1 else several}"


def listed(items: Iterable[str], limit: int = 8) -> str:
    """The first items separated by commas, and the number of the others."""
    items = list(items)
    rest = f" and {len(items) - limit} more" if len(items) > limit else ""
    return ", ".join(items[:limit]) + rest


def shown(name: str) -> str:
    """The name of a class, visible even if the name is empty."""
    return name or '""'


def one_line(name: object) -> str:
    """A name as a terminal and a page can show it in one line."""
    return " ".join("".join(c if c.isprintable() else " " for c in str(name)).split())


def printable(path: str | os.PathLike[str]) -> str:
    """A path as text; bytes that are not UTF-8 are replaced."""
    return os.fsencode(path).decode("utf-8", "replace")
