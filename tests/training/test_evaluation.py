"""The records of trained runs, against accuracies counted by hand."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.special import ive
from torch import Tensor

from resultant._core.validation import DivergedError
from resultant.classes.rule import REALIZATIONS
from resultant.features.store import FeatureStore
from resultant.images.longtail import long_tail_indices
from resultant.networks.outputs import Outputs
from resultant.networks.stacked_resnet import StackedResNet32
from resultant.training.cifar import train_cifar
from resultant.training.config import Run
from resultant.training.evaluation import (
    FROZEN_FITS,
    evaluate,
    frozen_accuracy,
    frozen_predictions,
    network_features,
)
from resultant.training.extract import extract
from resultant.training.inference import outputs
from resultant.training.job import Job, Trained
from resultant.training.loading import load_network
from resultant.training.probe import ProbeConfig, linear_probes
from resultant.vmf.estimators import concentration
from tiny_cifar import tiny_cifar, tiny_config

# Many test images, so that the rules can differ.
DATA = tiny_cifar(each=6, test=20, size=8)
PROBES = ProbeConfig(epochs=3, batch_size=8)
RUNS = (Run("native", seed=0), Run("angular", 0.0, 0), Run("native", seed=1))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    config = tiny_config(batch_size=6, epochs=1)
    with pytest.MonkeyPatch.context() as patch:
        # Two steps then give the norms their moments, and the features some spread.
        patch.setattr("resultant.networks.norm.MOMENTUM", 0.7)
        return train_cifar(Job(config, RUNS, tmp_path_factory.mktemp("job"), stack=2), DATA)


@pytest.fixture(scope="module")
def records(trained: Trained) -> list[dict]:
    return evaluate(trained, DATA, PROBES)


Features = dict[tuple[int, str], tuple[Tensor, Tensor]]


@pytest.fixture(scope="module")
def features(trained: Trained) -> Features:
    """Features of the training and test images, by index of the run and by space."""
    images = torch.cat([DATA.train_images, DATA.test_images])
    features: Features = {}
    for number, (_, stack, index) in enumerate(trained.networks()):
        assert isinstance(stack.network, StackedResNet32)
        result = outputs(stack.network, images, torch.float32)
        for space in ("encoder", "projection"):
            train, test = getattr(result, space)[index].split([24, 80])
            features[number, space] = train, test
    return features


@pytest.mark.slow
def test_records(trained: Trained, records: list[dict]) -> None:
    assert [record["run"] for record in records] == [run.name for run in RUNS]
    assert json.loads(json.dumps(records, allow_nan=False)) is not None
    for run, record in zip(RUNS, records, strict=True):
        assert (record["realization"], record["beta"], record["seed"]) == (
            *(run.realization, run.beta, run.seed),
        )
        assert record["config"]["batch_size"] == 6 and record["config"]["dim"] == 8
        assert (record["train_images"], record["job_runs"]) == (14, 3)
        assert record["job_seconds"] == trained.seconds > 0
        assert record["versions"]["torch"] == torch.__version__
        assert record["versions"].keys() == {"resultant", "code", "torch", "python"}
        assert re.fullmatch("[0-9a-f]{12}", record["versions"]["code"])
        assert record["images"] == trained.stacks[0].batches.digest
        assert record["last"] == trained.metrics[run.name] and record["last"]["epoch"] == 1


@pytest.mark.slow
@pytest.mark.parametrize(("space", "value"), [("encoder", torch.nan), ("projection", 0.0)])
def test_a_run_that_diverged_is_named(
    trained: Trained, space: str, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Features may be infinite although the weights are finite."""
    forward = StackedResNet32.forward

    def diverged(self: StackedResNet32, x: Tensor) -> Outputs:
        result = forward(self, x)
        if len(result.encoder) == 2:
            getattr(result, space)[1, -1] = value
        return result

    monkeypatch.setattr(StackedResNet32, "forward", diverged)
    message = r"expected features of finite length .*, got others of angular-beta0-seed0 after"
    with pytest.raises(DivergedError, match=message):
        evaluate(trained, DATA, PROBES)


@pytest.mark.slow
def test_another_subset(tmp_path: Path) -> None:
    """Training, evaluation and extraction use the subset of the seed."""
    usual, other = (long_tail_indices(DATA.train_labels, 4, 3.0, seed) for seed in (0, 5))
    assert not torch.equal(usual, other)
    config = tiny_config(batch_size=6, epochs=1, subset=5)
    trained = train_cifar(Job(config, RUNS[:1], tmp_path), DATA)
    train = network_features(trained, DATA).train
    assert torch.equal(train.labels, DATA.train_labels[other])
    (record,) = evaluate(trained, DATA, PROBES)
    assert record["config"]["subset"] == 5 and record["train_images"] == len(other)
    extract(load_network(tmp_path / "native-seed0.safetensors"), DATA, tmp_path / "x.safetensors")
    store = FeatureStore.open(tmp_path / "x.safetensors")
    assert torch.equal(store["train/identities"], other)
    # The images outside the subset have no effect on the training.
    images = 255 - DATA.train_images
    images[other] = DATA.train_images[other]
    again = train_cifar(
        Job(config, RUNS[:1], tmp_path / "again"), replace(DATA, train_images=images)
    )
    assert torch.equal(again.stacks[0].total, trained.stacks[0].total)


@pytest.mark.slow
def test_probes(features: Features, records: list[dict]) -> None:
    """Probes fitted at once equal probes of each run and space alone."""
    members = long_tail_indices(DATA.train_labels, 4, 3.0)
    counts = torch.bincount(DATA.train_labels[members])
    for number, record in enumerate(records):
        for pool, rows in (("long_tail", members), ("balanced", slice(None))):
            for space in ("encoder", "projection"):
                x, queries = features[number, space]
                labels = DATA.train_labels[rows]
                alone = linear_probes(
                    *(x[rows][None], labels, queries[None], DATA.test_labels, 4, PROBES),
                    counts=counts,
                ).to_dict()
                groups = alone["groups"]
                assert isinstance(groups, dict) and isinstance(alone["accuracy"], list)
                assert record["probes"][pool][space] == {
                    "accuracy": alone["accuracy"][0],
                    **{name: a[0] for name, a in groups.items() if a[0] is not None},
                }
    assert len({json.dumps(record["probes"]) for record in records}) > 1


def naive_frozen(
    x: Tensor, y: Tensor, queries: Tensor, estimator: str, rule: str
) -> tuple[float, float]:
    """Fit a vMF distribution per class, and decide by the highest score at beta = 0.

    Returns the smallest and largest accuracy in float32, in which at most one query is undecided.
    """
    v, z = (F.normalize(a, dim=1).double().numpy() for a in (x, queries))
    p, tau, nu = v.shape[1], 0.1, v.shape[1] / 2 - 1
    means = np.stack([v[y.numpy() == c].mean(0) for c in range(4)])
    R = np.linalg.norm(means, axis=1)
    rho = z @ (means / R[:, None]).T
    kappa = p * R / (1 - R**2)
    assert kappa.max() < 1e5
    if estimator == "mle":
        kappa = concentration(p, torch.from_numpy(R), "mle").numpy()
        np.testing.assert_allclose(ive(p / 2, kappa) / ive(nu, kappa), R)

    def q(rho: np.ndarray | float, tau: np.ndarray | float) -> np.ndarray:
        tilted = np.sqrt(kappa**2 + 1 / tau**2 + 2 * kappa * rho / tau)
        top = np.log(ive(nu, tilted)) + tilted - nu * np.log(tilted)
        return top - np.log(ive(nu, kappa)) - kappa + nu * np.log(kappa)

    g = ive(p / 2, kappa) / ive(nu, kappa) / tau
    star = g * tau / g.mean()
    scores = {
        "native": q(rho, tau),
        "temperature": q(rho, star),
        "preserve": q(rho, star) - q(0.0, star) + q(0.0, tau),
        "angular": q(rho, tau) + (g.mean() - g) * rho,
        "cosine": rho,
    }[rule]
    second, best = np.sort(scores, axis=1)[:, -2:].T
    open_ = best - second < 1e-6 * abs(best)
    assert open_.sum() <= 1
    right = scores.argmax(1) == DATA.test_labels.numpy()
    return float((right & ~open_).mean()), float((right | open_).mean())


@pytest.mark.slow
@pytest.mark.parametrize("space", ["encoder", "projection"])
def test_frozen_decisions(features: Features, records: list[dict], space: str) -> None:
    members = long_tail_indices(DATA.train_labels, 4, 3.0)
    for number, record in enumerate(records):
        x, queries = features[number, space]
        accuracies = record["frozen"][space]
        assert accuracies.keys() == set(FROZEN_FITS)
        for estimator, rule in product(FROZEN_FITS, REALIZATIONS):
            labels = DATA.train_labels[members]
            least, most = naive_frozen(x[members], labels, queries, estimator, rule)
            assert least <= accuracies[estimator][rule] <= most


def test_frozen_rules_differ() -> None:
    """Classes of unequal spread, on which the rules disagree."""
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(4, 16, generator=generator)
    spread = torch.tensor([0.3, 0.8, 1.5, 3.0])
    y = torch.arange(80) % 4
    noise = torch.randn(2, 80, 16, generator=generator) * spread[y][:, None]
    x, queries = centres[y] + noise
    assert torch.equal(y, DATA.test_labels)
    accuracies = frozen_accuracy(frozen_predictions(x, y, queries, 4), y)
    for estimator in FROZEN_FITS:
        expected = {rule: naive_frozen(x, y, queries, estimator, rule) for rule in REALIZATIONS}
        assert {rule: (own, own) for rule, own in accuracies[estimator].items()} == expected
        assert len(set(expected.values())) >= 3
