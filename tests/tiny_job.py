"""Two runs on a few small images, trained in a moment, and the metrics that they wrote."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from resultant.training.config import Run, TrainConfig
from resultant.training.job import Job, Progress
from tiny_cifar import tiny_cifar, tiny_config

DATA = tiny_cifar(each=6, size=8)
TWO = (Run("native", seed=1), Run("angular", 0.5, 0))


def config(**changes: Any) -> TrainConfig:
    """Two steps of six images per epoch."""
    return tiny_config(**({"batch_size": 6} | changes))


def joint_job(out: Path, **changes: Any) -> Job:
    """Four epochs with a classifier and a third view; a checkpoint after every other epoch."""
    joint = config(objective="joint", classification_view=True, epochs=4, **changes)
    return Job(joint, TWO, out, checkpoint_every=2)


def stop_after(epoch: int) -> Callable[[Progress], None]:
    """Interrupt a job after an epoch."""

    def stop(progress: Progress) -> None:
        if progress.epoch == epoch:
            raise KeyboardInterrupt

    return stop


def metrics(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
