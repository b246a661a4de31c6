"""Files of a training job: its checkpoint, and one file for each trained run."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from resultant._core import distributed, tensor_files
from resultant._core.files import replacing
from resultant._core.json_values import require_types
from resultant._core.network_files import CHECKPOINT
from resultant._core.validation import DivergedError
from resultant.networks.stacked_resnet import StackedResNet32
from resultant.training.config import Run, TrainConfig
from resultant.training.job import Job
from resultant.training.log import MetricsLog
from resultant.training.stack import LOWER, Stack

# The checkpoint before the last, used if the last is damaged.
PREVIOUS = f".previous-{CHECKPOINT}"
START_AGAIN = "choose another folder to start again"
# Seconds since the last checkpoint after which an epoch is saved in any case.
UNSAVED_SECONDS = 60.0
# Facts of a checkpoint by their names in the file; the last is ``concurrent_jobs``.
STORED = ("epoch", "seconds", "beside")


class Done(NamedTuple):
    """Epochs in a checkpoint, their seconds, and the most jobs that shared the device."""

    epoch: int
    seconds: float
    concurrent_jobs: int


class JobCheckpoint:
    """The checkpoint of a job: read at the start, written by the first process when it is due."""

    def __init__(self, job: Job, stacks: list[Stack]) -> None:
        self.job, self.stacks = job, stacks
        self.identity = {**job.identity, "images": stacks[0].batches.digest()}
        self.concurrent_jobs, self.saved_at = 0, 0.0

    def resume(self) -> Done:
        """Load the checkpoint into the stacks, if there is one.

        The first process reads the file and sends its content to the others, which may have other
        disks.

        Returns:
            The epochs trained so far, zero without a checkpoint.

        Raises:
            ValueError: If the checkpoint is broken or of another job.
        """
        done = Done(0, 0.0, 0)
        path = self.job.out / CHECKPOINT
        if distributed.rank() == 0 and path.exists():
            done = _load(path, self.identity, self.stacks)
        shared = torch.tensor(done, dtype=torch.float64, device=self.stacks[0].device)
        tensors = (a for stack in self.stacks for a in stack.tensors().values())
        distributed.broadcast_from_rank0(shared, *tensors)
        epoch, self.saved_at, concurrent = shared.tolist()
        self.concurrent_jobs = int(concurrent)
        if epoch < self.job.config.epochs:
            self.concurrent_jobs = max(self.concurrent_jobs, self.job.concurrent_jobs)
        return Done(int(epoch), self.saved_at, self.concurrent_jobs)

    def save_if_due(
        self, epoch: int, seconds: float, log: MetricsLog, required: bool = False
    ) -> bool:
        """Write the metrics, then the checkpoint, if ``epoch`` is to be saved.

        An epoch is saved if ``required``, and if the last checkpoint is old by epochs or by
        ``seconds`` of all epochs so far.

        Returns:
            True if this process has written the checkpoint.

        Raises:
            DivergedError: If a tensor is not finite.
        """
        last = epoch == self.job.config.epochs
        late = seconds - self.saved_at > UNSAVED_SECONDS
        due = required or last or late or epoch % self.job.checkpoint_every == 0
        if not due or distributed.rank() > 0:
            return False
        log.flush()
        self._save(Done(epoch, seconds, self.concurrent_jobs))
        self.saved_at = seconds
        return True

    def _save(self, done: Done) -> None:
        tensors = {
            f"{i}.{name}": a
            for i, stack in enumerate(self.stacks)
            for name, a in stack.tensors().items()
        }
        for name, a in tensors.items():
            # The last step may have diverged after a finite loss.
            if not a.isfinite().all():
                rule = f"expected finite values ({LOWER})"
                raise DivergedError(f"{rule}, got others in {name} after epoch {done.epoch}")
        facts = {**self.identity, **dict(zip(STORED, done, strict=True))}
        facts["class_names"] = list(self.job.class_names)
        path = self.job.out / CHECKPOINT
        # A file system without links keeps one checkpoint.
        with suppress(OSError), replacing(path.with_name(PREVIOUS)) as temporary:
            temporary.unlink()
            os.link(path, temporary)
        tensor_files.save(path, tensors, facts)


def _load(path: Path, identity: dict[str, Any], stacks: list[Stack]) -> Done:
    try:
        tensors, facts = _newest_whole(path)
    except ValueError as error:
        raise ValueError(f"{error}; {START_AGAIN}") from None
    if isinstance(facts.get("config"), dict):
        # An older file lacks later settings; they had the value that is now the default.
        facts["config"] = json.loads(json.dumps(asdict(TrainConfig()))) | facts["config"]
    own = json.loads(json.dumps(identity))
    for part, value in own.items():
        if facts.get(part) != value:
            difference = _difference(part, value, facts.get(part))
            raise ValueError(
                f"expected the checkpoint of this job, {difference} in {path}; {START_AGAIN}"
            )
    require_types(facts, {"epoch": int, "seconds": float, "beside": int}, f"in {path}")
    stored: list[Any] = [facts.get(name) for name in STORED]
    done = Done(*stored)
    if None in done or not 0 < done.epoch <= facts["config"]["epochs"] or not done.seconds >= 0:
        rule = f"expected epochs in (0, {facts['config']['epochs']}] and their seconds in {path}"
        raise ValueError(f"{rule}, got {done.epoch} and {done.seconds}; {START_AGAIN}")
    for i, stack in enumerate(stacks):
        prefix = f"{i}."
        stack.load({k.removeprefix(prefix): a for k, a in tensors.items() if k.startswith(prefix)})
    return done


def _newest_whole(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read a checkpoint, or the one before if it is damaged."""
    previous = path.with_name(PREVIOUS)
    try:
        return tensor_files.load(path)
    except ValueError as error:
        if not previous.exists():
            raise
        warnings.warn(f"{error}; training continues from the checkpoint before it", stacklevel=2)
    return tensor_files.load(previous)


def _difference(part: str, own: Any, other: Any) -> str:
    """Describe the difference between a part of this job's identity and that of the checkpoint."""
    if part == "images":
        return f"on the same images ({own[:12]}), got one on others ({str(other)[:12]})"
    if part == "runs":
        others = other if isinstance(other, list) else []
        lacking, more = (
            [_run_name(run) for run in these if run not in those]
            for these, those in ((own, others), (others, own))
        )
        parts = [
            f"{word} {', '.join(n)}" for word, n in (("without", lacking), ("with", more)) if n
        ]
        return f"got one {' and '.join(parts) or 'with its runs in another order'}"
    if isinstance(own, dict) and isinstance(other, dict):
        keys = sorted(k for k in own | other if other.get(k) != own.get(k))
        own, other = ({k: d.get(k) for k in keys} for d in (own, other))
    return f"{part} {own}, got {other}"


def _run_name(facts: Any) -> str:
    """Name a run of a checkpoint; facts that are no run of this version are shown in full."""
    valid = isinstance(facts, dict) and facts.keys() == asdict(Run()).keys()
    return Run(**facts).name if valid else str(facts)


def save_run(
    path: str | os.PathLike[str],
    config: TrainConfig,
    run: Run,
    stack: Stack,
    index: int,
    class_names: Sequence[str] = (),
) -> None:
    """Write one run of a stack: its network, and its banks as ``bank.old`` and ``bank.new``."""
    weights = stack.network.state_dict()
    if isinstance(stack.network, StackedResNet32):
        weights = {name: a[index] for name, a in weights.items()}
    bank = stack.proco.bank
    banks = {f"bank.{name}": bank.sums(bank=name)[index] for name in ("old", "new")}
    facts = {"config": asdict(config), "run": asdict(run), "num_classes": bank.per_run}
    facts["class_names"] = list(class_names)
    tensor_files.save(path, weights | banks, facts)


def one_run(
    tensors: dict[str, Tensor], facts: dict[str, Any], name: str | None, location: str
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Select one run of a job's checkpoint, as `save_run` would write it.

    Args:
        tensors: Tensors of the checkpoint.
        facts: JSON of the checkpoint.
        name: Name of the run; None for the only one.
        location: Path and run as given, for the error.

    Raises:
        ValueError: If the checkpoint has no run of that name.
    """
    runs = {Run(**run).name: run for run in facts["runs"]}
    names = list(runs)
    if name is None and len(names) == 1:
        name = names[0]
    if name not in runs:
        rule = f"expected one of {', '.join(names)} behind {CHECKPOINT} and a colon"
        raise ValueError(f"{rule}, got {location}")
    stack, index = divmod(names.index(name), facts["stack"])
    network, bank = f"{stack}.network.", f"{stack}.proco.bank."
    selected = {k.removeprefix(network): a for k, a in tensors.items() if k.startswith(network)}
    if facts["config"]["architecture"] == "resnet32":
        selected = {k: a[index] for k, a in selected.items()}
    for part in ("old", "new"):
        selected[f"bank.{part}"] = tensors[bank + part][index]
    kept = {key: facts[key] for key in ("config", "epoch")}
    kept["class_names"] = facts.get("class_names", [])
    return selected, kept | {"run": runs[name], "num_classes": len(selected["bank.old"])}
