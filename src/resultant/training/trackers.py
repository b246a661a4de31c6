"""The metrics of a training in TensorBoard, MLflow or Weights & Biases, by their own packages and
their own settings (such as ``MLFLOW_TRACKING_URI`` and ``WANDB_MODE``)."""

import importlib.util
import json
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

# The file with the run of a tracker, which a resumed job continues.
IDENTITY = "tracker.json"


class Tracker(Protocol):
    """One run of a tracker."""

    def write(self, values: Mapping[str, float], run: str, epoch: int) -> None:
        """Write the numbers of an epoch of a run."""
        ...

    def close(self) -> None:
        """End the run."""
        ...


class TensorBoard:
    """Events in the folder of the job; those after the checkpoint of a resumed job are removed."""

    def __init__(self, out: Path, settings: Mapping[str, Any], first: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(out, purge_step=first + 1)

    def write(self, values: Mapping[str, float], run: str, epoch: int) -> None:
        for name, value in named(values, run).items():
            self.writer.add_scalar(name, value, epoch)
        self.writer.flush()

    def close(self) -> None:
        self.writer.close()


class MLflow:
    """A run of MLflow, with the settings as its parameters."""

    def __init__(self, out: Path, settings: Mapping[str, Any], first: int) -> None:
        self.mlflow: Any = import_module("mlflow")
        known = identity(out, "mlflow") if first else None
        name = None if known else out.name
        run = self.mlflow.start_run(run_id=known, run_name=name)
        keep_identity(out, "mlflow", run.info.run_id)
        if known is None:
            self.mlflow.log_params(dict(settings))

    def write(self, values: Mapping[str, float], run: str, epoch: int) -> None:
        self.mlflow.log_metrics(named(values, run), step=epoch)

    def close(self) -> None:
        self.mlflow.end_run()


class WandB:
    """A run of Weights & Biases, with the settings as its configuration."""

    def __init__(self, out: Path, settings: Mapping[str, Any], first: int) -> None:
        wandb: Any = import_module("wandb")
        known = identity(out, "wandb") if first else None
        name = None if known else out.name
        self.run = wandb.init(
            dir=str(out), name=name, id=known, resume="allow", config=dict(settings)
        )
        keep_identity(out, "wandb", self.run.id)

    def write(self, values: Mapping[str, float], run: str, epoch: int) -> None:
        self.run.log(named(values, run), step=epoch)

    def close(self) -> None:
        self.run.finish()


TRACKERS: dict[str, Callable[[Path, Mapping[str, Any], int], Tracker]] = {
    "tensorboard": TensorBoard,
    "mlflow": MLflow,
    "wandb": WandB,
}


def named(values: Mapping[str, float], run: str) -> dict[str, float]:
    """Return the numbers of a run, whose job may have several, by ``NAME/RUN``."""
    return {f"{name}/{run}": value for name, value in values.items()}


def require_tracker(name: str | None) -> None:
    """Raise unless the package of a tracker is installed."""
    if name is None:
        return
    if name not in TRACKERS:
        raise ValueError(f"expected log to be one of {', '.join(TRACKERS)}, got {name!r}")
    if importlib.util.find_spec(name) is None:
        raise ValueError(f"expected {name}: pip install {name}")


def identity(out: Path, tracker: str) -> str | None:
    """Return the run of an interrupted job, None if there is none."""
    path = out / IDENTITY
    return json.loads(path.read_text()).get(tracker) if path.exists() else None


def keep_identity(out: Path, tracker: str, run: str) -> None:
    """Name the run of a job."""
    (out / IDENTITY).write_text(json.dumps({tracker: run}))
