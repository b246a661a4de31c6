"""Stacked networks on images without augmentation: features, predicted classes, gradients."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from resultant.classes.scores import realize
from resultant.decisions.gradients import loss_gradient, mean_relative_error, stacked_relative_error
from resultant.images.evaluation import Views
from resultant.training.evaluation import Rows, network_outputs, shared_outputs
from resultant.training.job import Trained
from resultant.training.loop import require_finite
from resultant_reproduction.cifar.data import Cifar
from resultant_reproduction.cifar.network import Outputs, StackedResNet32, normalized_patches
from resultant_reproduction.cifar.stack import Stack, Stacks
from resultant_reproduction.recipes.evaluation import SPACES, Features, SplitFeatures

# Images per forward pass.
CHUNK_IMAGES = 2500
# Training images of the gradient diagnostic.
QUERIES = 512

# Further values for each run of a stack, from its projections [runs, n, p] of the queries and their
# labels [n], both on the CPU.
Diagnostic = Callable[[Stack, Tensor, Tensor], list[dict[str, Any]]]


def cifar_views(images: Tensor, dtype: torch.dtype, rows: Tensor) -> Iterator[Tensor]:
    """Yield the input of a stacked network: patches of images uint8 [n, 3, H, W]."""
    for chunk in rows.split(CHUNK_IMAGES):
        yield normalized_patches(images[chunk][None], dtype)


def outputs(network: StackedResNet32, images: Tensor, dtype: torch.dtype) -> Outputs:
    """Compute the outputs [runs, n, ...] of a stacked network on images uint8 [n, 3, H, W]."""
    batches = cifar_views(images, dtype, torch.arange(len(images)))
    made = network_outputs(network, batches, images.device)
    encoder, projection, logits = zip(*made, strict=True)
    joined = None if logits[0] is None else torch.cat(logits, 1)
    return Outputs(torch.cat(encoder, 1), torch.cat(projection, 1), joined)


def predicted_classes(stacks: Sequence[Stack], images: Tensor, dtype: torch.dtype) -> list[Tensor]:
    """Predict the classes [n] of images by the classifier of each run, in a lower precision."""
    predicted = []
    for stack in stacks:
        (classes,) = shared_outputs(
            stack.network,
            len(images),
            partial(cifar_views, images, dtype),
            stack.device,
            lambda out: [out.logits.argmax(-1).T],
        )
        predicted += classes.T.unbind()
    return predicted


def cifar_features(trained: Trained[Stacks], data: Cifar) -> Features:
    """Compute the features of the networks of a job; every process computes a share of them."""
    stacks, device = trained.trainee.stacks, trained.trainee.device
    config = stacks[0].config
    views = partial(cifar_views, data.train_images.to(device), torch.float32)
    balanced = split_features(stacks, views, data.train_labels)
    train = balanced.rows(data.members(config.imbalance, config.subset))
    views = partial(cifar_views, data.test_images.to(device), torch.float32)
    return Features(train, split_features(stacks, views, data.test_labels), None, balanced)


def split_features(stacks: Sequence[Stack], views: Views, labels: Tensor) -> SplitFeatures:
    """Compute the features of all runs on the images of a split."""

    def keep(out: Outputs) -> list[Tensor]:
        kept = [out.encoder.transpose(0, 1), out.projection.transpose(0, 1)]
        return kept if out.logits is None else [*kept, out.logits.argmax(-1).T]

    spaces: dict[str, list[Tensor]] = {space: [] for space in SPACES}
    predictions: list[Tensor] = []
    for stack in stacks:
        kept = shared_outputs(stack.network, len(labels), views, stack.device, keep)
        encoder, projection, *classes = kept
        for space, by_run in zip(SPACES, (encoder, projection), strict=True):
            for run, x in zip(stack.runs, by_run.transpose(0, 1).contiguous(), strict=True):
                require_finite(x, run, "after training")
                spaces[space].append(x)
        predictions += [own for by_run in classes for own in by_run.T.unbind()]
    return SplitFeatures(spaces, labels.to(stacks[0].device), predictions)


@dataclass(frozen=True, eq=False)
class GradientErrors:
    """Compare leading with exact gradients (sec:historical-gradient) on evenly chosen training
    images uint8 after some epochs; the ``diagnostic`` adds values from the same projections."""

    stacks: Sequence[Stack]
    images: Tensor
    labels: Tensor
    epochs: tuple[int, ...]
    diagnostic: Diagnostic | None = None

    def __call__(self, epoch: int, rows: Rows) -> None:
        if epoch not in self.epochs:
            return
        number = len(self.images)
        queries = torch.linspace(0, number - 1, min(QUERIES, number)).long()
        remaining = iter(rows)
        for stack in self.stacks:
            z = outputs(stack.network, self.images[queries], torch.float32).projection
            z, y = z.cpu().double(), self.labels[queries].cpu()
            more = self.diagnostic(stack, z, y) if self.diagnostic else [{}] * len(stack.runs)
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
