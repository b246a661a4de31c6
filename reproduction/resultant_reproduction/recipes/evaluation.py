"""Evaluation of the paper's networks: linear probes (Algorithm 2A,
sec:linear-evaluation-algorithm), frozen decisions (Algorithm 2B, sec:frozen-vmf-algorithm) and one
record per run after the training. A validation split besides the test images chooses the learning
rate of the probes and one frozen rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from resultant._core.memory import DEVICE_BYTES, rows_per_chunk
from resultant.classes.rule import REALIZATIONS
from resultant.classes.scores import class_scores
from resultant.classes.statistics import ClassState, ClassStatistics
from resultant.images.evaluation import EvaluationView, Views, source_views
from resultant.images.source import ImageSource, ImageSplits
from resultant.training.encoder import Outputs
from resultant.training.evaluation import accuracies, accuracy, shared_outputs
from resultant.training.job import Trained
from resultant.training.loop import Trainer, require_finite
from resultant_reproduction.recipes.config import ProbeConfig
from resultant_reproduction.recipes.probes import linear_probes, main_encoder

SPACES = ("encoder", "projection")
# tab:frozen-hyperparameters.
FROZEN_TEMPERATURE = 0.1
FROZEN_FITS = ("proco", "mle")
# Learning rates that a validation split chooses from, as multiples of that of the paper.
RATES = (1.0, 10.0, 100.0)


class SplitFeatures(NamedTuple):
    """Features of the networks of a job on the images of a split, on the device of the networks."""

    spaces: dict[str, list[Tensor]]  # features [n, d] float32 of each run, by space
    labels: Tensor  # [n]
    predictions: list[Tensor]  # classes [n] of the classifier of each run, if there is one

    def rows(self, index: Tensor) -> SplitFeatures:
        index = index.to(self.labels.device)
        spaces = {name: [x[index] for x in runs] for name, runs in self.spaces.items()}
        return SplitFeatures(spaces, self.labels[index], [])

    def of_run(self, run: int) -> dict[str, Tensor]:
        """Return the features of a run by space, on the CPU."""
        return {name: runs[run].cpu() for name, runs in self.spaces.items()}


class Features(NamedTuple):
    """Features of the networks of a job."""

    train: SplitFeatures
    test: SplitFeatures  # of the images of `ImageSplits.held_out`
    val: SplitFeatures | None  # of the validation images, if these are others
    balanced: SplitFeatures | None  # of the images that the training images are a subset of


def image_features(
    trained: Trained[Trainer], data: ImageSplits, workers: int | None = None
) -> Features:
    """Compute the features of the network of a job; every process computes a share of them."""
    trainer, config, device = trained.trainee, trained.job.config, trained.trainee.device
    view = EvaluationView(config.size)

    def features(source: ImageSource) -> SplitFeatures:
        views = partial(source_views, source, view, config.channels, device, workers)
        return _features(trainer, views, torch.from_numpy(source.labels))

    held_out = {name: features(source) for name, source in data.held_out_splits.items()}
    if not held_out:
        raise ValueError("expected held-out images to evaluate on, got only training images")
    test, val = held_out.pop(data.held_out), held_out.get("val")
    if data.balanced is None:
        return Features(features(data.train), test, val, None)
    # The subset is computed once, with the others.
    balanced = features(data.balanced)
    train = balanced.rows(torch.from_numpy(data.train.positions_in(data.balanced)))
    return Features(train, test, val, balanced)


def _features(trainer: Trainer, views: Views, labels: Tensor) -> SplitFeatures:
    def keep(out: Outputs) -> list[Tensor]:
        kept = [out.encoder, out.projection]
        return kept if out.logits is None else [*kept, out.logits.argmax(-1)]

    encoder, projection, *classes = shared_outputs(
        trainer.network, len(labels), views, trainer.device, keep
    )
    if main_encoder(trainer.config.dataset) == "unit":
        encoder = F.normalize(encoder, dim=-1)
    spaces = {"encoder": [encoder], "projection": [projection]}
    for (x,) in spaces.values():
        require_finite(x, trainer.run, "after training")
    return SplitFeatures(spaces, labels.to(trainer.device), classes)


def evaluate(
    trained: Trained[Any],
    features: Features,
    num_classes: int,
    held_out: str | None = None,
    probes: ProbeConfig | None = None,
) -> list[dict[str, Any]]:
    """Probe and classify with all networks of a job; return one record per run, with fractions.
    ``held_out`` is the name of the test split of photographs, None for CIFAR."""
    train, test, val, balanced = features
    counts = torch.bincount(train.labels.cpu(), minlength=num_classes)
    records = trained.records(len(train.labels))
    splits, first = [test] if val is None else [test, val], len(test.labels)
    y = torch.cat([split.labels for split in splits])
    pairs = {space: zip(*(a.spaces[space] for a in splits), strict=True) for space in SPACES}
    queries = {space: [torch.cat(x) for x in runs] for space, runs in pairs.items()}
    pools = {"long_tail": train} | ({} if balanced is None else {"balanced": balanced})
    names = [record["run"] for record in records]
    fitted = {
        pool: _probe(
            rows, queries, y, first, counts, probes or ProbeConfig(), names, held_out is not None
        )
        for pool, rows in pools.items()
    }
    # With few rows and classes, compiling the GPU kernels would take longer than the CPU.
    device = torch.device("cpu") if held_out is None else y.device
    y = y.to(device)
    for i, record in enumerate(records):
        if held_out is not None:
            record |= {"held_out": held_out, "classes": num_classes}
            for predicted in test.predictions:
                record["classifier"] = accuracies(predicted, test.labels, counts)
        record["probes"] = {
            pool: {space: by[space][i] for space in SPACES} for pool, by in fitted.items()
        }
        record["frozen"], chosen = {}, {}
        for space in SPACES:
            x, z = (a[space][i].to(device) for a in (train.spaces, queries))
            decided = frozen_predictions(x, train.labels.to(device), z, num_classes)
            record["frozen"][space] = frozen_accuracy(decided, y, slice(first))
            if val is not None:
                scores = frozen_accuracy(decided, y, slice(first, None))
                rules = [(fit, rule) for fit in scores for rule in scores[fit]]
                fit, rule = max(rules, key=lambda key: scores[key[0]][key[1]])
                result = accuracies(decided[fit][rule][:first], y[:first], counts)
                chosen[space] = {"estimator": fit, "realization": rule, **result}
        if chosen:
            record["chosen"] = chosen
    return records


def _probe(
    pool: SplitFeatures,
    queries: dict[str, list[Tensor]],
    y: Tensor,
    first: int,
    counts: Tensor,
    config: ProbeConfig,
    runs: Sequence[str],
    with_rate: bool,
) -> dict[str, list[dict[str, Any]]]:
    """Fit a probe per space, run and learning rate; return accuracies on the ``first`` queries of
    those chosen by the other queries, if any."""
    train, test = ([x for space in SPACES for x in a[space]] for a in (pool.spaces, queries))
    names = [f"{space} of {run}" for space in SPACES for run in runs]
    best: list[tuple[float, dict[str, Any]]] = [(-1.0, {})] * len(test)
    for factor in RATES if first < len(y) else RATES[:1]:
        settings = replace(config, learning_rate=factor * config.learning_rate)
        fitted = linear_probes(train, pool.labels, test, y, len(counts), settings, names=names)
        for k, guesses in enumerate(fitted.predictions):
            score = accuracy(guesses[first:], y[first:]) if first < len(y) else 0.0
            if score > best[k][0]:
                result: dict[str, Any] = accuracies(guesses[:first], y[:first], counts)
                result |= {"learning_rate": settings.learning_rate} if with_rate else {}
                best[k] = score, result
    rows = [result for _, result in best]
    return {"encoder": rows[: len(runs)], "projection": rows[len(runs) :]}


def frozen_accuracy(
    predictions: dict[str, dict[str, Tensor]], labels: Tensor, rows: slice = slice(None)
) -> dict[str, dict[str, float]]:
    """Return the accuracy of `frozen_predictions` for labels [m], by estimator and realization."""
    return {
        fit: {rule: accuracy(guesses[rows], labels[rows]) for rule, guesses in by_rule.items()}
        for fit, by_rule in predictions.items()
    }


def frozen_predictions(
    x: Tensor, y: Tensor, queries: Tensor, num_classes: int
) -> dict[str, dict[str, Tensor]]:
    """Classify queries [m, d] at beta = 0 without offset, by classes fitted to x [n, d], y [n]."""
    x, queries = (F.normalize(a, dim=-1) for a in (x, queries))
    statistics = ClassStatistics(num_classes, x.shape[1]).to(x.device)
    statistics.update(x, y)
    pieces = queries.split(rows_per_chunk(num_classes * queries.element_size(), DEVICE_BYTES))

    def predict(state: ClassState, rule: str) -> Tensor:
        scores = (class_scores(z, state, FROZEN_TEMPERATURE, rule) for z in pieces)
        return torch.cat([a.argmax(-1) for a in scores])

    states = {fit: statistics.state(fit) for fit in FROZEN_FITS}
    return {fit: {rule: predict(a, rule) for rule in REALIZATIONS} for fit, a in states.items()}
