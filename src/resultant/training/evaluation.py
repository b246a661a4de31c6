"""Evaluation of networks: linear probes (Algorithm 2A, sec:linear-evaluation-algorithm), frozen
decisions (Algorithm 2B, sec:frozen-vmf-algorithm) and one record per run after the training, and
hooks of the training loop: tests and gradients. A validation split besides the test images chooses
the learning rate of the probes and one frozen rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from resultant._core.device import versions
from resultant._core.memory import DEVICE_BYTES, rows_per_chunk
from resultant.classes.realization import class_scores, realize
from resultant.classes.rule import REALIZATIONS
from resultant.classes.statistics import ClassState, ClassStatistics
from resultant.decisions.gradients import loss_gradient, mean_relative_error, stacked_relative_error
from resultant.images.cifar import Cifar
from resultant.images.source import ImageSource, ImageSplits
from resultant.images.store import open_store
from resultant.networks.stacked_resnet import Outputs, StackedResNet32
from resultant.networks.timm_encoder import EvaluationView
from resultant.training import inference
from resultant.training.config import ProbeConfig
from resultant.training.inference import StoredViews, Views, cifar_views, source_views
from resultant.training.job import Trained
from resultant.training.photo_batches import PhotoBatches
from resultant.training.probe import accuracies, accuracy, linear_probes, main_encoder
from resultant.training.stack import Stack, require_finite

SPACES = ("encoder", "projection")
# tab:frozen-hyperparameters.
FROZEN_TEMPERATURE = 0.1
FROZEN_FITS = ("proco", "mle")
# Learning rates that a validation split chooses from, as multiples of that of the paper.
RATES = (1.0, 10.0, 100.0)

# Training images of the gradient diagnostic.
QUERIES = 512

Rows = list[dict[str, Any]]
# Called after an epoch with the epoch, the stacks and a row per run, to which it adds values.
Hook = Callable[[int, Sequence[Stack], Rows], None]
# Further values for each run of a stack, from its projections [runs, n, p] of the queries and their
# labels [n], both on the CPU.
Diagnostic = Callable[[Stack, Tensor, Tensor], list[dict[str, Any]]]


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


def network_features(
    trained: Trained, data: Cifar | ImageSplits, workers: int | None = None
) -> Features:
    """Compute the features of the networks of a job; every process computes a share of them."""
    stacks, config, device = trained.stacks, trained.job.config, trained.stacks[0].device
    if isinstance(data, Cifar):
        views = partial(cifar_views, data.train_images.to(device), torch.float32)
        balanced = _features(stacks, views, data.train_labels)
        train = balanced.rows(data.members(config.imbalance, config.subset))
        views = partial(cifar_views, data.test_images.to(device), torch.float32)
        return Features(train, _features(stacks, views, data.test_labels), None, balanced)
    view, batches = EvaluationView(config.size), stacks[0].batches
    assert isinstance(batches, PhotoBatches)

    def stored(source: ImageSource) -> SplitFeatures:
        """Compute features of images that are decoded already, in the store of the training."""
        store = open_store(source, batches.store.folder.parent, view.short_side, workers)
        place = batches.placement if source is batches.source else None
        views = StoredViews(store, view, config.channels, torch.float32, device, place)
        return _features(stacks, views, torch.from_numpy(source.labels))

    held_out = {name: stored(source) for name, source in data.held_out_splits.items()}
    if not held_out:
        raise ValueError("expected held-out images to evaluate on, got only training images")
    test, val = held_out.pop(data.held_out), held_out.get("val")
    if data.balanced is None:
        return Features(stored(data.train), test, val, None)
    # The subset is computed once, with the others, which no store holds.
    views = partial(source_views, data.balanced, view, config.channels, device, workers)
    balanced = _features(stacks, views, torch.from_numpy(data.balanced.labels))
    train = balanced.rows(torch.from_numpy(data.train.positions_in(data.balanced)))
    return Features(train, test, val, balanced)


def _features(stacks: Sequence[Stack], views: Views, labels: Tensor) -> SplitFeatures:
    def keep(outputs: Outputs) -> list[Tensor]:
        kept = [getattr(outputs, space).transpose(0, 1) for space in SPACES]
        return kept if outputs.logits is None else [*kept, outputs.logits.argmax(-1).T]

    spaces: dict[str, list[Tensor]] = {space: [] for space in SPACES}
    predictions: list[Tensor] = []
    for stack in stacks:
        options = stack.network, len(labels), views, stack.device, keep
        encoder, projection, *classes = inference.shared_outputs(*options)
        if main_encoder(stack.config.dataset) == "unit":
            encoder = F.normalize(encoder, dim=-1)
        for space, features in zip(SPACES, (encoder, projection), strict=True):
            for run, x in zip(stack.runs, features.transpose(0, 1).contiguous(), strict=True):
                require_finite(x, run, "after training")
                spaces[space].append(x)
        predictions += [a for c in classes for a in c.T]
    return SplitFeatures(spaces, labels.to(stacks[0].device), predictions)


def evaluate(
    trained: Trained,
    data: Cifar | ImageSplits,
    probes: ProbeConfig | None = None,
    workers: int | None = None,
    features: Features | None = None,
) -> list[dict[str, Any]]:
    """Probe and classify with all networks of a job; return one record per run, with fractions."""
    train, test, val, balanced = features or network_features(trained, data, workers)
    classes, photographs = data.num_classes, isinstance(data, ImageSplits)
    counts = torch.bincount(train.labels.cpu(), minlength=classes)
    records = base_records(trained, len(train.labels))
    held_out, first = [test] if val is None else [test, val], len(test.labels)
    y = torch.cat([split.labels for split in held_out])
    pairs = {space: zip(*(a.spaces[space] for a in held_out), strict=True) for space in SPACES}
    queries = {space: [torch.cat(x) for x in runs] for space, runs in pairs.items()}
    pools = {"long_tail": train} | ({} if balanced is None else {"balanced": balanced})
    names = [record["run"] for record in records]
    options = queries, y, first, counts, probes or ProbeConfig(), names, photographs
    fitted = {pool: _probe(rows, *options) for pool, rows in pools.items()}
    # With few rows and classes, compiling the GPU kernels would take longer than the CPU.
    device = y.device if photographs else torch.device("cpu")
    y = y.to(device)
    for i, record in enumerate(records):
        if photographs:
            record |= {"held_out": data.held_out, "classes": classes}
            for predicted in test.predictions:
                record["classifier"] = accuracies(predicted, test.labels, counts)
        record["probes"] = {
            pool: {space: by[space][i] for space in SPACES} for pool, by in fitted.items()
        }
        record["frozen"], chosen = {}, {}
        for space in SPACES:
            x, z = (a[space][i].to(device) for a in (train.spaces, queries))
            decided = frozen_predictions(x, train.labels.to(device), z, classes)
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


def base_records(trained: Trained, train_images: int) -> list[dict[str, Any]]:
    """Return one record per run without evaluation: its settings, its time and its last epoch."""
    images = trained.stacks[0].batches.digest
    return [
        {
            "run": run.name,
            **asdict(run),
            "config": asdict(trained.job.config),
            "train_images": train_images,
            "images": images,
            "versions": versions(stack.device),
            "job_runs": len(trained.job.runs),
            "job_seconds": trained.seconds,
            # Existing records have this name.
            "beside": trained.concurrent_jobs,
            "last": trained.metrics.get(run.name, {}),
        }
        for run, stack, _ in trained.networks()
    ]


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
        options = pool.labels, test, y, len(counts), settings
        for k, guesses in enumerate(linear_probes(train, *options, names=names).predictions):
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


@dataclass(frozen=True, eq=False)
class HeldOutTest:
    """Test the classifiers on held-out images, without prior; every process computes its share."""

    views: Views
    labels: Tensor  # [n]
    counts: Tensor  # training images per class [C], for the shot groups of `accuracies`
    every: int  # epochs between tests; the last epoch is tested in any case

    def __call__(self, epoch: int, stacks: Sequence[Stack], rows: Rows) -> None:
        if epoch != stacks[0].config.epochs and epoch % self.every:
            return

        def classes(outputs: Outputs) -> list[Tensor]:
            assert outputs.logits is not None
            return [outputs.logits.argmax(-1).T]

        remaining = iter(rows)
        for stack in stacks:
            autocast = None if stack.small else stack.autocast
            options = len(self.labels), self.views, stack.device, classes, autocast
            (predicted,) = inference.shared_outputs(stack.network, *options)
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
            z = inference.outputs(stack.network, self.images[queries], torch.float32).projection
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
