"""The training loop (alg:controlled-training): many runs side by side, resumable.

Everything random about an epoch follows from (seed, epoch). A job that was killed continues from
its last checkpoint to the same result, bit for bit on a CPU. Runs of one seed start from the same
weights and see the same batches and augmentations, for every realization.
"""

import math
import time
from collections.abc import Callable, Sequence

import torch

from resultant._core import distributed, termination
from resultant._core.files import lock_folder
from resultant._core.validation import DivergedError
from resultant.training.checkpoints import JobCheckpoint
from resultant.training.evaluation import Hook, Rows
from resultant.training.job import Job, Progress, Trained
from resultant.training.log import MetricsLog
from resultant.training.stack import LOWER, Stack, side_by_side

OnProgress = Callable[[Progress], object] | None
OnStep = Callable[[float], object] | None


def train(
    job: Job,
    stacks: list[Stack],
    hooks: Sequence[Hook] = (),
    on_progress: OnProgress = None,
    on_step: OnStep = None,
) -> Trained:
    """Train the stacks of a job to its last epoch, from its checkpoint if there is one.

    The first process writes ``metrics.jsonl``, ``checkpoint.safetensors``, and at the end
    ``RUN.safetensors`` of each run to ``job.out``. ``on_progress`` is called after every epoch, and
    with epoch 0 when a checkpoint is continued; ``on_step`` with the finished share of an epoch. A
    DivergedError leaves the last checkpoint; a TerminatedError (SIGTERM) comes after a saved epoch.
    """
    with lock_folder(job.out, distributed.rank()):
        checkpoint = JobCheckpoint(job, stacks)
        first, earlier = checkpoint.epoch, checkpoint.seconds
        log = MetricsLog(job, first)
        if on_progress is not None and first:
            on_progress(Progress(0, job.config.epochs - first, 0.0, 0.0, before=first))
        seconds = earlier
        if first < job.config.epochs:
            for stack in stacks:
                stack.batches.open()
            with termination.deferred():
                seconds = _train_epochs(stacks, hooks, checkpoint, log, on_progress, on_step)
        if distributed.rank() == 0:
            checkpoint.save_runs()
        return Trained(job, stacks, log.last, seconds, earlier, checkpoint.concurrent_jobs)


def _train_epochs(
    stacks: Sequence[Stack],
    hooks: Sequence[Hook],
    checkpoint: JobCheckpoint,
    log: MetricsLog,
    on_progress: OnProgress,
    on_step: OnStep,
) -> float:
    """Train the epochs that are left; return the seconds of all epochs, earlier ones included."""
    config, first, earlier = checkpoint.job.config, checkpoint.epoch, checkpoint.seconds
    epochs, steps, cuda = config.epochs, stacks[0].batches.steps, stacks[0].device.type == "cuda"
    views = sum(steps * len(stack.runs) for stack in stacks) * config.batch_size * config.views
    if cuda:
        for stack in stacks:
            stack.capture(first)
        torch.cuda.synchronize()
        # Short steps are launched ahead of the device.
        on_step = None if stacks[0].small else on_step
    began, seconds = time.perf_counter(), 0.0
    drawn = [stack.batches.draw(first) for stack in stacks]
    for epoch in range(first, epochs):
        for stack, batches in zip(stacks, drawn, strict=True):
            stack.start_epoch(epoch)
            stack.batches.load(batches)
        with side_by_side(stacks):
            for step in range(steps):
                for stack in stacks:
                    stack.replay()
                if on_step is not None:
                    on_step((step + 1) / steps)

        # The device is still working: draw the next epoch.
        if epoch + 1 < epochs:
            drawn = [stack.batches.draw(epoch + 1) for stack in stacks]

        rows = measure(stacks, epoch + 1)
        for hook in hooks:
            hook(epoch + 1, stacks, rows)
        log.write(epoch, rows)

        seconds = time.perf_counter() - began
        ends = any(distributed.all_gather_int(int(termination.requested())))
        saved = checkpoint.save_if_due(epoch + 1, earlier + seconds, ends)
        if on_progress is not None:
            losses, done = {row["run"].name: row["loss"] for row in rows}, epoch + 1 - first
            speed = views * done / seconds
            on_progress(Progress(done, epochs - first, seconds, speed, losses, first, saved))
        if ends and epoch + 1 < epochs:
            raise termination.TerminatedError(f"saved after epoch {epoch + 1}/{epochs}")
    return earlier + seconds


def measure(stacks: Sequence[Stack], epoch: int) -> Rows:
    """Return one row per run: ``run``, mean ``loss`` and class ``state``, on the CPU."""
    rows: Rows = []
    for stack in stacks:
        mean = stack.total / (stack.batches.steps * distributed.world_size())
        losses = distributed.all_reduce_sum(mean).tolist()
        for index, (run, loss) in enumerate(zip(stack.runs, losses, strict=True)):
            rows.append({"run": run, "loss": loss, "state": stack.proco.state(index).to("cpu")})
    # A target gain without a temperature explains a lost loss, and is reported first.
    for stack in stacks:
        stack.proco.check()
    lost = [f"{row['loss']} of {row['run'].name}" for row in rows if not math.isfinite(row["loss"])]
    if lost:
        rule = f"expected a finite loss ({LOWER})"
        raise DivergedError(f"{rule}, got {', '.join(lost)} in epoch {epoch}")
    return rows
