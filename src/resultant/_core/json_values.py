"""JSON from outside: records, metrics, and the metadata of tensors and of tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

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
    """Parse one JSON document.

    Raises:
        ValueError: The text is no JSON, or is nested too deeply.

    Example:
        >>> parse_json('{"epoch": 3}')
        {'epoch': 3}
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("JSON that is nested too deeply") from None


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
