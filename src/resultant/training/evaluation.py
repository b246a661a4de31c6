"""Evaluation of trained networks: linear probes, frozen decisions, and one record per run.

Algorithm 2A (sec:linear-evaluation-algorithm) fits affine classifiers to encoder and projection
features of the long-tailed subset and of the balanced set. Algorithm 2B (sec:frozen-vmf-algorithm)
fits a vMF distribution per class and decides by its scores.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from resultant._core.chunks import DEVICE_BYTES, rows_per_chunk
from resultant._core.versions import versions
from resultant.classes.realization import class_scores
from resultant.classes.rule import REALIZATIONS
from resultant.classes.statistics import ClassStatistics
from resultant.images.cifar import Cifar
from resultant.networks.stacked_resnet import StackedResNet32
from resultant.training.accuracy import accuracy
from resultant.training.config import Run
from resultant.training.inference import outputs
from resultant.training.job import Trained
from resultant.training.probe import ProbeConfig, linear_probes
from resultant.training.stack import require_finite

# tab:frozen-hyperparameters.
FROZEN_TEMPERATURE = 0.1
FROZEN_FITS = ("proco", "mle")


@dataclass(frozen=True, eq=False)
class CifarFeatures:
    """Features of the networks of a job on CIFAR, in float32 on the device of the networks.

    Attributes:
        runs: The runs of the job.
        spaces: For ``encoder`` and ``projection`` one tensor [n + m, d] per run: n training images,
            then m test images.
        labels: Labels [n] of the training images.
        test_labels: Labels [m] of the test images.
        members: Rows of the long-tailed subset.
    """

    runs: tuple[Run, ...]
    spaces: dict[str, list[Tensor]]
    labels: Tensor
    test_labels: Tensor
    members: Tensor

    @property
    def pools(self) -> dict[str, Tensor]:
        """Rows that a probe trains on, by name of the pool."""
        balanced = torch.arange(len(self.labels), device=self.labels.device)
        return {"long_tail": self.members, "balanced": balanced}

    def subset(self, space: str, run: int) -> tuple[Tensor, Tensor]:
        """Return the features of the long-tailed subset and of the test images."""
        x = self.spaces[space][run]
        return x[self.members], x[len(self.labels) :]


def cifar_features(trained: Trained, data: Cifar) -> CifarFeatures:
    """Compute the features of all runs of a job."""
    device = trained.stacks[0].device
    config = trained.job.config
    images = torch.cat([data.train_images, data.test_images]).to(device)
    spaces: dict[str, list[Tensor]] = {"encoder": [], "projection": []}
    for stack in trained.stacks:
        assert isinstance(stack.network, StackedResNet32)
        result = outputs(stack.network, images, torch.float32)
        for name, features in spaces.items():
            features += getattr(result, name).unbind(0)
    return CifarFeatures(
        tuple(run for stack in trained.stacks for run in stack.runs),
        spaces,
        data.train_labels.to(device),
        data.test_labels.to(device),
        data.members(config.imbalance, config.subset).to(device),
    )


def evaluate_cifar(
    trained: Trained,
    data: Cifar,
    probes: ProbeConfig | None = None,
    features: CifarFeatures | None = None,
) -> list[dict]:
    """Probe and classify with all networks of a job.

    Args:
        trained: The finished job.
        data: CIFAR images.
        probes: Settings of the probes; None for those of the paper.
        features: Features of the networks; None to compute them.

    Returns:
        One record per run: configuration, versions, time, probes and frozen decisions. Accuracies
        are fractions.

    Raises:
        DivergedError: If the features of a run are not finite.
    """
    features = features or cifar_features(trained, data)
    for space in features.spaces.values():
        for run, x in zip(features.runs, space, strict=True):
            require_finite(x, run, "after training")
    labels, members = features.labels, features.members
    counts = torch.bincount(labels[members], minlength=data.num_classes)
    records = base_records(trained, len(members))
    both = features.spaces["encoder"] + features.spaces["projection"]
    held_out = [x[len(labels) :] for x in both]
    for pool, rows in features.pools.items():
        result = linear_probes(
            [x[rows] for x in both],
            labels[rows],
            held_out,
            features.test_labels,
            data.num_classes,
            probes,
            counts=counts,
        ).to_dict()
        for name, first in (("encoder", 0), ("projection", len(records))):
            for i, record in enumerate(records):
                row = _row(result, first + i)
                record.setdefault("probes", {}).setdefault(pool, {})[name] = row
    # With few rows and classes, compiling the GPU kernels would take longer than the CPU.
    y, held_out_labels = labels[members].cpu(), features.test_labels.cpu()
    for name in features.spaces:
        for run, record in enumerate(records):
            x, queries = (a.cpu() for a in features.subset(name, run))
            result = frozen_accuracy(x, y, queries, held_out_labels, data.num_classes)
            record.setdefault("frozen", {})[name] = result
    return records


def base_records(trained: Trained, train_images: int) -> list[dict]:
    """Return one record per run without evaluation: its settings, its time and its last epoch."""
    images = trained.stacks[0].batches.digest()
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


def frozen_accuracy(
    x: Tensor, y: Tensor, queries: Tensor, labels: Tensor, num_classes: int
) -> dict[str, dict[str, float]]:
    """Compute the accuracy of `frozen_predictions` for labels [m], by estimator and realization.

    Example:
        >>> import torch
        >>> from resultant.training.evaluation import frozen_accuracy
        >>> x, y = torch.eye(4).repeat(2, 1) + 0.1, torch.arange(4).repeat(2)
        >>> frozen_accuracy(x, y, x, y, 4)["mle"]["angular"]
        1.0
    """
    predictions = frozen_predictions(x, y, queries, num_classes)
    return {
        estimator: {
            realization: accuracy(predicted, labels)
            for realization, predicted in by_realization.items()
        }
        for estimator, by_realization in predictions.items()
    }


def frozen_predictions(
    x: Tensor, y: Tensor, queries: Tensor, num_classes: int
) -> dict[str, dict[str, Tensor]]:
    """Classify queries [m, d] at beta = 0 without offset, by classes fitted to x [n, d], y [n].

    Returns:
        The classes [m] by estimator of kappa and by realization.
    """
    x, queries = (F.normalize(a, dim=-1) for a in (x, queries))
    statistics = ClassStatistics(num_classes, x.shape[1]).to(x.device)
    statistics.update(x, y)
    pieces = queries.split(rows_per_chunk(num_classes * queries.element_size(), DEVICE_BYTES))
    predictions: dict[str, dict[str, Tensor]] = {}
    for estimator in FROZEN_FITS:
        state = statistics.state(estimator)
        predictions[estimator] = {
            realization: torch.cat(
                [class_scores(z, state, FROZEN_TEMPERATURE, realization).argmax(-1) for z in pieces]
            )
            for realization in REALIZATIONS
        }
    return predictions


def _row(result: dict[str, Any], i: int) -> dict[str, Any]:
    """Select probe i of a `ProbeResult` as JSON, without its accuracies per class."""
    row: dict[str, Any] = {"accuracy": result["accuracy"][i]}
    groups = result.get("groups") or {}
    return row | {name: values[i] for name, values in groups.items()}
