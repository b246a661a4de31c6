"""Records of trainings that a user brings: records.jsonl of ``resultant train``, and what
``resultant probe --out`` wrote of the features of such runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from resultant.images.lists import DATASETS
from resultant.training.probe import ProbeConfig, main_encoder
from resultant.training.records import Record, merged_probes, read_lines, require_values, run_of


def read_brought(paths: Sequence[Path]) -> list[Record]:
    """The records of files; those of probes are added to the records of the same runs."""
    for path in paths:
        if not path.is_file():
            raise ValueError(f"expected a file of records or of probes, got nothing at {path}")
    found = [r for path in paths if path.suffix == ".jsonl" for r in read_lines(path)]
    last = {run_of(record): record for record in found}
    for path in paths:
        if path.suffix != ".jsonl":
            record = read_probes(path)
            known = last.setdefault(run := run_of(record), record)
            known["probes"] = merged_probes(known, record)
            found += [record] if last[run] is record else []
    return found


def read_probes(path: Path) -> Record:
    """A record of what ``resultant probe`` found in the features of a run."""
    try:
        told: Any = json.loads(path.read_text())
        about = told["metadata"]
        accuracy = dict(zip(told["features"], told["accuracy"], strict=True))
        probes = {space: {"accuracy": float(value)} for space, value in accuracy.items()}
        whole = about["imbalance"] == 1 != about["config"]["imbalance"]
        pool = {"balanced" if whole else "long_tail": probes}
        record = {**about["run"], "config": about["config"], "probes": pool}
        run_of(record)
        protocol = _protocol(told)
    except (ValueError, KeyError, TypeError, AttributeError):
        rule = "expected what resultant probe --out writes of the features of a run"
        raise ValueError(f"{rule}, got {path}") from None
    require_values(record, f"in {path}")
    for name, wanted, got in protocol:
        if got != wanted:
            rule = f"expected probes of {about['dataset']} with {name} {wanted}"
            raise ValueError(f"{rule}, got {got} in {path}")
    return record


def _protocol(told: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    """The settings of the main comparison (tab:frozen-hyperparameters) by name, as they are wanted
    and as probes had them; where nothing is said, features were taken as they are."""
    about, usual = told["metadata"], asdict(ProbeConfig())
    dataset, given = about["dataset"], told.get("probe", usual)
    held_out = DATASETS[dataset].held_out if dataset in DATASETS else "test"
    found = [("held_out", held_out, about.get("held_out", held_out))]
    if about["imbalance"] not in (None, 1):
        # All images are another pool, other subsets are none.
        found.append(("imbalance", about["config"]["imbalance"], about["imbalance"]))
    if "encoder" in told["features"]:
        found.append(("encoder", main_encoder(dataset), told.get("encoder", "raw")))
    return found + [(name, usual[name], given[name]) for name in usual if name != "seed"]
