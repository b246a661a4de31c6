"""JSON from outside: records, metrics, and the metadata of tensors and of tables."""

import json
from collections.abc import Mapping
from typing import Any

# Names of types in messages.
NOUNS = {dict: "an object", list: "a list", str: "a text", int: "a whole number"}
NOUNS |= {float: "a number", bool: "true or false"}


def parse_json(text: str | bytes) -> Any:
    """Parse one JSON document; raise a ValueError also for one that is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("JSON that is nested too deeply") from None


def require_types(values: object, kinds: Mapping[str, type], where: str) -> None:
    """Raise a ValueError unless entries of a JSON object, by dotted path, have their types: a whole
    number is a ``float`` too, true and false are no numbers, a missing entry has any type."""
    if not isinstance(values, Mapping):
        raise ValueError(f"expected {NOUNS[dict]} {where}, got {values!r:.80}")
    for path, kind in kinds.items():
        value: Any = values
        for name in path.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
        # True is an int to Python.
        number = kind is float and type(value) is int
        if value is not None and type(value) is not kind and not number:
            raise ValueError(f"expected {path} to be {NOUNS[kind]} {where}, got {value!r:.80}")
