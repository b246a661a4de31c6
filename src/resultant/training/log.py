"""What is written down about a run after every epoch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from resultant._core import files
from resultant.classes.gain import realize
from resultant.classes.statistics import ClassState
from resultant.training.config import Run, TrainConfig

# Of every line of metrics.jsonl.
BEGINNING = b'{"run": '


def gain_metrics(config: TrainConfig, run: Run, state: ClassState) -> dict[str, float]:
    """The quantities of fig:training-gain and fig:c10-trajectory that the bank alone gives.

    ``gain`` is of the native score, ``applied`` of the realized one; ``intercept_drift`` is the
    mean absolute change of the scores at cosine zero.
    """
    tau = config.temperature
    native = realize(state, tau)
    realized = realize(state, tau, run.realization, run.beta, family=config.family)
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
    """The lines of metrics.jsonl that are whole: the last may not be, of a job that was killed
    while it wrote it. Another that is none is an error that names it."""
    lines = path.read_bytes().splitlines() if path.exists() else []
    found = []
    for number, line in enumerate(lines, start=1):
        try:
            values = json.loads(line)
            known = isinstance(values["run"], str) and isinstance(values["epoch"], int)
        except (ValueError, TypeError, KeyError, RecursionError):
            values, known = None, False
        if known:
            found.append(values)
        elif number < len(lines) or not BEGINNING.startswith(line[: len(BEGINNING)]):
            rule = f"expected the metrics of a run and epoch, a JSON object, at {path}:{number}"
            got = line[:40].decode("utf-8", "backslashreplace")
            mend = "put the file back, or start afresh in another folder"
            raise ValueError(f"{rule}, got {got!r}; {mend}")
    return found


class Metrics:
    """metrics.jsonl, a line for each run and epoch; on resuming, lines past the checkpoint go."""

    def __init__(
        self, config: TrainConfig, out: Path, first: int, tensorboard: bool = False
    ) -> None:
        self.config, self.path = config, out / "metrics.jsonl"
        self.last: dict[str, dict[str, Any]] = {}
        out.mkdir(parents=True, exist_ok=True)
        kept = [values for values in read_metrics(self.path) if values["epoch"] <= first]
        self.last |= {values["run"]: values for values in kept}
        files.write_text(self.path, "".join(json.dumps(values) + "\n" for values in kept))
        self.board: Any = None
        if tensorboard:
            from torch.utils.tensorboard import SummaryWriter

            # What an earlier job wrote past the checkpoint goes, as it does from the lines.
            self.board = SummaryWriter(out, purge_step=first + 1)

    def write(self, epoch: int, seen: list[dict[str, Any]]) -> None:
        lines = []
        for values in seen:
            values = dict(values)
            run, state = values.pop("run"), values.pop("state")
            values |= gain_metrics(self.config, run, state)
            rate = self.config.rate(epoch)
            values = {"run": run.name, "epoch": epoch + 1, "rate": rate, **values}
            best = max(
                values.get("accuracy", 0.0), self.last.get(run.name, {}).get("best_accuracy", 0.0)
            )
            if best:
                values["best_accuracy"] = best
            lines.append(json.dumps(values) + "\n")
            self.last[run.name] = values
            if self.board is not None:
                for name, value in values.items():
                    if isinstance(value, float):
                        self.board.add_scalar(f"{name}/{run.name}", value, epoch + 1)
        if self.board is not None:
            self.board.flush()
        with self.path.open("a") as file:
            file.write("".join(lines))
