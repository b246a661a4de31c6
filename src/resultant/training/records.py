"""Records of training runs, one JSON object per line and run, and checks of JSON values."""

import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

from resultant._core.files import parse_json, read_bytes, write_text
from resultant.training.config import TrainConfig

Record = dict[str, Any]

DEFAULTS = vars(TrainConfig())

# Names of types in messages.
NOUNS = {dict: "an object", list: "a list", str: "a text", int: "a whole number"}
NOUNS |= {float: "a number", bool: "true or false"}


def run_of(record: Record) -> Hashable:
    """Return a key that only records of the same run with the same settings share."""
    settings = {name: record["config"].get(name, default) for name, default in DEFAULTS.items()}
    # It changes the training by rounding only.
    del settings["precision"]
    return record["run"], json.dumps(settings, sort_keys=True)


def read_lines(path: Path, key: Callable[[Record], Hashable] = run_of) -> list[Record]:
    """Read the records of a file, each with a run by ``key``; a missing file has none."""
    records = []
    lines = read_bytes(path).splitlines() if path.exists() else []
    for number, line in enumerate(lines, start=1):
        try:
            record = parse_json(line)
            hash(key(record))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
            where, got = f"at {path}:{number}", str(line[:80])[2:-1]
            raise ValueError(f"expected a record {where}, got {got!r}") from None
        records.append(record)
    return records


def append(
    path: Path, records: Sequence[Record], key: Callable[[Record], Hashable] = run_of
) -> None:
    """Add records to a file, which is complete at any time; they replace those of their runs."""
    new = {key(record): record for record in records}
    kept = [record for record in read_lines(path, key) if key(record) not in new]
    write_text(path, "".join(json.dumps(record) + "\n" for record in [*kept, *new.values()]))


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
