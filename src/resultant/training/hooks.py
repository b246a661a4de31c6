"""Hooks of the training loop: tests and gradient diagnostics. A hook is called after an epoch with
the epoch, the stacks and one row of values per run, to which it adds values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from resultant.classes.realization import realize
from resultant.decisions.gradients import loss_gradient, mean_relative_error, stacked_relative_error
from resultant.networks.stacked_resnet import Outputs, StackedResNet32
from resultant.training.inference import Views, outputs, shared_outputs
from resultant.training.probe import accuracies
from resultant.training.stack import Stack

# Training images of the gradient diagnostic.
QUERIES = 512

Rows = list[dict[str, Any]]
Hook = Callable[[int, Sequence[Stack], Rows], None]
# Further values for each run of a stack, from its projections [runs, n, p] of the queries and their
# labels [n], both on the CPU.
Diagnostic = Callable[[Stack, Tensor, Tensor], list[dict[str, Any]]]


@dataclass(frozen=True, eq=False)
class HeldOutTest:
    """Test the classifiers on held-out images, without prior; every process computes its share."""

    views: Views
    labels: Tensor  # [n]
    counts: Tensor  # training images per class [C], for the shot groups of `accuracies`
    every: int  # epochs between tests
    last: int  # epoch that is tested in any case

    def __call__(self, epoch: int, stacks: Sequence[Stack], rows: Rows) -> None:
        if epoch != self.last and epoch % self.every:
            return

        def classes(outputs: Outputs) -> list[Tensor]:
            assert outputs.logits is not None
            return [outputs.logits.argmax(-1).T]

        remaining = iter(rows)
        for stack in stacks:
            autocast = None if stack.small else stack.autocast
            options = len(self.labels), self.views, stack.device, classes, autocast
            (predicted,) = shared_outputs(stack.network, *options)
            for guesses in predicted.cpu().T:
                next(remaining).update(accuracies(guesses, self.labels, self.counts))


@dataclass(frozen=True, eq=False)
class GradientErrors:
    """Compare leading with exact gradients (sec:historical-gradient) on evenly chosen training
    images uint8 after some epochs; the ``diagnostic`` adds values from the same projections."""

    images: Tensor
    labels: Tensor
    epochs: tuple[int, ...]
    diagnostic: Diagnostic | None = None

    def __call__(self, epoch: int, stacks: Sequence[Stack], rows: Rows) -> None:
        if epoch not in self.epochs:
            return
        number = len(self.images)
        queries = torch.linspace(0, number - 1, min(QUERIES, number)).long()
        remaining = iter(rows)
        for stack in stacks:
            assert isinstance(stack.network, StackedResNet32)
            projection = outputs(stack.network, self.images[queries], torch.float32).projection
            z, y = projection.cpu().double(), self.labels[queries].cpu()
            more = [{}] * len(stack.runs)
            if self.diagnostic is not None:
                more = self.diagnostic(stack, z, y)
            offsets = stack.proco.log_prior.cpu().double().expand(len(stack.runs), -1)
            for index, run in enumerate(stack.runs):
                values = next(remaining)
                values |= more[index]
                scores = realize(values["state"], run.rule(stack.config, offsets[index]))
                exact = loss_gradient(z[index], y, scores)
                for end, intercept in (("", True), ("_without_intercept", False)):
                    leading = loss_gradient(z[index], y, scores.linear(intercept))
                    values[f"gradient_error{end}"] = stacked_relative_error(exact, leading)
                    values[f"mean_gradient_error{end}"] = mean_relative_error(exact, leading)
