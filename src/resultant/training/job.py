"""A training job, its progress, and its result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar

import torch
from torch import Tensor

from resultant._core.device import versions
from resultant.training.config import Run, TrainConfig
from resultant.training.trackers import require_tracker

LOWER = "a lower learning_rate may help"

OnStep = Callable[[float], object] | None


class Trainee(Protocol):
    """One run, or several that are trained together."""

    device: torch.device

    @property
    def stopped(self) -> bool: ...
    @property
    def digest(self) -> str: ...
    @property
    def contents(self) -> Tensor: ...
    @property
    def views(self) -> int: ...
    def open(self) -> None: ...
    def record(self, epoch: int) -> None: ...
    def draw(self, epoch: int) -> Any: ...
    def train_epoch(self, epoch: int, drawn: Any, on_step: OnStep) -> None: ...
    def rows(self) -> list[dict[str, Any]]: ...
    def tensors(self) -> dict[str, Tensor]: ...
    def load(self, tensors: dict[str, Tensor]) -> None: ...


T = TypeVar("T", bound=Trainee)


@dataclass(frozen=True)
class Job:
    """Runs of one configuration that are trained together; one run at a time on images.

    Attributes:
        config: Settings shared by all runs.
        runs: Realization, beta and seed of each run.
        out: Folder of the checkpoint, the metrics and the networks.
        checkpoint_every: Epochs between checkpoints; slow epochs and the last are always saved.
        test_every: Epochs between tests of the classifier; the last epoch is always tested.
        concurrent_jobs: Other jobs sharing the device; the recorded seconds include the sharing.
        log: Where the metrics go too: tensorboard, mlflow or wandb; None for the file alone.
        class_names: Names of the classes, kept with the networks; empty for none.

    Example:
        >>> from pathlib import Path
        >>> from resultant.training.config import Run, TrainConfig
        >>> from resultant.training.job import Job
        >>> job = Job(TrainConfig(), (Run("angular", beta=0.0),), Path("out"))
        >>> [run.name for run in job.runs]
        ['angular-beta0-seed0']
    """

    config: TrainConfig
    runs: tuple[Run, ...]
    out: Path
    checkpoint_every: int = 10
    test_every: int = 1
    concurrent_jobs: int = 0
    log: str | None = None
    class_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.runs:
            raise ValueError("expected one run or more, got none")
        for name in ("checkpoint_every", "test_every"):
            if (got := getattr(self, name)) < 1:
                raise ValueError(f"expected {name} >= 1, got {got}")
        repeated = [n for n, times in Counter(run.name for run in self.runs).items() if times > 1]
        if repeated:
            raise ValueError(f"expected different runs, got {', '.join(sorted(repeated))} twice")
        require_tracker(self.log)

    def on(self, device: torch.device) -> Self:
        """Return the job for a device: in float32 on all devices but GPUs."""
        if device.type == "cuda":
            return self
        return replace(self, config=replace(self.config, precision="float32"))

    def identity(self) -> dict[str, Any]:
        """Return what a checkpoint of this job has, and one of another job has otherwise."""
        return {"config": asdict(self.config), "runs": [asdict(run) for run in self.runs]}

    def logged_at(self) -> dict[str, tuple[int, ...]]:
        """Return the epochs after which metrics beyond those of every epoch are logged, by name."""
        return {}


@dataclass
class Progress:
    """Progress of a job after an epoch."""

    epoch: int  # epochs trained by this call
    epochs: int  # epochs that this call trains in all
    seconds: float  # of this call so far
    views_per_second: float  # augmented images per second, over all runs
    loss: dict[str, float] = field(default_factory=dict)  # mean of the epoch by name of the run
    before: int = 0  # epochs of earlier calls, continued by this one
    saved: bool = False  # True if this process has saved the epoch in a checkpoint
    accuracy: dict[str, float] = field(default_factory=dict)  # on held-out images, by name

    @property
    def seconds_left(self) -> float:
        return self.seconds / max(1, self.epoch) * (self.epochs - self.epoch)

    @property
    def resumed(self) -> str:
        """A sentence on the epochs of earlier calls, for display before the first epoch."""
        total = self.before + self.epochs
        if self.epochs:
            return f"continues after epoch {self.before}/{total}"
        return f"already trained to epoch {total}/{total}"


@dataclass(frozen=True, eq=False)
class Trained(Generic[T]):
    """A finished job."""

    job: Job
    trainee: T
    metrics: dict[str, dict[str, Any]]  # of the last epoch by name of the run
    seconds: float  # of all epochs
    earlier: float  # seconds of the earlier calls that this one continued
    concurrent_jobs: int  # most jobs that shared the device with any of these calls

    def records(self, train_images: int) -> list[dict[str, Any]]:
        """Return one record per run: its settings, its time and its last epoch."""
        return [
            {
                "run": run.name,
                **asdict(run),
                "config": asdict(self.job.config),
                "train_images": train_images,
                "images": self.trainee.digest,
                "versions": versions(self.trainee.device),
                "job_runs": len(self.job.runs),
                "job_seconds": self.seconds,
                # Existing records have this name.
                "beside": self.concurrent_jobs,
                "last": self.metrics.get(run.name, {}),
            }
            for run in self.job.runs
        ]
