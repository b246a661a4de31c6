"""The training loop (alg:controlled-training): many runs side by side, resumable.

All that is random about an epoch follows from (seed, epoch), so a job that was killed continues
from its last checkpoint to the result it would have had, bit for bit on a CPU. Runs of one seed
see the same weights at the start, the same batches and the same augmentations, whatever their
realization.
"""

from __future__ import annotations

import importlib.util
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from resultant._core import distributed
from resultant._core.device import device_of
from resultant._core.precision import full_precision
from resultant._core.validation import DivergedError
from resultant.classes.gain import realize
from resultant.decisions.geometry import loss_gradient, mean_relative_error, stacked_relative_error
from resultant.images.augment import normalize
from resultant.images.cifar import Cifar
from resultant.networks.models import Outputs, StackedResNet32, patches
from resultant.training.batches import CifarBatches
from resultant.training.checkpoints import (
    Done,
    lock_folder,
    require_metrics,
    resume,
    save,
    save_run,
)
from resultant.training.config import STACK, Run, TrainConfig
from resultant.training.log import Metrics
from resultant.training.stack import LOWER, Stack

# Images that pass through a network at a time when it is not trained.
PIECE = 2500
# Queries of the gradient diagnostic.
QUERIES = 512
# Seconds since the last checkpoint after which the end of an epoch is saved in any case.
UNSAVED = 60.0

# What a classifier reaches on held-out images: numbers by name for each run of a stack.
Test = Callable[[Stack], list[dict[str, float]]]
# What else is asked after `gradient_epochs`: values by name for each run of a stack, from its
# projections [runs, n, p] of the queries and their labels [n], both on the CPU.
Diagnostic = Callable[[Stack, Tensor, Tensor], list[dict[str, Any]]]


@dataclass(frozen=True)
class Job:
    """Runs of one configuration that are trained together, and where their files go.

    A checkpoint is written every ``checkpoint_every`` epochs, and more often if these take minutes;
    a classifier is tested every ``test_every``; both always after the last. ``gradient_epochs`` are
    those after which leading and exact gradients are compared. So many other jobs are ``beside`` it
    on the device: its seconds are not what the device takes for it alone.
    """

    config: TrainConfig
    runs: tuple[Run, ...]
    out: Path
    checkpoint_every: int = 10
    test_every: int = 1
    gradient_epochs: tuple[int, ...] = ()
    stack: int = STACK
    beside: int = 0
    tensorboard: bool = False

    def __post_init__(self) -> None:
        if not self.runs:
            raise ValueError("expected one run or more, got none")
        for name in ("checkpoint_every", "test_every", "stack"):
            if getattr(self, name) < 1:
                raise ValueError(f"expected {name} >= 1, got {getattr(self, name)}")
        for epoch in self.gradient_epochs:
            if not 1 <= epoch <= self.config.epochs:
                rule = f"expected gradient epochs in [1, {self.config.epochs}]"
                raise ValueError(f"{rule}, got {epoch}")
        names = [run.name for run in self.runs]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise ValueError(f"expected different runs, got {', '.join(sorted(twice))} twice")
        if self.tensorboard and importlib.util.find_spec("tensorboard") is None:
            raise ValueError("expected tensorboard: pip install tensorboard")
        # Runs of one seed read the same images, and so stand together.
        order = sorted(self.runs, key=lambda run: run.seed)
        object.__setattr__(self, "runs", tuple(order))

    @property
    def identity(self) -> dict[str, Any]:
        """What a checkpoint must agree in to be continued."""
        runs = [asdict(run) for run in self.runs]
        return {"config": asdict(self.config), "runs": runs, "stack": self.stack}

    def on(self, device: torch.device) -> Job:
        """The job as it is done on a device: in float32 unless that is a GPU."""
        if device.type == "cuda":
            return self
        return replace(self, config=replace(self.config, precision="float32"))


@dataclass
class Progress:
    """Where a job stands, for those who watch it."""

    epoch: int
    epochs: int
    seconds: float
    views_a_second: float
    loss: dict[str, float] = field(default_factory=dict)
    before: int = 0
    """Epochs of an earlier job that this one continues; not counted in the others."""
    saved: bool = False
    """Whether the epoch is in a checkpoint of this process."""

    @property
    def seconds_left(self) -> float:
        return self.seconds / max(1, self.epoch) * (self.epochs - self.epoch)

    @property
    def resumed(self) -> str:
        """What an earlier job has done, for before the first epoch of this one."""
        of = self.before + self.epochs
        left = f"goes on after epoch {self.before}/{of}"
        return left if self.epochs else f"{of} of {of} epochs are trained already"


@dataclass(frozen=True, eq=False)
class Trained:
    """The end of a job: the stacks with their networks, and the metrics of the last epoch.

    ``seconds`` are those of all epochs, ``earlier`` ones of them those of calls that this one
    continued; ``beside`` are the most jobs that were so in any of them.
    """

    job: Job
    stacks: list[Stack]
    metrics: dict[str, dict[str, Any]]
    seconds: float
    earlier: float
    beside: int

    def networks(self) -> Iterator[tuple[Run, Stack, int]]:
        """Every run with the stack it is in and its place there."""
        for stack in self.stacks:
            for place, run in enumerate(stack.runs):
                yield run, stack, place


def train_cifar(
    job: Job,
    data: Cifar,
    device: torch.device | str = "cpu",
    watch: Callable[[Progress], object] | None = None,
    diagnostic: Diagnostic | None = None,
    tick: Callable[[float], object] | None = None,
) -> Trained:
    """Train every run of a job on a long-tailed CIFAR subset; see `train`."""
    device = torch.device(device)
    job = job.on(device)
    config = job.config
    if data.dataset not in (None, config.dataset):
        raise ValueError(f"expected images of {config.dataset}, got those of {data.dataset}")
    members = data.members(config.imbalance, config.subset)
    images = data.images_at(members).to(device)
    labels = data.train_labels[members].to(device)
    counts = torch.bincount(labels.cpu(), minlength=data.num_classes)
    dtype = getattr(torch, config.precision)

    def build(runs: Sequence[Run]) -> Stack:
        seeds = [run.seed for run in runs]
        batches = CifarBatches(
            *(images, labels, seeds, config.batch_size, config.classification_view, dtype),
            contrastive=config.contrastive_view,
        )
        return Stack(config, runs, batches, counts, device)

    stacks = [build(job.runs[top : top + job.stack]) for top in range(0, len(job.runs), job.stack)]
    held_out = data.test_images.to(device), data.test_labels.to(device)
    test = partial(_test, *held_out)
    # Streams and graphs are those of the current device.
    with device_of(images):
        return train(job, stacks, (images, labels), test, watch, diagnostic, tick)


def train(
    job: Job,
    stacks: list[Stack],
    queries: tuple[Tensor, Tensor] | None = None,
    test: Test | None = None,
    watch: Callable[[Progress], object] | None = None,
    diagnostic: Diagnostic | None = None,
    tick: Callable[[float], object] | None = None,
) -> Trained:
    """Train the stacks of a job to its last epoch, from its checkpoint where there is one.

    ``job.out`` gets ``metrics.jsonl``, a line for each run and epoch, ``checkpoint.safetensors``,
    and at the end ``RUN.safetensors`` with the network and banks of each run, all written by the
    first process if there are several. ``queries`` are the training images of the gradient
    diagnostic, of which ``diagnostic`` may say more; ``test`` is asked of the stacks that have a
    classifier. ``watch`` is called after every epoch, and with epoch 0 where a checkpoint is
    continued; ``tick`` with the share of an epoch that is done, at every step that is not part of a
    graph. A run that diverges is an error, which leaves the last checkpoint as it is; so is a
    checkpoint whose metrics lack what is asked for, and a folder in which another job is at work.
    """
    with lock_folder(job.out):
        return _train(job, stacks, queries, test, watch, diagnostic, tick)


def _train(
    job: Job,
    stacks: list[Stack],
    queries: tuple[Tensor, Tensor] | None,
    test: Test | None,
    watch: Callable[[Progress], object] | None,
    diagnostic: Diagnostic | None,
    tick: Callable[[float], object] | None,
) -> Trained:
    config, device = job.config, stacks[0].device
    identity = {**job.identity, "images": stacks[0].batches.digest()}
    first, earlier, beside = resume(job.out, identity, stacks)
    beside = max(beside, job.beside if first < config.epochs else 0)
    metrics = None
    if distributed.rank() == 0:
        metrics = Metrics(config, job.out, first, job.tensorboard)
        past = [epoch for epoch in job.gradient_epochs if epoch <= first]
        require_metrics(metrics.path, job.runs, "gradient_error", past, "ask for later epochs")
        ended = [first] if first == config.epochs else []
        require_metrics(metrics.path, job.runs, "loss", ended, "put the file back")
    if watch is not None and first:
        watch(Progress(0, config.epochs - first, 0.0, 0.0, before=first))
    if device.type == "cuda" and config.architecture == "resnet32" and first < config.epochs:
        for stack in stacks:
            stack.batches.load(stack.batches.draw(first))
            stack.capture()
        torch.cuda.synchronize()
    streams = [stack.stream for stack in stacks]
    began, seconds, saved_at = time.perf_counter(), earlier, earlier
    drawn = [stack.batches.draw(first) for stack in stacks]
    finished: tuple[int, list[dict[str, Any]]] | None = None
    for epoch in range(first, config.epochs):
        for stack, epoch_drawn in zip(stacks, drawn, strict=True):
            stack.start_epoch(epoch)
            stack.batches.load(epoch_drawn)
        for stream in streams:
            if stream is not None:
                stream.wait_stream(torch.cuda.current_stream())
        steps = stacks[0].batches.steps
        for step in range(steps):
            for stack, stream in zip(stacks, streams, strict=True):
                with torch.cuda.stream(stream):
                    stack.replay()
            if tick is not None and stacks[0].graph is None:
                tick((step + 1) / steps)
        for stream in streams:
            if stream is not None:
                torch.cuda.current_stream().wait_stream(stream)
        # While the device works: the next epoch's draws, and the metrics of the one before.
        if epoch + 1 < config.epochs:
            drawn = [stack.batches.draw(epoch + 1) for stack in stacks]
        if metrics is not None and finished is not None:
            metrics.write(*finished)
        seen = [snapshot for stack in stacks for snapshot in snapshots(stack)]
        # First what says why a loss is lost.
        for stack in stacks:
            stack.proco.check()
        _require_finite(seen, epoch + 1)
        last = epoch + 1 == config.epochs
        if test is not None and (last or (epoch + 1) % job.test_every == 0):
            _add_tests(stacks, test, seen)
        if queries is not None and epoch + 1 in job.gradient_epochs:
            _compare_gradients(stacks, queries, seen, diagnostic)
        finished = epoch, seen
        seconds = earlier + time.perf_counter() - began
        due = last or (epoch + 1) % job.checkpoint_every == 0 or seconds - saved_at > UNSAVED
        if metrics is not None and due:
            metrics.write(*finished)
            finished = None
            save(job.out, identity, Done(epoch + 1, seconds, beside), stacks)
            saved_at = seconds
        if watch is not None:
            watch(_progress(job, stacks, first, epoch, began, seen, finished is None))
    trained = Trained(job, stacks, metrics.last if metrics else {}, seconds, earlier, beside)
    if metrics is not None:
        for run, stack, place in trained.networks():
            save_run(job.out / f"{run.name}.safetensors", config, run, stack, place)
    return trained


def snapshots(stack: Stack) -> list[dict[str, Any]]:
    """Of each run of a stack, on the CPU: its mean loss, and its bank to be looked at later."""
    losses = distributed.total(
        stack.total / (stack.batches.steps * distributed.world_size())
    ).tolist()
    banks = [stack.proco.state(run).to("cpu") for run in range(len(stack.runs))]
    return [
        {"run": run, "loss": loss, "state": state}
        for run, loss, state in zip(stack.runs, losses, banks, strict=True)
    ]


def _require_finite(seen: list[dict[str, Any]], epoch: int) -> None:
    """Raise if runs have diverged: inside a CUDA graph nothing looks at the values of a step."""
    lost = [f"{v['loss']} of {v['run'].name}" for v in seen if not math.isfinite(v["loss"])]
    if lost:
        rule = f"expected a finite loss ({LOWER})"
        raise DivergedError(f"{rule}, got {', '.join(lost)} in epoch {epoch}")


@contextmanager
def evaluating(network: nn.Module) -> Iterator[None]:
    """The network not in training, and then as it was."""
    training = network.training
    network.eval()
    try:
        yield
    finally:
        network.train(training)


@torch.no_grad()
def outputs(network: StackedResNet32, images: Tensor, dtype: torch.dtype) -> Outputs:
    """What every run of a stack makes of images uint8 [n, 3, H, W], without augmentation."""
    pieces = []
    with evaluating(network), full_precision(images.device):
        for piece in images.split(PIECE):
            x = normalize(piece.to(torch.float32))
            pieces.append(network(patches(x[None], dtype)))
    encoder, projection, logits = zip(*pieces, strict=True)
    joined = None if logits[0] is None else torch.cat(logits, 1)
    return Outputs(torch.cat(encoder, 1), torch.cat(projection, 1), joined)


def _add_tests(stacks: list[Stack], test: Test, seen: list[dict[str, Any]]) -> None:
    rows = iter(seen)
    for stack in stacks:
        if stack.classification is not None:
            for found in test(stack):
                next(rows).update(found)


def _test(images: Tensor, labels: Tensor, stack: Stack) -> list[dict[str, float]]:
    assert isinstance(stack.network, StackedResNet32)
    logits = outputs(stack.network, images, getattr(torch, stack.config.precision)).logits
    assert logits is not None
    right = (logits.argmax(-1) == labels).double().mean(-1).tolist()
    return [{"accuracy": accuracy} for accuracy in right]


def _compare_gradients(
    stacks: list[Stack],
    queries: tuple[Tensor, Tensor],
    seen: list[dict[str, Any]],
    diagnostic: Diagnostic | None,
) -> None:
    """The leading gradients beside the exact ones (sec:historical-gradient), at evenly chosen
    training images, of the state and the policy of each run."""
    images, labels = queries
    chosen = torch.linspace(0, len(images) - 1, min(QUERIES, len(images))).long()
    rows = iter(seen)
    for stack in stacks:
        assert isinstance(stack.network, StackedResNet32)
        z = outputs(stack.network, images[chosen], torch.float32).projection.cpu().double()
        y = labels[chosen].cpu()
        more = [{} for _ in stack.runs] if diagnostic is None else diagnostic(stack, z, y)
        for place, run in enumerate(stack.runs):
            values = next(rows)
            values |= more[place]
            offset = stack.proco.log_prior.cpu().double().expand(len(stack.runs), -1)[place]
            rule = realize(
                values["state"],
                stack.config.temperature,
                run.realization,
                run.beta,
                family=stack.config.family,
                offset=offset,
            )
            exact, leading = (loss_gradient(z[place], y, r) for r in (rule, rule.linear()))
            values["gradient_error"] = stacked_relative_error(exact, leading)
            values["mean_gradient_error"] = mean_relative_error(exact, leading)


def _progress(
    job: Job,
    stacks: list[Stack],
    first: int,
    epoch: int,
    began: float,
    seen: list[dict[str, Any]],
    saved: bool,
) -> Progress:
    seconds = time.perf_counter() - began
    done = epoch + 1 - first
    steps = sum(stack.batches.steps * len(stack.runs) for stack in stacks)
    views = steps * job.config.batch_size * job.config.views * done
    losses = {values["run"].name: values["loss"] for values in seen}
    return Progress(done, job.config.epochs - first, seconds, views / seconds, losses, first, saved)
