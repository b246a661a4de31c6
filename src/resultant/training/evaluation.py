"""What a trained network is worth: linear probes and frozen decisions, and a line to record it.

Algorithm 2A (sec:linear-evaluation-algorithm) fits affine classifiers to Encoder and Projection
features of the long-tailed subset and of the balanced set; Algorithm 2B
(sec:frozen-vmf-algorithm) fits a vMF distribution a class and decides by its scores.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from resultant._core.versions import versions
from resultant.classes.realization import class_scores
from resultant.classes.rule import REALIZATIONS
from resultant.classes.statistics import ClassStatistics
from resultant.images.cifar import Cifar
from resultant.networks.models import StackedResNet32
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
    """What the networks of a job make of CIFAR without augmentation, in float32 on their device.

    ``spaces`` has, by name, a tensor [n + m, d] for each of the ``runs``: n training images and
    after them m test images, with ``labels`` [n] and ``test_labels`` [m]. ``members`` are the rows
    of the long-tailed subset; ``whole`` says whether the others are the balanced set or left out.
    """

    runs: tuple[Run, ...]
    spaces: dict[str, list[Tensor]]
    labels: Tensor
    test_labels: Tensor
    members: Tensor
    whole: bool

    @property
    def pools(self) -> dict[str, Tensor]:
        """The rows that a probe trains on, by name of the pool."""
        pools = {"long_tail": self.members}
        if self.whole:
            pools["balanced"] = torch.arange(len(self.labels), device=self.labels.device)
        return pools

    def subset(self, space: str, run: int) -> tuple[Tensor, Tensor]:
        """The features of the long-tailed subset and of the test images."""
        x = self.spaces[space][run]
        return x[self.members], x[len(self.labels) :]


def cifar_features(trained: Trained, data: Cifar) -> CifarFeatures:
    """The features of all runs of a job; of the subset alone where not all images are there."""
    device = trained.stacks[0].device
    config = trained.job.config
    members = data.members(config.imbalance, config.subset)
    read = torch.arange(len(data.train_labels)) if data.whole else members
    images = torch.cat([data.images_at(read), data.test_images]).to(device)
    spaces: dict[str, list[Tensor]] = {"encoder": [], "projection": []}
    for stack in trained.stacks:
        assert isinstance(stack.network, StackedResNet32)
        found = outputs(stack.network, images, torch.float32)
        for name, each in spaces.items():
            each += getattr(found, name).unbind(0)
    return CifarFeatures(
        tuple(run for stack in trained.stacks for run in stack.runs),
        spaces,
        data.train_labels[read].to(device),
        data.test_labels.to(device),
        (members if data.whole else torch.arange(len(members))).to(device),
        data.whole,
    )


def evaluate_cifar(
    trained: Trained,
    data: Cifar,
    probes: ProbeConfig | None = None,
    features: CifarFeatures | None = None,
) -> list[dict]:
    """One record a run: configuration, versions, time, probes and frozen decisions.

    All runs are probed at once. Accuracies are fractions. Probes of the balanced set are left out
    where not all of its images are there. ``features`` are made if they are not at hand. A run
    that has diverged is an error.
    """
    made = features or cifar_features(trained, data)
    for each in made.spaces.values():
        for run, x in zip(made.runs, each, strict=True):
            require_finite(x, run, "after training")
    labels, members = made.labels, made.members
    counts = torch.bincount(labels[members], minlength=data.num_classes)
    records = base_records(trained, len(members))
    both = made.spaces["encoder"] + made.spaces["projection"]
    held_out = [x[len(labels) :] for x in both]
    for pool, rows in made.pools.items():
        result = linear_probes(
            [x[rows] for x in both],
            labels[rows],
            held_out,
            made.test_labels,
            data.num_classes,
            probes,
            counts=counts,
        ).to_dict()
        for name, first in (("encoder", 0), ("projection", len(records))):
            for i, record in enumerate(records):
                record.setdefault("probes", {}).setdefault(pool, {})[name] = _row(result, first + i)
    # Few rows and classes: on a GPU, kernels would be compiled for longer than this takes here.
    y, held_out_labels = labels[members].cpu(), made.test_labels.cpu()
    for name in made.spaces:
        for run, record in enumerate(records):
            x, queries = (a.cpu() for a in made.subset(name, run))
            found = frozen_accuracy(x, y, queries, held_out_labels, data.num_classes)
            record.setdefault("frozen", {})[name] = found
    return records


def base_records(trained: Trained, train_images: int) -> list[dict]:
    """What is known of each run without evaluation: how it was made, and its last epoch."""
    return [
        {
            "run": run.name,
            **asdict(run),
            "config": asdict(trained.job.config),
            "train_images": train_images,
            "versions": versions(stack.device),
            "job_runs": len(trained.job.runs),
            "job_seconds": trained.seconds,
            # The name in records that exist.
            "beside": trained.concurrent_jobs,
            "last": trained.metrics.get(run.name, {}),
        }
        for run, stack, _ in trained.networks()
    ]


def frozen_accuracy(
    x: Tensor, y: Tensor, queries: Tensor, labels: Tensor, num_classes: int
) -> dict[str, dict[str, float]]:
    """Accuracy of each decision rule at beta = 0 and no offset, for each estimator of kappa."""
    x, queries = (F.normalize(a, dim=-1) for a in (x, queries))
    statistics = ClassStatistics(num_classes, x.shape[1]).to(x.device)
    statistics.update(x, y)
    found: dict[str, dict[str, float]] = {}
    for estimator in FROZEN_FITS:
        state = statistics.state(estimator)
        found[estimator] = {}
        for rule in REALIZATIONS:
            scores = class_scores(queries, state, FROZEN_TEMPERATURE, rule)
            found[estimator][rule] = float((scores.argmax(-1) == labels).double().mean())
    return found


def _row(result: dict[str, Any], i: int) -> dict[str, Any]:
    """Probe i of a `ProbeResult` in JSON, without its class by class accuracies."""
    row: dict[str, Any] = {"accuracy": result["accuracy"][i]}
    groups = result.get("groups") or {}
    return row | {name: values[i] for name, values in groups.items()}
