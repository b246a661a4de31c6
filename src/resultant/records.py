"""Records of training runs in files: a JSON object a line, one for each run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from resultant.checkpoint import write_text
from resultant.presets import WITHOUT_BETA, TrainConfig

# What does not change what is trained, but for rounding.
IGNORED = ("precision", "fuse")

Record = dict[str, Any]


def identity(config: TrainConfig | Mapping[str, Any], realization: str, beta: float) -> str:
    """What the runs of all seeds of one kind have in common."""
    own = asdict(config) if isinstance(config, TrainConfig) else config
    settings = {f.name: own.get(f.name, f.default) for f in fields(TrainConfig)}
    for name in IGNORED:
        del settings[name]
    if realization in WITHOUT_BETA:
        settings["family"], beta = "linear", 0.0
    if settings["schedule"] == "cosine":
        del settings["milestones"]
    if settings["classifier_prior"] == settings["prior"] or settings["objective"] != "joint":
        settings["classifier_prior"] = None
    return json.dumps([settings, realization, float(beta)], sort_keys=True)


def of_record(record: Mapping[str, Any]) -> str:
    return identity(record["config"], record["realization"], record["beta"])


def read_folder(folder: Path) -> list[Record]:
    """The records of all ``*.jsonl`` of a folder; none if it is not there."""
    return [r for path in sorted(folder.glob("*.jsonl")) for r in read_lines(path)]


def read_lines(path: Path) -> list[Record]:
    """The records of a file; a line that is none is an error that names it."""
    found = []
    for number, line in enumerate(path.read_text().splitlines() if path.exists() else (), start=1):
        try:
            record = json.loads(line)
            of_record(record)
            int(record["seed"])
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ValueError(f"expected a record at {path}:{number}, got {line[:80]!r}") from None
        found.append(record)
    return found


def append(path: Path, records: Sequence[Record]) -> None:
    """Add records to a file, those of the same runs replaced; the file is whole at any time."""
    new = {(of_record(r), r["seed"]) for r in records}
    kept = [r for r in read_lines(path) if (of_record(r), r["seed"]) not in new]
    write_text(path, "".join(json.dumps(r) + "\n" for r in [*kept, *records]))
