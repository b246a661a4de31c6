"""Markdown tables, and their marked places in a text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def number(x: float) -> str:
    return f"{x:.1e}" if x and not 0.1 <= abs(x) < 1000 else f"{x:.3g}"


def amount(x: float) -> str:
    """Format a time, a size or a ratio with three digits, never as a power of ten."""
    return f"{x:,.0f}" if abs(x) >= 100 else f"{x:.3g}"


def insert(text: str, name: str, tables: str) -> str:
    """Replace the part of ``text`` between the two markers of a name."""
    start, end = f"<!-- {name}:start -->", f"<!-- {name}:end -->"
    counts = text.count(start), text.count(end)
    if counts != (1, 1) or text.index(start) > text.index(end):
        raise ValueError(
            f"expected {start} and after it {end}, each once, got {counts[0]} and {counts[1]}"
        )
    before, _, rest = text.partition(start)
    return f"{before}{start}\n{tables}\n{end}{rest.partition(end)[2]}"
