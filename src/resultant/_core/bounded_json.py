"""JSON from outside with bounds on its size, its depth, its numbers and its types.

All JSON that the package has not just written itself is read here: records, metrics, the headers
and the metadata of tensors, and the metadata of tables. An error is a ValueError in one line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

# Bytes of one document, levels of nesting, and the range of whole numbers.
MAX_BYTES = 1 << 26
MAX_DEPTH = 64
MAX_INTEGER = (1 << 63) - 1
# Names of types in messages.
NOUNS = {
    dict: "an object",
    list: "a list",
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
}


def parse_json(text: str | bytes) -> Any:
    """Parse one JSON document within the bounds.

    Raises:
        ValueError: The text is no JSON, is longer than `MAX_BYTES`, is nested deeper than
            `MAX_DEPTH`, or has whole numbers beyond 64 bits.

    Example:
        >>> parse_json('{"epoch": 3}')
        {'epoch': 3}
    """
    if len(text) > MAX_BYTES:
        raise ValueError(f"JSON of {len(text):,} bytes, beyond the limit of {MAX_BYTES:,}")
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError(f"JSON nested deeper than {MAX_DEPTH}") from None
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                inner += item.values()
            elif isinstance(item, list):
                inner += item
            elif isinstance(item, int) and abs(item) > MAX_INTEGER:
                raise ValueError(f"a whole number of {len(str(item))} digits in JSON")
        if not inner:
            return value
        level = inner
    raise ValueError(f"JSON nested deeper than {MAX_DEPTH}")


def require_types(values: object, kinds: Mapping[str, type], where: str) -> None:
    """Raise a ValueError unless entries of a JSON object have their types.

    Args:
        values: The object.
        kinds: The types by dotted path, such as ``{"seed": int, "trajectory.epoch": list}``. A
            whole number is a ``float`` too, true and false are no numbers, and a missing or null
            entry has any type.
        where: The place of the object in the message.
    """
    if not isinstance(values, Mapping):
        raise ValueError(f"expected {NOUNS[dict]} {where}, got {_shown(values)}")
    for path, kind in kinds.items():
        value: Any = values
        for name in path.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
        if value is not None and not _is_kind(value, kind):
            raise ValueError(f"expected {path} to be {NOUNS[kind]} {where}, got {_shown(value)}")


def _is_kind(value: object, kind: type) -> bool:
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, (int, float) if kind is float else kind)


def _shown(value: object) -> str:
    return f"{value!r:.80}"
