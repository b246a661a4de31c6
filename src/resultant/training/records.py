"""Records of training runs in files: a JSON object a line, one for each run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, NamedTuple

from resultant._core.files import write_text
from resultant.training.config import WITHOUT_BETA, Run, TrainConfig

# What does not change what is trained, but for rounding.
IGNORED = ("precision", "fuse")

# What holds accuracies, at any depth of a record.
ACCURACIES = ("accuracy", "best_accuracy", "probes", "frozen", "grid")

Record = dict[str, Any]


def identity(config: TrainConfig | Mapping[str, Any], realization: str, beta: float) -> str:
    """What the runs of all seeds of one kind have in common."""
    own = asdict(config) if isinstance(config, TrainConfig) else config
    settings = {f.name: own.get(f.name, f.default) for f in fields(TrainConfig)}
    # An imbalance of 100 is one of 100.0.
    for f in fields(TrainConfig):
        if "float" in str(f.type) and type(settings[f.name]) is int:
            settings[f.name] = float(settings[f.name])
    for name in IGNORED:
        del settings[name]
    if realization in WITHOUT_BETA:
        settings["family"], beta = "linear", 0.0
    if settings["schedule"] == "cosine":
        del settings["milestones"]
    if settings["classifier_prior"] == settings["prior"]:
        settings["classifier_prior"] = None
    if settings["objective"] != "joint":
        settings["classifier_prior"], settings["alpha"] = None, None
    return json.dumps([settings, realization, float(beta)], sort_keys=True)


def of_record(record: Mapping[str, Any]) -> str:
    return identity(record["config"], record["realization"], record["beta"])


def run_of(record: Mapping[str, Any]) -> tuple[str, int]:
    """What records of the same run, and of no other, have in common."""
    return of_record(record), record["seed"]


def read_folder(folder: Path) -> list[Record]:
    """The records of all ``*.jsonl`` of a folder; none if it is not there."""
    return [r for path in sorted(folder.glob("*.jsonl")) for r in read_lines(path)]


def read_lines(path: Path) -> list[Record]:
    """The records of a file; a line that is none is an error that names it."""
    found = []
    for number, line in enumerate(path.read_text().splitlines() if path.exists() else (), start=1):
        where = f"at {path}:{number}"
        try:
            record = json.loads(line)
            run_of(record)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ValueError(f"expected a record {where}, got {line[:80]!r}") from None
        require_values(record, where)
        found.append(record)
    return found


def require_values(record: Record, where: str) -> None:
    """Raise unless it is of a run that there can be, with accuracies in [0, 1]."""
    try:
        Run(record["realization"], record["beta"], record["seed"])
    except ValueError as error:
        raise ValueError(f"{error} {where}") from None
    wrong = _wrong_accuracy(record)
    if wrong:
        raise ValueError(f"expected {wrong.path} in [0, 1] {where}, got {wrong.value!r}")


class _Entry(NamedTuple):
    path: str
    value: object


def _wrong_accuracy(part: Mapping[str, Any], within: bool = False) -> _Entry | None:
    """The first accuracy of a record that is no fraction; None stands for one that is unknown."""
    for name, value in part.items():
        accuracy = within or name in ACCURACIES
        if isinstance(value, dict):
            if found := _wrong_accuracy(value, accuracy):
                return found._replace(path=f"{name}.{found.path}")
        elif accuracy and value is not None and not _fraction(value):
            return _Entry(name, value)
    return None


def _fraction(value: Any) -> bool:
    """Whether it is a number in [0, 1], which neither NaN is nor true."""
    return type(value) in (int, float) and 0 <= value <= 1


def same_training(a: Record, b: Record) -> bool:
    """Whether two records of a run are of one training of it, by the seconds that it took."""
    return a == b or ("job_seconds" in a and a["job_seconds"] == b.get("job_seconds"))


def merged_probes(old: Record, new: Record) -> dict[str, dict[str, Any]]:
    """The probes of two records by pool and space; where both have one, that of the new one."""
    a, b = (record.get("probes", {}) for record in (old, new))
    return {pool: {**a.get(pool, {}), **b.get(pool, {})} for pool in {**a, **b}}


def append(path: Path, records: Sequence[Record]) -> None:
    """Add records to a file, those of the same runs replaced; the file is whole at any time.

    What was known of the same training, by the seconds it took, stays where a new record is silent,
    probes by their features and the images they were fitted to: a job that is found done is not
    evaluated again by every call.
    """
    lines = {run_of(r): r for r in records}
    kept = []
    for old in read_lines(path):
        new = lines.get(run := run_of(old))
        if new is None:
            kept.append(old)
        elif same_training(new, old):
            probes = merged_probes(old, new)
            lines[run] = {**old, **new, **({"probes": probes} if probes else {})}
    write_text(path, "".join(json.dumps(r) + "\n" for r in [*kept, *lines.values()]))
