"""Metrics of a job against SciPy's Bessel functions; damaged files of them; records of runs."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.special import ive
from torch import Tensor

from frozen_data import score
from resultant.classes.rule import REALIZATIONS
from resultant.features.store import FeatureStore
from resultant.images.longtail import long_tail_indices
from resultant.training.checkpoints import load_network
from resultant.training.config import Run
from resultant.training.extract import extract
from resultant.training.log import read_metrics
from resultant_reproduction.cifar.evaluation import cifar_features, outputs
from resultant_reproduction.cifar.job import CifarJob
from resultant_reproduction.cifar.network import StackedResNet32
from resultant_reproduction.cifar.train import train_cifar
from resultant_reproduction.recipes.config import ProbeConfig
from resultant_reproduction.recipes.evaluation import evaluate
from resultant_reproduction.recipes.probes import linear_probes
from tiny_cifar import DATA, TWO, config, metrics, tiny_cifar


def leading_gradient_error(
    z: Tensor, y: Tensor, mu: np.ndarray, kappa: np.ndarray, prior: np.ndarray, at_zero: bool
) -> float:
    """Error of the leading gradients of native scores, on the tangent space, in percent."""
    x, p, tau = z.numpy(), z.shape[1], 0.1
    rho, nu = x @ mu.T, p / 2 - 1
    tilted = np.sqrt(kappa**2 + 1 / tau**2 + 2 * kappa * rho / tau)
    slope = ive(p / 2, tilted) / ive(nu, tilted) * kappa / (tau * tilted)
    gain = np.broadcast_to(ive(p / 2, kappa) / ive(nu, kappa) / tau, rho.shape)
    gradients = []
    linear = gain * rho + (score(0.0, kappa, tau, p) if at_zero else 0.0)
    for q, dq in ((score(rho, kappa, tau, p), slope), (linear, gain)):
        share = np.exp(q + prior)
        residual = share / share.sum(1, keepdims=True) - np.eye(len(mu))[y.numpy()]
        G = (residual * dq) @ mu
        gradients.append(G - (G * x).sum(1, keepdims=True) * x)
    exact, leading = gradients
    return 100 * float(np.linalg.norm(exact - leading) / np.linalg.norm(exact))


@pytest.mark.slow
def test_metrics_against_scipy(tmp_path: Path) -> None:
    runs = tuple(Run(realization, 0.0) for realization in REALIZATIONS)
    runs += (Run("temperature", 0.5), Run("angular", 2.0))
    job = CifarJob(config(epochs=2), runs, tmp_path, gradient_epochs=(2,), stack=4)
    trained = train_cifar(job, DATA)
    assert [len(stack.runs) for stack in trained.trainee.stacks] == [4, 3]
    rows = metrics(tmp_path)
    assert ["gradient_error" in row for row in rows] == [False] * 7 + [True] * 7
    assert not any("accuracy" in row for row in rows)
    p, tau = 8, 0.1
    members = long_tail_indices(DATA.train_labels, 4, 3.0)
    images, y = DATA.train_images[members], DATA.train_labels[members]
    assert len(images) == 14
    for run, stack, index in trained.trainee.networks():
        row = trained.metrics[run.name]
        assert row == next(r for r in rows if r["epoch"] == 2 and r["run"] == run.name)
        sums = stack.proco.bank.sums()[index].numpy()
        mean = sums[:, :-1] / sums[:, -1:]
        R = np.linalg.norm(mean, axis=1)
        kappa = np.minimum(p * R / (1 - R**2), 1e5)
        g = ive(p / 2, kappa) / ive(p / 2 - 1, kappa) / tau
        target = g.mean() + run.beta * (g - g.mean())
        applied = {"native": g, "cosine": np.full(4, g.mean())}.get(run.realization, target)
        drift = np.zeros(4)
        if run.realization == "temperature":
            drift = score(0.0, kappa, g * tau / target, p) - score(0.0, kappa, tau, p)
            assert np.abs(drift).mean() > 1e-3
        elif run.realization == "cosine":
            drift = score(0.0, kappa, tau, p)
        expected = {
            "gain_mean": g.mean(),
            "gain_sd": g.std(ddof=1),
            "applied_gain_sd": applied.std(ddof=1),
            "kappa_min": kappa.min(),
            "kappa_max": kappa.max(),
            "intercept_drift": np.abs(drift).mean(),
        }
        logged = {name: row[name] for name in expected}
        assert logged == pytest.approx(expected, rel=1e-9, abs=1e-10), run.name
        if run.realization in ("native", "angular"):
            assert row["intercept_drift"] == 0
        if run.realization == "native":
            assert isinstance(stack.network, StackedResNet32)
            z = outputs(stack.network, images, torch.float32).projection[index].double()
            prior = np.log(np.bincount(y) / 14)
            for name, at_zero in (("", True), ("_without_intercept", False)):
                error = leading_gradient_error(z, y, mean / R[:, None], kappa, prior, at_zero)
                assert row[f"gradient_error{name}"] == pytest.approx(error, rel=1e-5)


LINE = b'{"run": "native-seed0", "epoch": 1, "loss": 2.0}\n'


def test_damaged_metrics_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(LINE + LINE[:20])
    # A part of the last line is left out.
    assert len(read_metrics(path)) == 1
    for content, line in (
        (bytes(range(128, 256)), 1),
        (LINE.replace(b"1,", b"1") + LINE, 1),
        (LINE + LINE + b"\0" * 40, 3),
        (b"1\n" + LINE, 1),
    ):
        path.write_bytes(content)
        rule = f"expected the metrics of a run and epoch, a JSON object, at .*metrics.jsonl:{line}"
        with pytest.raises(ValueError, match=rule + ", got.*; restore the file, or start again in"):
            read_metrics(path)


def test_a_finished_job_without_its_metrics(finished: Path, tmp_path: Path) -> None:
    """Nothing else says how the job ended."""
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    job, path = CifarJob(config(epochs=1), TWO, tmp_path), tmp_path / "metrics.jsonl"
    whole = path.read_text()
    path.unlink()
    for lines in ("", whole.splitlines(keepends=True)[0]):
        if lines:
            path.write_text(lines)
        message = "expected loss of all runs after epoch 1 in .*metrics.jsonl.*; restore the file"
        with pytest.raises(ValueError, match=message):
            train_cifar(job, DATA)
    path.write_text(whole)
    assert set(train_cifar(job, DATA).metrics) == {run.name for run in TWO}


MANY = tiny_cifar(each=6, test=20, size=8)
PROBES = ProbeConfig(epochs=3, batch_size=8)
RUNS = (Run("native", seed=0), Run("angular", 0.0, 0), Run("native", seed=1))


@pytest.mark.slow
def test_probes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Probes fitted at once equal probes of each run and space alone, on the subset of a seed."""
    # Two steps then give the norms their moments, and the features some spread.
    monkeypatch.setattr("resultant_reproduction.cifar.norm.MOMENTUM", 0.7)
    trained = train_cifar(CifarJob(config(epochs=1, subset=5), RUNS, tmp_path, stack=2), MANY)
    usual, members = (long_tail_indices(MANY.train_labels, 4, 3.0, seed) for seed in (0, 5))
    assert not torch.equal(usual, members)
    counts = torch.bincount(MANY.train_labels[members])
    records = evaluate(trained, cifar_features(trained, MANY), 4, probes=PROBES)
    for record, (_, stack, run) in zip(records, trained.trainee.networks(), strict=True):
        assert record["config"]["subset"] == 5 and record["train_images"] == len(members)
        train, test = (
            outputs(stack.network, images, torch.float32)
            for images in (MANY.train_images, MANY.test_images)
        )
        for pool, index in (("long_tail", members), ("balanced", slice(None))):
            for space in ("encoder", "projection"):
                x, queries = (getattr(a, space)[run][None] for a in (train, test))
                labels = MANY.train_labels[index], queries, MANY.test_labels
                alone = linear_probes(x[:, index], *labels, 4, PROBES, counts=counts).to_dict()
                groups = alone["groups"]
                assert isinstance(groups, dict) and isinstance(alone["accuracy"], list)
                assert record["probes"][pool][space] == {
                    "accuracy": alone["accuracy"][0],
                    **{name: a[0] for name, a in groups.items() if a[0] is not None},
                }
    assert len({json.dumps(record["probes"]) for record in records}) > 1
    network = load_network(tmp_path / "native-seed0.safetensors")
    extract(network, MANY.splits(members, {}), tmp_path / "x.safetensors")
    assert torch.equal(FeatureStore.open(tmp_path / "x.safetensors")["train/identities"], members)
