"""Evaluation on images against the features of `extract`, with rules chosen by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from images.photos import photo, write_folder
from resultant.classes.rule import REALIZATIONS
from resultant.features.store import FeatureStore
from resultant.images.decode import ImageError
from resultant.images.evaluation_view import EvaluationView
from resultant.images.indexable import open_indexable
from resultant.images.opening import open_images
from resultant.images.photo_views import contrastive_view
from resultant.images.source import ImageSplits
from resultant.images.store import open_store
from resultant.training.checkpoints import save_run
from resultant.training.config import ProbeConfig, Run, preset
from resultant.training.evaluation import (
    RATES,
    evaluate,
    frozen_accuracy,
    frozen_predictions,
    network_features,
)
from resultant.training.extract import extract
from resultant.training.image_sets import train_images
from resultant.training.inference import source_views
from resultant.training.job import Job, Trained
from resultant.training.loading import load_network
from resultant.training.photo_batches import PhotoBatches
from resultant.training.probe import linear_probes
from resultant.training.stack import Stack

SMALL: dict[str, Any] = {"architecture": "test_resnet", "dim": 8, "size": 32, "batch_size": 4}
CPU = torch.device("cpu")
PROBES = ProbeConfig(epochs=3, batch_size=8)


def untrained(data: ImageSplits, out: Path) -> Trained:
    config = preset("images", mean=(0.5,) * 3, std=(0.5,) * 3, **SMALL)
    store = open_store(data.train, out / "store", EvaluationView(32).short_side, workers=0)
    batches = PhotoBatches(
        *(data.train, lambda: store, [contrastive_view(32)] * 2, 0, 4),
        *(config.channels, torch.float32, CPU),
    )
    stack = Stack(config, (Run(),), batches, data.counts, CPU)
    return Trained(Job(config, stack.runs, out), [stack], {}, 1.0, 0.0, 0)


@pytest.fixture
def data(tmp_path: Path) -> ImageSplits:
    sizes = {"a": 24, "b": 8, "c": 3}
    write_folder(tmp_path / "data" / "train", sizes)
    write_folder(tmp_path / "data" / "val", dict.fromkeys(sizes, 5), first=30)
    write_folder(tmp_path / "data" / "test", dict.fromkeys(sizes, 4), first=60)
    return open_images(tmp_path / "data")


@pytest.mark.slow
def test_val_chooses_and_test_judges(data: ImageSplits, tmp_path: Path) -> None:
    trained = untrained(data, tmp_path / "job")
    (record,) = evaluate(trained, data, PROBES, workers=0)
    (stack,) = trained.stacks
    path = tmp_path / "run.safetensors"
    save_run(path, stack.config, stack.runs[0], stack, 0, data.class_names)
    out = tmp_path / "x.safetensors"
    extract(load_network(path), data, out, dtype="float32", workers=0)
    store = FeatureStore.open(out)
    assert record["classifier"] == pytest.approx(store.metadata["classifier"])
    y = {split: store[f"{split}/labels"] for split in ("train", "val", "test")}
    for space in ("encoder", "projection"):
        x = {split: F.normalize(store[f"{split}/{space}"], dim=-1) for split in y}
        frozen = {
            split: frozen_accuracy(
                frozen_predictions(x["train"], y["train"], x[split], 3), y[split]
            )
            for split in ("val", "test")
        }
        # A query between two classes may be rounded to either.
        for fit, rules in frozen["test"].items():
            assert record["frozen"][space][fit] == pytest.approx(rules, abs=1 / 12)
        chosen = record["chosen"][space]
        on_val = frozen["val"][chosen["estimator"]][chosen["realization"]]
        best = max(a for rules in frozen["val"].values() for a in rules.values())
        assert on_val == pytest.approx(best, abs=1 / 15)
        probes = {}
        for factor in RATES:
            rate = factor * PROBES.learning_rate
            config = ProbeConfig(epochs=3, batch_size=8, learning_rate=rate)
            accuracy = [
                linear_probes([x["train"]], y["train"], [x[split]], y[split], 3, config).accuracy
                for split in ("val", "test")
            ]
            probes[rate] = [float(a) for a in accuracy]
        probe = record["probes"]["long_tail"][space]
        on_val, on_test = probes[probe["learning_rate"]]
        assert on_val >= max(a for a, _ in probes.values()) - 1 / 15
        assert probe["accuracy"] == pytest.approx(on_test, abs=1 / 12)


@pytest.mark.slow
def test_one_held_out_split_chooses_nothing(data: ImageSplits, tmp_path: Path) -> None:
    alone = ImageSplits(data.train, val=data.val)
    (record,) = evaluate(untrained(data, tmp_path), alone, PROBES, workers=0)
    assert record["held_out"] == "val" and "chosen" not in record
    assert record["probes"]["long_tail"]["encoder"]["learning_rate"] == PROBES.learning_rate
    assert record["frozen"]["encoder"]["proco"].keys() == set(REALIZATIONS)
    with pytest.raises(ValueError, match="to evaluate on, got only training images"):
        evaluate(untrained(data, tmp_path), ImageSplits(data.train), PROBES)


@pytest.mark.slow
def test_a_long_tailed_subset_has_two_pools(data: ImageSplits, tmp_path: Path) -> None:
    """The features of the subset are those of its images among all."""
    rows = [3, 30, 1, 9, 34, 25]
    subset = replace(data, train=data.train.select(rows), balanced=data.train)
    trained = untrained(subset, tmp_path)
    features = network_features(trained, subset, workers=0)
    assert features.balanced is not None and len(features.balanced.labels) == len(data.train)
    alone = network_features(trained, replace(subset, balanced=None), workers=0).train
    assert torch.equal(features.train.labels, alone.labels)
    for space, (x,) in features.train.spaces.items():
        torch.testing.assert_close(x, alone.spaces[space][0], rtol=1e-3, atol=1e-3)
    (record,) = evaluate(trained, subset, PROBES, features=features)
    assert record["probes"].keys() == {"long_tail", "balanced"} and record["train_images"] == 6


@pytest.mark.slow
def test_any_indexable_trains(tmp_path: Path) -> None:
    """Pairs of images and labels, with no file behind them."""
    items = [(np.array(photo(i, (40, 34))), i % 2) for i in range(8)]
    source = open_indexable(items, class_names=["cat", "dog"])
    splits = ImageSplits(source, test=open_indexable(items[:4], class_names=["cat", "dog"]))
    config = preset("images", epochs=1, mean=(0.5,) * 3, std=(0.5,) * 3, **SMALL)
    trained = train_images(Job(config, (Run(),), tmp_path), splits, workers=0)
    assert trained.job.class_names == ("cat", "dog")
    assert np.isfinite(trained.metrics["native-seed0"]["loss"])


@pytest.mark.parametrize("workers", [0, 1])
def test_views_of_a_source(tmp_path: Path, workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches in the order of the rows, and a broken image in one line."""
    monkeypatch.setattr("resultant.training.inference.BATCH_IMAGES", 4)
    write_folder(tmp_path, {"a": 6, "b": 2})
    source, view, rows = open_images(tmp_path).train, EvaluationView(8), torch.arange(6, -1, -1)
    levels: Any = ((0.0,) * 3, (1 / 255,) * 3)
    batches = list(source_views(source, view, levels, CPU, workers, rows))
    expected = torch.stack([view(source.read(i)) for i in rows.tolist()]).float()
    torch.testing.assert_close(torch.cat(batches), expected)
    broken = Path(source.name(0))
    broken.write_bytes(b"text")
    rest = source_views(source, view, levels, CPU, workers, rows)
    next(rest)
    with pytest.raises(ImageError, match=f"^expected {broken} to be a whole image, got no known"):
        next(rest)
