"""Text of others in messages: names and errors for a terminal, a table and a page."""

import os
import re
from collections.abc import Iterable


def counted(n: int, one: str, several: str) -> str:
    """A count with its noun in the singular or the plural."""
    return f"{n:,} {one if n == 1 else several}"


def signed(value: float, digits: int = 1) -> str:
    """Return a number with its sign, − as typesetters set it; a zero has none."""
    text = f"{value:+.{digits}f}"
    return text[1:] if float(text) == 0 else text.replace("-", "−")


def in_points(gain: float, low: float, high: float) -> str:
    """Return a difference of shares with its interval in points; an end that is not zero is not
    shown as zero if the interval excludes zero."""
    digits = 1
    while low * high > 0 and digits < 4 and 100 * min(abs(low), abs(high)) < 0.5 * 0.1**digits:
        digits += 1
    value, *ends = (signed(100 * v, digits) for v in (gain, low, high))
    return f"{value} points [{', '.join(ends)}]"


def with_minus(text: str) -> str:
    """Return a text with − before its numbers, as typesetters set it."""
    # Hyphens outside of words, options and exponents.
    return re.sub(r"(?<![^\s(\[|])-(?=\.?\d)", "−", text)


def listed(items: Iterable[str], limit: int = 8) -> str:
    """The first items separated by commas, and the number of the others."""
    items = list(items)
    rest = f" and {len(items) - limit} more" if len(items) > limit else ""
    return ", ".join(items[:limit]) + rest


def shown(name: str) -> str:
    """The name of a class, visible even if the name is empty."""
    return name or '""'


def class_name(name: str) -> str:
    """The name of a class in a sentence; digits are a label."""
    return f"class {name}" if name.isdecimal() else shown(name)


def visible(text: str) -> str:
    """A text without control characters, which could steer a terminal; lines stay lines."""
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)


def one_line(name: object) -> str:
    """A name as a terminal and a page can show it in one line."""
    return " ".join(visible(str(name)).split())


def shortened(text: str, longest: int = 2000) -> str:
    """A text of at most ``longest`` characters: its beginning and its end."""
    if len(text) <= longest:
        return text
    end = longest * 3 // 10
    return f"{text[: longest - end - 5]} ... {text[len(text) - end :]}"


def printable(path: str | os.PathLike[str]) -> str:
    """A path as text in one line; bytes that are not UTF-8 are replaced."""
    return one_line(os.fsencode(path).decode("utf-8", "replace"))
