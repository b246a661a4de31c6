"""A training job, its progress, and its result."""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from resultant.training.config import STACK, Run, TrainConfig
from resultant.training.stack import Stack


@dataclass(frozen=True)
class Job:
    """Runs of one configuration that are trained together.

    Attributes:
        config: Settings shared by all runs.
        runs: Realization, beta and seed of each run.
        out: Folder of the checkpoint, the metrics and the networks.
        checkpoint_every: Epochs between checkpoints; slow epochs and the last are always saved.
        test_every: Epochs between tests of the classifier; the last epoch is always tested.
        gradient_epochs: Epochs after which leading and exact gradients are compared.
        stack: Largest number of runs in one network.
        concurrent_jobs: Other jobs sharing the device; the recorded seconds include the sharing.
        tensorboard: Write the metrics for TensorBoard too.
        class_names: Names of the classes, kept with the networks; empty for none.

    Example:
        >>> from pathlib import Path
        >>> from resultant.training.config import Run, TrainConfig
        >>> from resultant.training.job import Job
        >>> runs = (Run("native"), Run("angular", beta=0.0))
        >>> [run.name for run in Job(TrainConfig(), runs, Path("out")).runs]
        ['native-seed0', 'angular-beta0-seed0']
    """

    config: TrainConfig
    runs: tuple[Run, ...]
    out: Path
    checkpoint_every: int = 10
    test_every: int = 1
    gradient_epochs: tuple[int, ...] = ()
    stack: int = STACK
    concurrent_jobs: int = 0
    tensorboard: bool = False
    class_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.runs:
            raise ValueError("expected one run or more, got none")
        for name in ("checkpoint_every", "test_every", "stack"):
            if (got := getattr(self, name)) < 1:
                raise ValueError(f"expected {name} >= 1, got {got}")
        for epoch in self.gradient_epochs:
            if not 1 <= epoch <= self.config.epochs:
                rule = f"expected gradient epochs in [1, {self.config.epochs}]"
                raise ValueError(f"{rule}, got {epoch}")
        edited = [run.name for run in self.runs if run.realization != "native"]
        if edited and self.config.contrastive != "proco":
            rule = f"expected native runs of {self.config.contrastive}, which has no gains to edit"
            raise ValueError(f"{rule}, got {edited[0]}")
        repeated = [n for n, times in Counter(run.name for run in self.runs).items() if times > 1]
        if repeated:
            raise ValueError(f"expected different runs, got {', '.join(sorted(repeated))} twice")
        if self.tensorboard and importlib.util.find_spec("tensorboard") is None:
            raise ValueError("expected tensorboard: pip install tensorboard")
        # Runs of one seed read the same images and must be neighbours in a stack.
        object.__setattr__(self, "runs", tuple(sorted(self.runs, key=lambda run: run.seed)))

    def on(self, device: torch.device) -> Job:
        """Return the job for a device: in float32 on all devices but GPUs."""
        if device.type == "cuda":
            return self
        return replace(self, config=replace(self.config, precision="float32"))


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
class Trained:
    """A finished job."""

    job: Job
    stacks: list[Stack]
    metrics: dict[str, dict[str, Any]]  # of the last epoch by name of the run
    seconds: float  # of all epochs
    earlier: float  # seconds of the earlier calls that this one continued
    concurrent_jobs: int  # most jobs that shared the device with any of these calls

    def networks(self) -> Iterator[tuple[Run, Stack, int]]:
        """Yield every run with its stack and its index in the stack."""
        for stack in self.stacks:
            for index, run in enumerate(stack.runs):
                yield run, stack, index
