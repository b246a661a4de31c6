"""Several runs trained as one: stacked networks, added losses, one optimizer, and one training
step, on a GPU as a CUDA graph. No gradient passes between runs."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from resultant._core import validation
from resultant.training.config import Run
from resultant.training.evaluation import Rows
from resultant.training.job import OnStep
from resultant.training.loop import copy_state, require_finite
from resultant.training.precision import timed_convolutions
from resultant_reproduction.cifar.batches import Batches
from resultant_reproduction.cifar.losses import StackedLogitAdjustedCrossEntropy, StackedProCoLoss
from resultant_reproduction.cifar.network import Outputs, StackedResNet32
from resultant_reproduction.cifar.supervised import BalancedContrastiveLoss, SupConLoss
from resultant_reproduction.recipes.config import PaperConfig


class Stack:
    """Runs that share a network and a training step."""

    def __init__(
        self,
        config: PaperConfig,
        runs: Sequence[Run],
        batches: Batches,
        counts: Tensor,
        device: torch.device,
    ) -> None:
        self.config, self.runs, self.batches, self.device = config, tuple(runs), batches, device
        joint, seeds = config.objective == "joint", [run.seed for run in runs]
        classes = len(counts) if joint else None
        self.network = StackedResNet32(seeds, config.dim, classes, fuse=config.fuse).to(device)
        self.proco = StackedProCoLoss(
            len(counts),
            config.dim,
            [run.rule(config) for run in runs],
            counts,
            config.prior,
            seeds=seeds,
            estimator=config.estimator,
            leave_out=config.leave_out,
        ).to(device)
        self.supervised: nn.Module | None = None
        if config.contrastive == "supcon":
            self.supervised = SupConLoss(config.temperature).to(device)
        elif config.contrastive == "balanced":
            self.supervised = BalancedContrastiveLoss(
                len(counts), config.dim, config.temperature, seeds
            ).to(device)
        self.classification: StackedLogitAdjustedCrossEntropy | None = None
        if joint:
            prior = config.prior if config.classifier_prior is None else config.classifier_prior
            self.classification = StackedLogitAdjustedCrossEntropy(counts, prior).to(device)
        parameters = [p for _, p in self._parameters()]
        rate = torch.tensor(config.learning_rate, device=device)
        self.optimizer = torch.optim.SGD(
            parameters, rate, config.momentum, weight_decay=config.weight_decay, fused=True
        )
        # Created now, so that the first step equals the others.
        for p in parameters:
            self.optimizer.state[p]["momentum_buffer"] = torch.zeros_like(p)
        self.total = torch.zeros(len(runs), device=device)
        self.epoch = 0
        self.graph: torch.cuda.CUDAGraph | None = None
        self.stream: torch.cuda.Stream | None = None

    def objective(self, outputs: Outputs, labels: Tensor) -> Tensor:
        """Return the loss [runs] of the views of a batch (alg:controlled-training)."""
        n = labels.shape[-1]
        views = outputs.projection.unflatten(1, (-1, n)).transpose(0, 1)  # [V, runs, N, p]
        loss = self.config.contrastive_weight * self.contrastive(views[:2], labels)
        if self.classification is not None:
            assert outputs.logits is not None
            logits = outputs.logits.unflatten(1, (-1, n)).transpose(0, 1)
            third, own = self.config.classification_view, self.config.classifier_views
            read = logits[2:] if third else logits[:own]
            loss = loss + self.config.alpha * self.classification(read, labels)
        return loss

    def contrastive(self, views: Tensor, labels: Tensor) -> Tensor:
        """Return the contrastive loss [runs]; every loss has the class statistics of ProCo."""
        if self.supervised is None:
            return self.proco(views, labels)
        self.proco.bank.add_runs(views, labels)
        return self.supervised(views, labels)

    def step(self) -> None:
        """Train by one batch: views, loss, gradients, statistics, optimizer."""
        views, labels = self.batches.batch()
        outputs = self.network(views)
        # Where the check costs nothing; see also `rows`.
        if validation.should_validate(None, outputs.projection):
            for run, features in zip(self.runs, outputs.projection, strict=True):
                require_finite(features, run, f"in epoch {self.epoch}")
        loss = self.objective(outputs, labels)
        self.optimizer.zero_grad()
        loss.sum().backward()
        self.optimizer.step()
        self.total += loss.detach()

    def start_epoch(self, epoch: int) -> None:
        self.epoch = epoch + 1
        self.optimizer.param_groups[0]["lr"].fill_(self.config.rate(epoch))
        self.total.zero_()
        self.proco.start_epoch()
        self.network.train()

    def replay(self) -> None:
        """Take a step on the stream of the stack, through the CUDA graph if it is recorded."""
        with torch.cuda.stream(self.stream):
            if self.graph is None:
                self.step()
            else:
                self.proco.bank.raise_known_errors()
                self.graph.replay()

    def record(self, epoch: int = 0) -> None:
        """Warm up, and record the step as a CUDA graph. The state of the runs is restored."""
        self.batches.load(self.batches.draw(epoch))
        before = {name: a.clone() for name, a in self.tensors().items()}
        # Not part of the state: every epoch begins and ends without them.
        total = self.total.clone()
        self.network.train()
        # One stream per stack: cuBLAS has a workspace for every stream, a graph keeps that of its
        # capture, and the graphs of several stacks run at once.
        self.stream = torch.cuda.Stream(self.device)
        self.stream.wait_stream(torch.cuda.current_stream())
        with timed_convolutions():
            with torch.cuda.stream(self.stream):
                # At most as many steps as an epoch has batches.
                for _ in range(min(3, self.batches.steps)):
                    self.step()
            torch.cuda.current_stream().wait_stream(self.stream)
            graph = torch.cuda.CUDAGraph()
            self.optimizer.zero_grad()
            with torch.cuda.graph(graph, stream=self.stream):
                self.step()
            self.graph = graph
        self.load(before)
        self.total.copy_(total)
        self.proco.bank.errors.reset()

    def rows(self) -> Rows:
        """Return ``run``, mean ``loss`` and class ``state`` of each run, on the CPU."""
        losses = (self.total / self.batches.steps).tolist()
        states = (self.proco.state(index).to("cpu") for index in range(len(self.runs)))
        return [
            {"run": run, "loss": loss, "state": state}
            for run, loss, state in zip(self.runs, losses, states, strict=True)
        ]

    def tensors(self) -> dict[str, Tensor]:
        """Return the state by name: weights, running moments, momenta, both banks."""
        named = {f"network.{name}": a for name, a in self.network.state_dict().items()}
        if self.supervised is not None:
            named |= {f"loss.{name}": a for name, a in self.supervised.state_dict().items()}
        for name, p in self._parameters():
            named[f"momentum.{name}"] = self.optimizer.state[p]["momentum_buffer"]
        bank = self.proco.bank
        named |= {f"proco.bank.{name}": bank.sums(bank=name) for name in ("old", "new")}
        return named | {"proco.bank.epoch": bank.epoch}

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Set the state to ``tensors``, as `tensors` returns it."""
        copy_state(self.tensors(), tensors)

    def _parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Yield the trained parameters and their names."""
        yield from self.network.named_parameters()
        if self.supervised is not None:
            yield from self.supervised.named_parameters("loss")


class Stacks:
    """All stacks of a job, trained side by side by `resultant.training.loop.train`."""

    stopped = False

    def __init__(self, stacks: Sequence[Stack]) -> None:
        self.stacks, self.device = list(stacks), stacks[0].device

    @property
    def runs(self) -> list[Run]:
        return [run for stack in self.stacks for run in stack.runs]

    def networks(self) -> Iterator[tuple[Run, Stack, int]]:
        """Yield every run with its stack and its index in the stack."""
        for stack in self.stacks:
            for index, run in enumerate(stack.runs):
                yield run, stack, index

    @property
    def digest(self) -> str:
        """A digest of the training images."""
        return self.stacks[0].batches.digest

    @property
    def contents(self) -> Tensor:
        """No hashes: the splits of these datasets are fixed."""
        return torch.empty(0, dtype=torch.int64)

    @property
    def views(self) -> int:
        """Number of views of an epoch, over all runs."""
        config, steps = self.stacks[0].config, self.stacks[0].batches.steps
        return steps * len(self.runs) * config.batch_size * config.views

    def open(self) -> None:
        """Do nothing: the images are decoded."""

    def record(self, epoch: int) -> None:
        """Record the steps of all stacks on a GPU."""
        if self.device.type == "cuda":
            for stack in self.stacks:
                stack.record(epoch)
            torch.cuda.synchronize()

    def draw(self, epoch: int) -> list[list[Tensor]]:
        """Draw the batches of every stack."""
        return [stack.batches.draw(epoch) for stack in self.stacks]

    def train_epoch(self, epoch: int, drawn: list[list[Tensor]], on_step: OnStep = None) -> None:
        """Take the steps of an epoch, those of the stacks in turn; on a GPU, launch them."""
        for stack, batches in zip(self.stacks, drawn, strict=True):
            stack.start_epoch(epoch)
            stack.batches.load(batches)
        steps = self.stacks[0].batches.steps
        with side_by_side(self.stacks):
            for step in range(steps):
                for stack in self.stacks:
                    stack.replay()
                # On a GPU, short steps are launched ahead of the device.
                if on_step is not None and self.device.type != "cuda":
                    on_step((step + 1) / steps)

    def rows(self) -> Rows:
        """Return ``run``, mean ``loss`` and class ``state`` of each run, on the CPU."""
        rows = [row for stack in self.stacks for row in stack.rows()]
        # A target gain without a temperature explains a lost loss, and is reported first.
        for stack in self.stacks:
            stack.proco.check()
        return rows

    def tensors(self) -> dict[str, Tensor]:
        """Return the state of all stacks by name."""
        parts = enumerate(stack.tensors() for stack in self.stacks)
        return {f"{i}.{name}": a for i, part in parts for name, a in part.items()}

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Set the state to ``tensors``, as `tensors` returns it."""
        copy_state(self.tensors(), tensors)


@contextmanager
def side_by_side(stacks: Sequence[Stack]) -> Iterator[None]:
    """Order the streams of the stacks after the current stream, and the current one after them."""
    streams = [stack.stream for stack in stacks if stack.stream is not None]
    for stream in streams:
        stream.wait_stream(torch.cuda.current_stream())
    yield
    for stream in streams:
        torch.cuda.current_stream().wait_stream(stream)
