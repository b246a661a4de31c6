"""Records of trainings that are made up, and tab:angular-training from records."""

import json
from dataclasses import asdict, astuple
from typing import Any

from resultant_reproduction import Outcome, Records
from resultant_reproduction.recipes.config import PaperConfig
from resultant_reproduction.runs.plans import PlannedJob
from resultant_reproduction.runs.records import probe_path
from resultant_reproduction.studies.tables import realizations


def record(
    config: PaperConfig, realization: str, beta: float, seed: int, **more: Any
) -> dict[str, Any]:
    """A training as it is written and read, with what ``more`` it has."""
    records = {"realization": realization, "beta": beta, "seed": seed, "config": asdict(config)}
    return json.loads(json.dumps(records | more))


def probed(config: PaperConfig, realization: str, seed: int, accuracy: float) -> dict[str, Any]:
    """A record of a training with long-tail probes, the same in both spaces."""
    spaces = {name: {"accuracy": accuracy} for name in ("encoder", "projection")}
    return record(config, realization, 0.0, seed, probes={"long_tail": spaces})


def left_by(job: PlannedJob, plan: str) -> list[dict[str, Any]]:
    """Records with the parts that a job leaves, all but the trajectory empty."""
    pools = {"long_tail": {}, "balanced": {}}
    epochs = list(job.diagnosed)
    errors = {"gradient_error": [0.5 for _ in epochs], "increment_error": [{} for _ in epochs]}
    return [
        record(job.config, *astuple(run), plan=plan, probes=pools)
        | ({"analysis": {}} if run.realization in job.analyzed else {})
        | ({"ended": {}} if run.realization in job.ended else {})
        | ({"trajectory": {"epoch": epochs, **errors}} if epochs else {})
        for run in job.runs
    ]


def angular_training(records: Records) -> Outcome:
    """tab:angular-training from given records."""
    return realizations(records, "angular-training", probe_path)
