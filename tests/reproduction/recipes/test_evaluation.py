"""Records of networks trained on images against their extracted features."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from images.photos import write_folder
from listed import SMALL
from resultant.classes.rule import REALIZATIONS
from resultant.features.store import FeatureStore
from resultant.images.opening import open_images
from resultant.images.source import ImageSplits
from resultant.training.checkpoints import load_network
from resultant.training.config import Run, TrainConfig
from resultant.training.extract import extract
from resultant.training.image_sets import train_images
from resultant.training.job import Job, Trained
from resultant.training.loop import Trainer
from resultant_reproduction.recipes.config import ProbeConfig
from resultant_reproduction.recipes.evaluation import (
    RATES,
    evaluate,
    frozen_accuracy,
    frozen_predictions,
    image_features,
)
from resultant_reproduction.recipes.probes import linear_probes

PROBES = ProbeConfig(epochs=3, batch_size=8)


def train_once(data: ImageSplits, out: Path) -> Trained[Trainer]:
    """Train a small network on images for an epoch of few steps."""
    settings: dict[str, Any] = SMALL | {"batch_size": 4, "epochs": 1}
    config = TrainConfig(mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5), **settings)
    return train_images(Job(config, (Run(),), out), data, workers=0)


@pytest.fixture
def data(tmp_path: Path) -> ImageSplits:
    sizes = {"a": 24, "b": 8, "c": 3}
    write_folder(tmp_path / "data" / "train", sizes)
    write_folder(tmp_path / "data" / "val", dict.fromkeys(sizes, 5), first=30)
    write_folder(tmp_path / "data" / "test", dict.fromkeys(sizes, 4), first=60)
    return open_images(tmp_path / "data")


@pytest.mark.slow
def test_val_chooses_and_test_judges(data: ImageSplits, tmp_path: Path) -> None:
    trained = train_once(data, tmp_path)
    features = image_features(trained, data, workers=0)
    (record,) = evaluate(trained, features, 3, "test", PROBES)
    network, out = load_network(tmp_path / "native-seed0.safetensors"), tmp_path / "x.safetensors"
    extract(network, data, out, dtype="float32", workers=0)
    store = FeatureStore.open(out)
    assert record["classifier"] == pytest.approx(store.metadata["classifier"])
    y = {split: store[f"{split}/labels"] for split in ("train", "val", "test")}
    for space in ("encoder", "projection"):
        x = {split: F.normalize(store[f"{split}/{space}"], dim=-1) for split in y}
        frozen = {}
        for split in ("val", "test"):
            decided = frozen_predictions(x["train"], y["train"], x[split], 3)
            frozen[split] = frozen_accuracy(decided, y[split])
        # A query between two classes may be rounded to either.
        for fit, rules in frozen["test"].items():
            assert record["frozen"][space][fit] == pytest.approx(rules, abs=1 / 12)
        chosen = record["chosen"][space]
        on_val = frozen["val"][chosen["estimator"]][chosen["realization"]]
        best = max(a for rules in frozen["val"].values() for a in rules.values())
        assert on_val == pytest.approx(best, abs=1 / 15)
        probes = {}
        for factor in RATES:
            config = replace(PROBES, learning_rate=factor * PROBES.learning_rate)
            accuracy = [
                linear_probes([x["train"]], y["train"], [x[split]], y[split], 3, config).accuracy
                for split in ("val", "test")
            ]
            probes[config.learning_rate] = [float(a) for a in accuracy]
        probe = record["probes"]["long_tail"][space]
        on_val, on_test = probes[probe["learning_rate"]]
        assert on_val >= max(a for a, _ in probes.values()) - 1 / 15
        assert probe["accuracy"] == pytest.approx(on_test, abs=1 / 12)


@pytest.mark.slow
def test_one_held_out_split_chooses_nothing(data: ImageSplits, tmp_path: Path) -> None:
    trained, alone = train_once(data, tmp_path), ImageSplits(data.train, val=data.val)
    (record,) = evaluate(trained, image_features(trained, alone, workers=0), 3, "val", PROBES)
    assert record["held_out"] == "val" and "chosen" not in record
    assert record["probes"]["long_tail"]["encoder"]["learning_rate"] == PROBES.learning_rate
    assert record["frozen"]["encoder"]["proco"].keys() == set(REALIZATIONS)
    with pytest.raises(ValueError, match="to evaluate on, got only training images"):
        image_features(trained, ImageSplits(data.train))


@pytest.mark.slow
def test_a_long_tailed_subset_has_two_pools(data: ImageSplits, tmp_path: Path) -> None:
    """The features of the subset are those of its images among all."""
    rows = [3, 30, 1, 9, 34, 25]
    subset = replace(data, train=data.train.select(rows), balanced=data.train)
    trained = train_once(subset, tmp_path)
    features = image_features(trained, subset, workers=0)
    assert features.balanced is not None and len(features.balanced.labels) == len(data.train)
    alone = image_features(trained, replace(subset, balanced=None), workers=0).train
    assert torch.equal(features.train.labels, alone.labels)
    for space, (x,) in features.train.spaces.items():
        torch.testing.assert_close(x, alone.spaces[space][0], rtol=1e-3, atol=1e-3)
    (record,) = evaluate(trained, features, 3, "test", PROBES)
    assert record["probes"].keys() == {"long_tail", "balanced"} and record["train_images"] == 6
