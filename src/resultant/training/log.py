"""The metrics of a training job: one line of JSON per run and epoch."""

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from resultant._core import distributed, files
from resultant._core.files import parse_json
from resultant.classes.rule import Rule
from resultant.classes.scores import realize
from resultant.classes.statistics import ClassState
from resultant.training.config import Run, TrainConfig
from resultant.training.job import Job
from resultant.training.records import require_types
from resultant.training.trackers import TRACKERS, Tracker

# Types of the entries of a line of metrics.jsonl, and the beginning of every line.
KINDS = {"run": str, "epoch": int, "loss": float, "accuracy": float, "best_accuracy": float}
BEGINNING = b'{"run": '


def gain_metrics(config: TrainConfig, run: Run, state: ClassState) -> dict[str, float]:
    """Compute the quantities of fig:training-gain and fig:c10-trajectory from the class state."""
    native = realize(state, Rule(config.temperature))
    realized = realize(state, run.rule(config))
    g, applied, zero = native.gain(), realized.gain(), torch.zeros_like(state.kappa)
    drift = (realized.at(zero) - native.at(zero)).abs().mean()
    return {
        "gain_mean": float(g.mean()),
        "gain_sd": float(g.std()),
        "applied_gain_sd": float(applied.std()),
        "kappa_min": float(state.kappa.min()),
        "kappa_max": float(state.kappa.max()),
        "intercept_drift": float(drift),
    }


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Read the lines of metrics.jsonl without a last line that a killed job wrote in part."""
    lines = files.read_bytes(path).splitlines() if path.exists() else []
    rows = []
    for number, line in enumerate(lines, start=1):
        try:
            values = parse_json(line)
            require_types(values, KINDS, "here")
            _ = values["run"], values["epoch"]
        except (ValueError, KeyError):
            if number == len(lines) and BEGINNING.startswith(line[: len(BEGINNING)]):
                break
            rule = f"expected the metrics of a run and epoch, a JSON object, at {path}:{number}"
            got = line[:40].decode("utf-8", "backslashreplace")
            remedy = "restore the file, or start again in another folder"
            raise ValueError(f"{rule}, got {got!r}; {remedy}") from None
        rows.append(values)
    return rows


class MetricsLog:
    """The file metrics.jsonl, written by the first process only, and the values for a tracker."""

    def __init__(self, job: Job, first: int) -> None:
        self.config, self.path = job.config, job.out / "metrics.jsonl"
        self.last: dict[str, dict[str, Any]] = {}
        self.writes = distributed.rank() == 0
        self.tracker: Tracker | None = None
        if not self.writes:
            return
        kept = [values for values in read_metrics(self.path) if values["epoch"] <= first]
        self.last |= {values["run"]: values for values in kept}
        files.write_text(self.path, "".join(json.dumps(values) + "\n" for values in kept))
        # Values of epochs that are already trained cannot be computed any more.
        ended = (first,) if first == job.config.epochs else ()
        wanted: dict[str, tuple[tuple[int, ...], str]] = {"loss": (ended, "restore the file")}
        for name, epochs in job.logged_at().items():
            past = tuple(epoch for epoch in epochs if epoch <= first)
            wanted[name] = past, "request later epochs"
        for name, (epochs, remedy) in wanted.items():
            logged = {(row["run"], row["epoch"]) for row in kept if name in row}
            lacking = [e for e in epochs if any((run.name, e) not in logged for run in job.runs)]
            if lacking:
                rule = f"expected {name} of all runs after epoch {', '.join(map(str, lacking))}"
                rule += f" in {self.path}, got a job that has passed it without"
                raise ValueError(f"{rule}; {remedy}, or start again in another folder")
        if job.log is not None and not ended:
            settings = {**asdict(job.config), **asdict(job.runs[0])}
            self.tracker = TRACKERS[job.log](job.out, settings, first)

    def write(self, epoch: int, rows: list[dict[str, Any]]) -> None:
        """Write the rows of an epoch, one per run, with the gains of its classes."""
        if not self.writes:
            return
        lines = []
        for values in rows:
            values = dict(values)
            run, state = values.pop("run"), values.pop("state")
            values |= gain_metrics(self.config, run, state)
            rate = self.config.rate(epoch)
            values = {"run": run.name, "epoch": epoch + 1, "rate": rate, **values}
            before = self.last.get(run.name, {}).get("best_accuracy", 0.0)
            if best := max(values.get("accuracy", 0.0), before):
                values["best_accuracy"] = best
            lines.append(json.dumps(values) + "\n")
            self.last[run.name] = values
            if self.tracker is not None:
                # A job may have several runs.
                numbers = {f"{k}/{run.name}": v for k, v in values.items() if isinstance(v, float)}
                self.tracker.write(numbers, epoch + 1)
        with self.path.open("a") as file:
            file.write("".join(lines))
            file.flush()
            # A checkpoint of this epoch must not survive a power failure without these lines.
            os.fsync(file.fileno())

    def close(self) -> None:
        """End the run of the tracker."""
        if self.tracker is not None:
            self.tracker.close()
