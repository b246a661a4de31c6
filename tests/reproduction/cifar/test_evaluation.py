"""Records of trained CIFAR runs, and frozen rules counted by hand."""

import json
from pathlib import Path

import pytest
import torch

from resultant.features.store import FeatureStore
from resultant.images.longtail import long_tail_indices
from resultant.training.checkpoints import load_network
from resultant.training.config import Run
from resultant.training.extract import extract
from resultant_reproduction.cifar.evaluation import cifar_features, outputs
from resultant_reproduction.cifar.job import CifarJob
from resultant_reproduction.cifar.train import train_cifar
from resultant_reproduction.recipes.config import ProbeConfig
from resultant_reproduction.recipes.evaluation import evaluate
from resultant_reproduction.recipes.probes import linear_probes
from tiny_cifar import config as tiny_config, tiny_cifar

# Many test images, so that the rules can differ.
DATA = tiny_cifar(each=6, test=20, size=8)
PROBES = ProbeConfig(epochs=3, batch_size=8)
RUNS = (Run("native", seed=0), Run("angular", 0.0, 0), Run("native", seed=1))


@pytest.mark.slow
def test_probes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Probes fitted at once equal probes of each run and space alone, on the subset of a seed."""
    # Two steps then give the norms their moments, and the features some spread.
    monkeypatch.setattr("resultant_reproduction.cifar.norm.MOMENTUM", 0.7)
    trained = train_cifar(CifarJob(tiny_config(epochs=1, subset=5), RUNS, tmp_path, stack=2), DATA)
    usual, members = (long_tail_indices(DATA.train_labels, 4, 3.0, seed) for seed in (0, 5))
    assert not torch.equal(usual, members)
    counts = torch.bincount(DATA.train_labels[members])
    records = evaluate(trained, cifar_features(trained, DATA), 4, probes=PROBES)
    for record, (_, stack, run) in zip(records, trained.trainee.networks(), strict=True):
        assert record["config"]["subset"] == 5 and record["train_images"] == len(members)
        train, test = (
            outputs(stack.network, images, torch.float32)
            for images in (DATA.train_images, DATA.test_images)
        )
        for pool, index in (("long_tail", members), ("balanced", slice(None))):
            for space in ("encoder", "projection"):
                x, queries = (getattr(a, space)[run][None] for a in (train, test))
                labels = DATA.train_labels[index], queries, DATA.test_labels
                alone = linear_probes(x[:, index], *labels, 4, PROBES, counts=counts).to_dict()
                groups = alone["groups"]
                assert isinstance(groups, dict) and isinstance(alone["accuracy"], list)
                assert record["probes"][pool][space] == {
                    "accuracy": alone["accuracy"][0],
                    **{name: a[0] for name, a in groups.items() if a[0] is not None},
                }
    assert len({json.dumps(record["probes"]) for record in records}) > 1
    network = load_network(tmp_path / "native-seed0.safetensors")
    extract(network, DATA.splits(members, {}), tmp_path / "x.safetensors")
    assert torch.equal(FeatureStore.open(tmp_path / "x.safetensors")["train/identities"], members)
