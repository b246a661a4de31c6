"""Several runs trained as one: stacked networks, added losses, one optimizer, and one training
step, on a GPU as a CUDA graph. No gradient passes between runs."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from resultant._core import distributed, validation
from resultant.networks.stacked_resnet import Outputs, StackedResNet32
from resultant.networks.timm_encoder import ImageNetwork
from resultant.training.batches import CifarBatches
from resultant.training.config import Run, TrainConfig
from resultant.training.photo_batches import PhotoBatches
from resultant.training.precision import timed_convolutions
from resultant.training.stacked_loss import StackedLogitAdjustedCrossEntropy, StackedProCoLoss
from resultant.training.supervised import BalancedContrastiveLoss, SupConLoss

LOWER = "a lower learning_rate may help"


class Stack:
    """Runs that share a network and a training step."""

    def __init__(
        self,
        config: TrainConfig,
        runs: Sequence[Run],
        batches: CifarBatches | PhotoBatches,
        counts: Tensor,
        device: torch.device,
    ) -> None:
        self.config, self.runs, self.batches, self.device = config, tuple(runs), batches, device
        joint = config.objective == "joint"
        classes = len(counts) if joint else None
        self.network = build(config, runs, classes, initial_weights=True).to(device)
        self.model: nn.Module = self.network
        self.small = config.architecture == "resnet32"
        if not self.small and config.fuse and device.type == "cuda":
            # In place: the names of the weights stay. Evaluation calls `forward`, uncompiled.
            self.network.compile(dynamic=False)
        if not self.small and distributed.distributed():
            ids = [device.index] if device.type == "cuda" else None
            self.model = DistributedDataParallel(self.network, device_ids=ids)
        shape, seeds = (len(counts), config.dim), [run.seed for run in runs]
        self.proco = StackedProCoLoss(
            *(*shape, [run.rule(config) for run in runs], counts, config.prior),
            seeds=seeds,
            estimator=config.estimator,
            leave_out=config.leave_out,
        ).to(device)
        self.supervised: nn.Module | None = None
        if config.contrastive == "supcon":
            self.supervised = SupConLoss(config.temperature).to(device)
        elif config.contrastive == "balanced":
            self.supervised = BalancedContrastiveLoss(*shape, config.temperature, seeds).to(device)
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
        with self.autocast():
            outputs = self.model(views)
            # Where the check costs nothing; see also `loop.measure`.
            if validation.should_validate(None, outputs.projection):
                for run, features in zip(self.runs, outputs.projection, strict=True):
                    require_finite(features, run, f"in epoch {self.epoch}")
            loss = self.objective(outputs, labels)
        self.optimizer.zero_grad()
        loss.sum().backward()
        if self.config.clip is not None:
            nn.utils.clip_grad_norm_(self.network.parameters(), self.config.clip)
        self.optimizer.step()
        self.total += loss.detach()

    def autocast(self) -> AbstractContextManager:
        """Return the autocast of the network; the stacked one gets its inputs in its precision."""
        wide = self.config.precision == "float32" or self.device.type != "cuda"
        if wide or self.small:
            return nullcontext()
        return torch.autocast("cuda", getattr(torch, self.config.precision))

    def start_epoch(self, epoch: int) -> None:
        self.epoch = epoch + 1
        self.optimizer.param_groups[0]["lr"].fill_(self.config.rate(epoch))
        self.total.zero_()
        self.proco.start_epoch()
        self.model.train()

    def replay(self) -> None:
        """Take a step on the stream of the stack, through the CUDA graph if it is captured."""
        with torch.cuda.stream(self.stream):
            self.batches.advance()
            if self.graph is None:
                self.step()
            else:
                self.proco.bank.raise_known_errors()
                self.graph.replay()

    def capture(self, epoch: int = 0) -> None:
        """Warm up, and record the step as a CUDA graph; image networks in several processes, or
        without ``fuse``, only warm up. The state of the runs is restored."""
        self.batches.rehearse(epoch)
        before = {name: a.clone() for name, a in self.tensors().items()}
        # Not part of the state: every epoch begins and ends without them.
        transient = [(a, a.clone()) for a in (self.total, self.proco.bank.errors.least)]
        self.model.train()
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
            # Processes exchange gradients and statistics, and a plain network may synchronize.
            if self.small or (self.config.fuse and not distributed.distributed()):
                graph = torch.cuda.CUDAGraph()
                self.optimizer.zero_grad()
                with torch.cuda.graph(graph, stream=self.stream):
                    self.step()
                self.graph = graph
        self.load(before)
        for a, value in transient:
            a.copy_(value)

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

    def _parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Yield the trained parameters and their names."""
        yield from self.network.named_parameters()
        if self.supervised is not None:
            yield from self.supervised.named_parameters("loss")

    @torch.no_grad()
    def load(self, tensors: dict[str, Tensor]) -> None:
        """Set the state to ``tensors``, as `tensors` returns it."""
        own = self.tensors()
        if own.keys() != tensors.keys():
            names = sorted(own.keys() ^ tensors.keys())
            raise ValueError(f"expected the tensors of this stack, got a difference in {names[:3]}")
        for name, a in own.items():
            if a.shape != tensors[name].shape:
                got = tuple(tensors[name].shape)
                raise ValueError(f"expected {name} of shape {tuple(a.shape)}, got {got}")
            a.copy_(tensors[name])


@contextmanager
def side_by_side(stacks: Sequence[Stack]) -> Iterator[None]:
    """Order the streams of the stacks after the current stream, and the current one after them."""
    streams = [stack.stream for stack in stacks if stack.stream is not None]
    for stream in streams:
        stream.wait_stream(torch.cuda.current_stream())
    yield
    for stream in streams:
        torch.cuda.current_stream().wait_stream(stream)


def require_finite(features: Tensor, run: Run, when: str) -> None:
    """Raise a DivergedError if features [N, d] of a run are zero or not finite."""
    length = torch.linalg.vector_norm(features.detach(), dim=-1)
    if not ((length > 0) & length.isfinite()).all():
        rule = f"expected features of finite length above zero ({LOWER})"
        raise validation.DivergedError(f"{rule}, got others of {run.name} {when}")


def build(
    config: TrainConfig,
    runs: Sequence[Run],
    num_classes: int | None,
    *,
    initial_weights: bool = False,
) -> StackedResNet32 | ImageNetwork:
    """Build the network of a configuration, with a classifier if ``num_classes`` is not None."""
    seeds = [run.seed for run in runs]
    if config.architecture == "resnet32":
        return StackedResNet32(seeds, config.dim, num_classes, fuse=config.fuse)
    if len(runs) != 1:
        raise ValueError(f"expected one run of {config.architecture} at a time, got {len(runs)}")
    options: dict[str, Any] = {"size": config.size}
    if initial_weights:
        options |= {"pretrained": config.pretrained, "weights": config.weights}
    network = ImageNetwork(config.architecture, config.dim, num_classes, seeds[0], **options)
    # The layout of the images, so that no convolution transposes its weights.
    return network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
