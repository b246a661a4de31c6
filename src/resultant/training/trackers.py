"""The metrics of a training in TensorBoard, MLflow or Weights & Biases, by their own packages and
their own settings (such as ``MLFLOW_TRACKING_URI`` and ``WANDB_MODE``)."""

import importlib.util
import json
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

# The file with the run of a tracker, which a resumed job continues.
IDENTITY = "tracker.json"


class Tracker(NamedTuple):
    """One run of a tracker."""

    write: Callable[[dict[str, float], int], object]  # takes the numbers of an epoch, and the epoch
    close: Callable[[], object]


def tensorboard(out: Path, settings: Mapping[str, Any], first: int) -> Tracker:
    """Write events to the folder of the job; those after the checkpoint of a resumed job go."""
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(out, purge_step=first + 1)

    def write(values: dict[str, float], epoch: int) -> None:
        for name, value in values.items():
            writer.add_scalar(name, value, epoch)
        writer.flush()

    return Tracker(write, writer.close)


def mlflow(out: Path, settings: Mapping[str, Any], first: int) -> Tracker:
    """Begin a run of MLflow, with the settings as its parameters, or continue one."""
    package: Any = import_module("mlflow")
    known = identity(out, "mlflow") if first else None
    run = package.start_run(run_id=known, run_name=None if known else out.name)
    keep_identity(out, "mlflow", run.info.run_id)
    if known is None:
        package.log_params(dict(settings))
    return Tracker(lambda v, epoch: package.log_metrics(v, step=epoch), package.end_run)


def wandb(out: Path, settings: Mapping[str, Any], first: int) -> Tracker:
    """Begin a run of Weights & Biases, with the settings as its configuration, or continue one."""
    package: Any = import_module("wandb")
    known = identity(out, "wandb") if first else None
    name = None if known else out.name
    run = package.init(dir=str(out), name=name, id=known, resume="allow", config=dict(settings))
    keep_identity(out, "wandb", run.id)
    return Tracker(lambda values, epoch: run.log(values, step=epoch), run.finish)


TRACKERS = {"tensorboard": tensorboard, "mlflow": mlflow, "wandb": wandb}


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
