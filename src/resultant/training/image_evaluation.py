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
from resultant.images.source import ImageSource, ImageSplits, cores
from resultant.images.store import open_store
from resultant.networks.outputs import Outputs
from resultant.training.accuracy import accuracies, accuracy
from resultant.training.config import ProbeConfig
from resultant.training.evaluation import base_records, frozen_predictions
from resultant.training.image_sets import recipe_view
from resultant.training.inference import shared_outputs, source_views
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
    balanced = None
    if data.balanced is not None:
        # The subset is computed once, with the others, which no store holds.
        balanced = _features(stack, data.balanced, partial(_read, stack, data.balanced, workers))
        train = balanced.rows(torch.from_numpy(data.train.positions_in(data.balanced)))
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
        workers: Threads that decode images; by default one per core.
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
        record["classifier"] = accuracies(judge.predictions, judge.labels, counts)
    record["probes"] = {
        pool: _probe(features, judge, chooser, counts, probes) for pool, features in pools.items()
    }
    record["frozen"], record["chosen"] = {}, {}
    for space in SPACES:
        decided = _frozen(train, judge, space, len(counts))
        record["frozen"][space] = {
            fit: {rule: accuracy(p, judge.labels) for rule, p in by.items()}
            for fit, by in decided.items()
        }
        if chooser is not None:
            options = _frozen(train, chooser, space, len(counts))
            scores = {
                (fit, rule): accuracy(p, chooser.labels)
                for fit, by in options.items()
                for rule, p in by.items()
            }
            fit, rule = max(scores, key=lambda key: scores[key])
            result = accuracies(decided[fit][rule], judge.labels, counts)
            record["chosen"][space] = {"estimator": fit, "realization": rule, **result}
    if not record["chosen"]:
        del record["chosen"]
    return [record]


def _stored(stack: Stack, source: ImageSource, workers: int | None) -> SplitFeatures:
    """Compute the features of images that are decoded already, in the store of the training."""
    batches, config = stack.batches, stack.config
    assert isinstance(batches, PhotoBatches)
    view, store = recipe_view(config.size), batches.store
    placement, most = None, EVALUATED
    if source is batches.source:
        placement, most = batches.placement, min(EVALUATED, batches.images)
    else:
        store = open_store(source, store.folder.parent, view.short_side, workers=workers)
    options = torch.float32, stack.device, placement, most
    return _features(stack, source, EvaluationViews(store, view, config.channels, *options))


def _read(stack: Stack, source: ImageSource, workers: int | None, rows: Tensor) -> Iterator[Tensor]:
    """Yield the views of some images, decoded by threads."""
    if distributed.distributed() and workers is None:
        workers = max(1, cores() // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
    config = stack.config
    view = recipe_view(config.size)
    return source_views(source.select(rows), view, config.channels, stack.device, workers)


def _features(
    stack: Stack, source: ImageSource, views: Callable[[Tensor], Iterator[Tensor]]
) -> SplitFeatures:
    """Compute the features of a source from the views [N, 3, S, S] of its images ``rows``."""

    def keep(outputs: Outputs) -> list[Tensor]:
        kept = [getattr(outputs, space)[0] for space in SPACES]
        return kept if outputs.logits is None else [*kept, outputs.logits[0].argmax(-1)]

    network, device = stack.network, stack.device
    features = shared_outputs(network, len(source), views, device, keep)
    spaces: dict[str, Tensor] = dict(zip(SPACES, features, strict=False))
    for x in spaces.values():
        require_finite(x, stack.runs[0], "after training")
    if main_encoder(stack.config.dataset) == "unit":
        spaces["encoder"] = F.normalize(spaces["encoder"], dim=-1)
    predictions = features[len(SPACES)] if len(features) > len(SPACES) else None
    return SplitFeatures(spaces, torch.from_numpy(source.labels).to(device), predictions)


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
            chosen = accuracy(guesses[first:], y[first:]) if chooser else 0.0
            if space not in best or chosen > best[space][0]:
                result = accuracies(guesses[:first], judge.labels, counts)
                best[space] = chosen, result | {"learning_rate": settings.learning_rate}
    return {space: result for space, (_, result) in best.items()}


def _frozen(
    train: SplitFeatures, queries: SplitFeatures, space: str, classes: int
) -> dict[str, dict[str, Tensor]]:
    x, z = train.spaces[space], queries.spaces[space]
    return frozen_predictions(x, train.labels, z, classes)
