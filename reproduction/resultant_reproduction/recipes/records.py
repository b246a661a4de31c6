"""Records of the paper's runs: one JSON object per line and run, and which are of one kind."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from resultant.training import records as training
from resultant.training.config import WITHOUT_BETA, Run, TrainConfig
from resultant.training.records import Record, require_types
from resultant_reproduction.recipes.config import PaperConfig

# Settings that change the training by rounding only.
IGNORED = ("precision", "fuse")

DEFAULTS = vars(PaperConfig())

# Types of the entries that are used without a further check.
KINDS = {
    **dict.fromkeys(("job_runs", "train_images", "beside"), int),
    **dict.fromkeys(("job_seconds", "last.loss"), float),
    **dict.fromkeys(("config", "versions", "last", "probes", "frozen", "analysis"), dict),
    "trajectory": dict,
    "trajectory.epoch": list,
}

# Keys that hold accuracies, at any depth of a record, and the one entry of theirs that is none.
ACCURACIES = ("accuracy", "best_accuracy", "probes", "frozen", "grid")
CHOSEN_RATE = "learning_rate"


def identity(config: TrainConfig | Mapping[str, Any], realization: str, beta: float) -> str:
    """Return a text that is the same for all seeds of a configuration, realization and beta."""
    values = vars(config) if isinstance(config, TrainConfig) else config
    settings = {name: values.get(name, default) for name, default in DEFAULTS.items()}
    # An imbalance of 100 equals one of 100.0.
    settings = {name: float(a) if type(a) is int else a for name, a in settings.items()}
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
    """Return the `identity` of a record."""
    return identity(record["config"], record["realization"], record["beta"])


def run_of(record: Mapping[str, Any]) -> tuple[str, int]:
    """Return a key that only records of the same run share."""
    return of_record(record), record["seed"]


def read_folder(folder: Path) -> list[Record]:
    """Read the records of all ``*.jsonl`` of a folder; a missing folder has none."""
    return [r for path in sorted(folder.glob("*.jsonl")) for r in read_lines(path)]


def read_lines(path: Path) -> list[Record]:
    """Read the records of a file; a missing file has none."""
    records = training.read_lines(path, run_of)
    for number, record in enumerate(records, start=1):
        require_values(record, f"at {path}:{number}")
    return records


def require_values(record: Record, where: str) -> None:
    """Raise a ValueError unless types and run are valid and all accuracies are in [0, 1]."""
    require_types(record, KINDS, where)
    try:
        Run(record["realization"], record["beta"], record["seed"])
    except ValueError as error:
        raise ValueError(f"{error} {where}") from None
    _require_fractions(record, where)


def _require_fractions(part: Record, where: str, path: str = "", inside: bool = False) -> None:
    for name, value in part.items():
        accuracy = inside or name in ACCURACIES
        if isinstance(value, dict):
            _require_fractions(value, where, f"{path}{name}.", accuracy)
            continue
        # None is unknown; neither NaN nor True is valid.
        valid = value is None or (type(value) in (int, float) and 0 <= value <= 1)
        if accuracy and name != CHOSEN_RATE and not valid:
            raise ValueError(f"expected {path}{name} in [0, 1] {where}, got {value!r}")


def same_training(a: Record, b: Record) -> bool:
    """Return True if two records of a run are of the same training, by its seconds."""
    return a == b or ("job_seconds" in a and a["job_seconds"] == b.get("job_seconds"))


def merged_probes(old: Record, new: Record) -> dict[str, dict[str, Any]]:
    """Merge the probes of two records by pool and space; the new record replaces the old one."""
    a, b = (record.get("probes", {}) for record in (old, new))
    return {pool: {**a.get(pool, {}), **b.get(pool, {})} for pool in {**a, **b}}


def append(path: Path, records: Sequence[Record]) -> None:
    """Add records to a file, which is complete at any time; a new record of the same run replaces
    an old one, and of the same training keeps what it lacks of it."""
    lines = {run_of(r): r for r in records}
    for old in read_lines(path):
        new = lines.get(run := run_of(old))
        if new is not None and same_training(new, old):
            probes = merged_probes(old, new)
            lines[run] = {**old, **new, **({"probes": probes} if probes else {})}
    training.append(path, list(lines.values()), run_of)
