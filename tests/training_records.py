"""Records of trainings that are made up."""

from __future__ import annotations

import json
from dataclasses import asdict, astuple
from typing import Any

from resultant.training.config import TrainConfig
from resultant_reproduction.plan import PlannedJob


def record(
    config: TrainConfig, realization: str, beta: float, seed: int, **more: Any
) -> dict[str, Any]:
    """A training as it is written and read, with what ``more`` it has."""
    records = {"realization": realization, "beta": beta, "seed": seed, "config": asdict(config)}
    return json.loads(json.dumps(records | more))


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
