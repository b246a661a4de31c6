"""Evaluation of networks on image datasets: linear probes and frozen decisions.

As for CIFAR (`resultant.training.evaluation`). If a validation split is there, it chooses the
learning rate of the probes and one frozen rule; the test split judges what was chosen.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from resultant._core import distributed
from resultant.images.source import ImageSource, ImageSplits, SelectedImages, select
from resultant.images.store import cores, open_store
from resultant.training.config import ProbeConfig
from resultant.training.evaluation import base_records, frozen_predictions
from resultant.training.image_sets import prediction_accuracies, recipe_view
from resultant.training.inference import image_outputs, source_views
from resultant.training.job import Trained
from resultant.training.photo_batches import EVALUATED, EvaluationViews, PhotoBatches
from resultant.training.probe import linear_probes, main_encoder
from resultant.training.stack import Stack, require_finite

SPACES = ("encoder", "projection")
# Learning rates that a validation split chooses from, as multiples of that of the paper.
RATES = (1.0, 10.0, 100.0)


class SplitFeatures(NamedTuple):
    """Features [n, d] by space, labels [n] and, of a classifier, predictions [n] of a split."""

    spaces: dict[str, Tensor]
    labels: Tensor
    predictions: Tensor | None

    def rows(self, index: Tensor) -> SplitFeatures:
        """Return the features and labels of some images."""
        index = index.to(self.labels.device)
        spaces = {name: x[index] for name, x in self.spaces.items()}
        return SplitFeatures(spaces, self.labels[index], None)


class ImageFeatures(NamedTuple):
    """Features of a network on the splits of a dataset.

    Attributes:
        train: Training images.
        judge: Images that judge.
        chooser: Images that choose; None without a validation split.
        balanced: Images that the training images are a subset of; None without a subset.
    """

    train: SplitFeatures
    judge: SplitFeatures
    chooser: SplitFeatures | None
    balanced: SplitFeatures | None


def image_features(
    trained: Trained, data: ImageSplits, workers: int | None = None
) -> ImageFeatures:
    """Compute the features of the network of a job; under torchrun every process computes a share.

    Raises:
        DivergedError: If features are not finite.
        ImageError: If an image is broken.
        ValueError: If there are no held-out images.
    """
    if data.judge is None:
        raise ValueError("expected held-out images to evaluate on, got only training images")
    (stack,) = trained.stacks
    # Since its last forward pass each process has added its share of a batch to the moments.
    distributed.broadcast_from_rank0(*stack.network.buffers())
    balanced = None
    if data.balanced is not None and isinstance(data.train, SelectedImages):
        # The subset is computed once, with the others, which no store holds.
        balanced = _features(stack, data.balanced, partial(_read, stack, data.balanced, workers))
        train = balanced.rows(torch.from_numpy(data.train.rows))
    else:
        train = _stored(stack, data.train, workers)
    judge = _stored(stack, data.judge, workers)
    chooser = None if data.chooser is None else _stored(stack, data.chooser, workers)
    return ImageFeatures(train, judge, chooser, balanced)


def evaluate_images(
    trained: Trained,
    data: ImageSplits,
    probes: ProbeConfig | None = None,
    workers: int | None = None,
    features: ImageFeatures | None = None,
) -> list[dict[str, Any]]:
    """Probe and classify with the network of a job.

    Args:
        trained: The finished job of one run.
        data: Training and held-out images.
        probes: Settings of the probes; None for those of the paper.
        workers: Processes that decode images; by default one per core.
        features: Features of the network; None to compute them.

    Returns:
        The record of the run: configuration, versions, time, the network's own ``classifier``,
        ``probes`` on the training images and on the images that they are a subset of, ``frozen``
        decisions, and ``chosen`` with the frozen rule that the validation
        images choose. Accuracies are fractions of the judging images; those of groups are means
        over their classes.

    Raises:
        DivergedError: If features are not finite.
        ImageError: If an image is broken.
        ValueError: If there are no held-out images.
    """
    features = features or image_features(trained, data, workers)
    train, judge, chooser, balanced = features
    pools = {"long_tail": train} | ({} if balanced is None else {"balanced": balanced})
    (record,) = base_records(trained, len(data.train))
    record |= {"held_out": data.held_out, "classes": data.num_classes}
    counts = data.counts
    if judge.predictions is not None:
        record["classifier"] = prediction_accuracies(judge.predictions, judge.labels, counts)
    record["probes"] = {
        pool: _probe(features, judge, chooser, counts, probes) for pool, features in pools.items()
    }
    record["frozen"], record["chosen"] = {}, {}
    for space in SPACES:
        decided = _frozen(train, judge, space, len(counts))
        record["frozen"][space] = {
            fit: {
                rule: prediction_accuracies(p, judge.labels, counts)["accuracy"]
                for rule, p in by.items()
            }
            for fit, by in decided.items()
        }
        if chooser is not None:
            options = _frozen(train, chooser, space, len(counts))
            scores = {
                (fit, rule): float((p == chooser.labels).double().mean())
                for fit, by in options.items()
                for rule, p in by.items()
            }
            fit, rule = max(scores, key=lambda key: scores[key])
            result = prediction_accuracies(decided[fit][rule], judge.labels, counts)
            record["chosen"][space] = {"estimator": fit, "realization": rule, **result}
    if not record["chosen"]:
        del record["chosen"]
    return [record]


def _stored(stack: Stack, source: ImageSource, workers: int | None) -> SplitFeatures:
    """Compute the features of images that are decoded already, in the store of the training."""
    batches, config = stack.batches, stack.config
    assert isinstance(batches, PhotoBatches)
    view, store, placement = recipe_view(config.size), batches.store, batches.placement
    most = EVALUATED if placement is None else min(EVALUATED, batches.images)
    if source is not store.source:
        folder, device = store.folder.parent, stack.device
        store = open_store(source, folder, view.short_side, workers=workers, device=device)
        placement, most = None, EVALUATED
    options = torch.float32, stack.device, placement, most
    views = EvaluationViews(store, view, config.channels, *options)
    return _features(stack, source, lambda rows: (x for x, _ in views(rows)))


def _read(stack: Stack, source: ImageSource, workers: int | None, rows: Tensor) -> Iterator[Tensor]:
    """Yield the views of some images, decoded by workers."""
    if distributed.distributed() and workers is None:
        workers = cores() // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    config = stack.config
    view, channels = recipe_view(config.size), config.channels
    return source_views(select(source, rows), view, channels, stack.device, workers)


def _features(
    stack: Stack, source: ImageSource, views: Callable[[Tensor], Iterator[Tensor]]
) -> SplitFeatures:
    """Compute the features of a source from the views [N, 3, S, S] of its images ``rows``."""
    device, labels = stack.device, source.labels
    # Image i belongs to process i modulo their number; few images are computed by all.
    number = distributed.world_size() if len(source) >= distributed.world_size() else 1
    shares = [torch.arange(rank, len(source), number) for rank in range(number)]
    parts: dict[str, list[Tensor]] = {space: [] for space in SPACES}
    predictions: list[Tensor] = []
    for outputs in image_outputs(stack.network, views(shares[distributed.rank() % number]), device):
        for space, chunks in parts.items():
            chunks.append(getattr(outputs, space)[0])
        if outputs.logits is not None:
            predictions.append(outputs.logits[0].argmax(-1))

    def joined(chunks: list[Tensor]) -> Tensor:
        if number == 1:
            return torch.cat(chunks)
        own = distributed.gather(torch.cat(chunks), list(map(len, shares)))
        return torch.empty_like(own).index_copy_(0, torch.cat(shares).to(device), own)

    spaces = {space: joined(chunks) for space, chunks in parts.items()}
    for x in spaces.values():
        require_finite(x, stack.runs[0], "after training")
    if main_encoder(stack.config.dataset) == "unit":
        spaces["encoder"] = F.normalize(spaces["encoder"], dim=-1)
    decided = joined(predictions) if predictions else None
    return SplitFeatures(spaces, torch.from_numpy(labels).to(device), decided)


def _probe(
    train: SplitFeatures,
    judge: SplitFeatures,
    chooser: SplitFeatures | None,
    counts: Tensor,
    config: ProbeConfig | None,
) -> dict[str, dict[str, Any]]:
    """Train a probe per space and learning rate; return the judged accuracies of the chosen one."""
    config = config or ProbeConfig()
    held_out = [judge] if chooser is None else [judge, chooser]
    queries = [torch.cat([a.spaces[space] for a in held_out]) for space in SPACES]
    y, first = torch.cat([a.labels for a in held_out]), len(judge.labels)
    best: dict[str, tuple[float, dict[str, Any]]] = {}
    for factor in RATES if chooser is not None else RATES[:1]:
        settings = replace(config, learning_rate=factor * config.learning_rate)
        predictions = linear_probes(
            [train.spaces[space] for space in SPACES],
            train.labels,
            queries,
            y,
            len(counts),
            settings,
            predictions=True,
            names=SPACES,
        ).predictions
        assert predictions is not None
        for space, guesses in zip(SPACES, predictions, strict=True):
            chosen = float((guesses[first:] == y[first:]).double().mean()) if chooser else 0.0
            if space not in best or chosen > best[space][0]:
                result = prediction_accuracies(guesses[:first], judge.labels, counts)
                best[space] = chosen, result | {"learning_rate": settings.learning_rate}
    return {space: result for space, (_, result) in best.items()}


def _frozen(
    train: SplitFeatures, queries: SplitFeatures, space: str, classes: int
) -> dict[str, dict[str, Tensor]]:
    x, z = train.spaces[space], queries.spaces[space]
    return frozen_predictions(x, train.labels, z, classes)
