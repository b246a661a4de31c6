"""Probes against a plain torch loop, and the records of trained runs against accuracies counted by
hand."""

import json
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from frozen_data import fitted, rows, scores
from images.photos import photo, write_folder
from listed import SMALL
from resultant.classes.rule import REALIZATIONS
from resultant.features.store import FeatureStore
from resultant.images.indexable import open_indexable
from resultant.images.longtail import long_tail_indices
from resultant.images.opening import open_images
from resultant.images.source import ImageSplits
from resultant.networks.stacked_resnet import StackedResNet32
from resultant.training import evaluation
from resultant.training.checkpoints import load_network
from resultant.training.cifar import train_cifar
from resultant.training.config import ProbeConfig, Run, preset
from resultant.training.evaluation import evaluate, frozen_accuracy, frozen_predictions
from resultant.training.extract import extract
from resultant.training.image_sets import train_images
from resultant.training.inference import outputs
from resultant.training.job import Job, Trained
from resultant.training.probe import linear_probes, main_encoder
from tiny_cifar import config as tiny_config, tiny_cifar

F32, F64 = torch.float32, torch.float64
N, D, C = 75, 6, 4
CONFIG = ProbeConfig(epochs=7, batch_size=16, seed=3)


def sample(n: int, d: int = D, *, seed: int = 0, dtype: torch.dtype = F64) -> tuple[Tensor, Tensor]:
    """Features [n, d] around overlapping class centres, and labels [n]."""
    centres = torch.randn(C, d, dtype=F64, generator=torch.Generator().manual_seed(99))
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(C, (n,), generator=generator)
    return (centres[y] + torch.randn(n, d, dtype=F64, generator=generator)).to(dtype), y


def reference(x: Tensor, y: Tensor, config: ProbeConfig) -> tuple[Tensor, Tensor]:
    """Weight [d, C] and bias [C] by torch's layer, loss, optimizer and schedule."""
    layer = nn.Linear(x.shape[1], C, dtype=x.dtype)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    optimizer = torch.optim.SGD(
        layer.parameters(),
        config.learning_rate,
        momentum=config.momentum,
        weight_decay=config.weight_decay,
    )
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, config.epochs)
    generator = torch.Generator().manual_seed(config.seed)
    for _ in range(config.epochs):
        for some in torch.randperm(len(x), generator=generator).split(config.batch_size):
            optimizer.zero_grad()
            F.cross_entropy(layer(x[some]), y[some]).backward()
            optimizer.step()
        schedule.step()
    return layer.weight.detach().T, layer.bias.detach()


@pytest.mark.parametrize("weight_decay", [0.0, 0.01])
@pytest.mark.parametrize(("dtype", "tolerance"), [(F64, 1e-12), (F32, 2e-5)])
def test_equals_torch_loop(dtype: torch.dtype, tolerance: float, weight_decay: float) -> None:
    config = replace(CONFIG, weight_decay=weight_decay)
    x, y = sample(N, dtype=dtype)
    x_test, y_test = sample(40, seed=1, dtype=dtype)
    result = linear_probes(x[None], y, x_test[None], y_test, C, config)
    weight, bias = reference(x, y, config)
    assert result.weight.dtype == dtype
    torch.testing.assert_close(result.weight[0], weight, rtol=0, atol=tolerance)
    torch.testing.assert_close(result.bias[0], bias, rtol=0, atol=tolerance)
    guesses = (x_test @ weight + bias).argmax(-1)
    assert torch.equal(result.predictions[0], guesses)
    assert result.accuracy[0] == float((guesses == y_test).double().mean())


def test_accuracies_counted_one_by_one() -> None:
    counts = [500, 100, 20, 19]
    x, y = sample(N)
    x_test, y_test = sample(90, seed=1)
    keep = y_test != 2
    x_test, y_test = x_test[keep], y_test[keep]
    result = linear_probes(
        [x, x[:, :2]], y, [x_test, x_test[:, :2]], y_test, C, CONFIG, counts=counts
    )
    assert result.groups is not None
    assert 0 < result.accuracy[1] < result.accuracy[0] < 1
    for m, guesses in enumerate(result.predictions.tolist()):
        right = [
            [g == t for g, t in zip(guesses, y_test.tolist(), strict=True) if t == c]
            for c in range(C)
        ]
        shares = [sum(r) / len(r) if r else math.nan for r in right]
        assert result.per_class[m].tolist() == pytest.approx(shares, nan_ok=True)
        assert result.accuracy[m] == pytest.approx(sum(map(sum, right)) / len(y_test))
        assert result.groups["head"][m] == pytest.approx(shares[0])
        assert result.groups["medium"][m] == pytest.approx(shares[1])
        assert result.groups["tail"][m] == pytest.approx(shares[3])
    listed = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert listed["per_class"][0][2] is None
    assert listed["groups"]["tail"] == result.groups["tail"].tolist()
    # A group without classes has no accuracy; equal counts and none have no groups.
    head = linear_probes([x], y, [x], y, C, CONFIG, counts=[200, 300, 400, 500]).to_dict()
    assert isinstance(head["groups"], dict) and head["groups"]["tail"] == [None]
    for same in (None, [7] * C):
        assert linear_probes([x], y, [x], y, C, CONFIG, counts=same).groups is None


X, Y = sample(N)
WITH_NAN = X.clone()
WITH_NAN[4, 2] = math.nan
# Arguments that are refused, and the fact in the message.
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"train": [X, WITH_NAN]}, r"train\[1\] finite, got nan at row 4, column 2"),
    ({"train_labels": Y + 1}, r"train_labels in \[0, 4\), got 4 at index \d"),
    ({"train_labels": Y[:-1]}, r"train_labels \[75\].*got shape \(74,\)"),
    ({"train": [X, X.to("meta")]}, r"train\[1\] of device cpu, got meta"),
    ({"train": [X, X[:-2]]}, r"train\[1\] of rows 75, got 73"),
    ({"test": [X, X[:, :2]]}, r"widths \[6, 6\], got \[6, 2\]"),
    ({"train": X}, r"\[M, n, d\] or a list"),
    ({"train": []}, r"train \[M, n, d\] or a list of one \[n, d_i\] or more, got none"),
    ({"train": [X[:0], X[:0]]}, "one row or more"),
    ({"train": [X, X.long()]}, r"train\[1\] of a floating dtype"),
    ({"train": [X, X.float()]}, "all of float64 or none"),
    ({"num_classes": 1}, "num_classes to be an integer >= 2, got 1"),
    ({"counts": [1, 2]}, r"counts \[4\], got \[2\]"),
]


@pytest.mark.parametrize(("change", "message"), REFUSED)
def test_refused(change: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"train": [X, X], "train_labels": Y, "test": [X, X]}
    arguments |= {"test_labels": Y, "num_classes": C, "progress": pytest.fail}
    with pytest.raises(ValueError, match=message):
        linear_probes(**(arguments | change), config=CONFIG)


def test_divergence_is_an_error() -> None:
    message = "expected logits below 4.5e.15 after training .*, got "
    with pytest.raises(ValueError, match=message + "weights that are not finite in probe 1$"):
        linear_probes([X, X * 1e200], Y, [X, X], Y, C, CONFIG)
    # Finite, but without a correct digit.
    with pytest.raises(ValueError, match=message + r"\d\.\de\+\d\d in probe b$"):
        linear_probes([X, X * 1e15], Y, [X, X * 1e15], Y, C, CONFIG, names=("a", "b"))


@pytest.mark.gpu
@pytest.mark.parametrize(("dtype", "tolerance"), [(F64, 1e-11), (F32, 5e-5)])
def test_devices_agree(dtype: torch.dtype, tolerance: float) -> None:
    """Without TF32, which the caller has allowed."""
    x, y = sample(1000, 64, dtype=dtype)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        cpu, gpu = (
            linear_probes([a, a[:, :40]], b, [a, a[:, :40]], b, C, CONFIG)
            for a, b in ((x, y), (x.cuda(), y.cuda()))
        )
    finally:
        torch.set_float32_matmul_precision(before)
    torch.testing.assert_close(gpu.weight.cpu(), cpu.weight, rtol=0, atol=tolerance)
    torch.testing.assert_close(gpu.bias.cpu(), cpu.bias, rtol=0, atol=tolerance)


def test_encoder_of_the_main_comparison() -> None:
    """As in tab:frozen-hyperparameters; features of other datasets are left as they are."""
    assert {main_encoder(name) for name in ("cifar10", "cifar100", None, "mine", ["x"])} == {"raw"}
    assert {main_encoder(name) for name in ("imagenet-lt", "inaturalist18", "places-lt")} == {
        "unit"
    }


# Many test images, so that the rules can differ.
DATA = tiny_cifar(each=6, test=20, size=8)
PROBES = ProbeConfig(epochs=3, batch_size=8)
RUNS = (Run("native", seed=0), Run("angular", 0.0, 0), Run("native", seed=1))


@pytest.mark.slow
def test_probes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Probes fitted at once equal probes of each run and space alone, on the subset of a seed."""
    # Two steps then give the norms their moments, and the features some spread.
    monkeypatch.setattr("resultant.networks.norm.MOMENTUM", 0.7)
    trained = train_cifar(Job(tiny_config(epochs=1, subset=5), RUNS, tmp_path, stack=2), DATA)
    usual, members = (long_tail_indices(DATA.train_labels, 4, 3.0, seed) for seed in (0, 5))
    assert not torch.equal(usual, members)
    counts = torch.bincount(DATA.train_labels[members])
    records = evaluate(trained, DATA, PROBES)
    for record, (_, stack, run) in zip(records, trained.networks(), strict=True):
        assert record["config"]["subset"] == 5 and record["train_images"] == len(members)
        assert isinstance(stack.network, StackedResNet32)
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
    extract(load_network(tmp_path / "native-seed0.safetensors"), DATA, tmp_path / "x.safetensors")
    assert torch.equal(FeatureStore.open(tmp_path / "x.safetensors")["train/identities"], members)


def naive_scores(x: Tensor, y: Tensor, queries: Tensor, estimator: str, rule: str) -> np.ndarray:
    """Fit a vMF distribution per class, and score queries at beta = 0 by definition."""
    v, p = rows(x), x.shape[1]
    mu, kappa = map(np.array, zip(*(fitted(v[y == c]) for c in range(4)), strict=True))
    if estimator == "proco":
        R = np.array([np.linalg.norm(v[y == c].mean(0)) for c in range(4)])
        kappa = p * R / (1 - R**2)
    assert kappa.max() < 1e5
    state = SimpleNamespace(mu=torch.tensor(mu), kappa=torch.tensor(kappa))
    space: Any = SimpleNamespace(state=state, dim=p, tau=0.1, counts=torch.ones(4))
    return scores(space, rule, 0.0, 0.0, queries)


def test_frozen_rules_differ() -> None:
    """Classes of unequal spread, on which the rules disagree."""
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(4, 16, generator=generator)
    spread = torch.tensor([0.3, 0.8, 1.5, 3.0])
    y = torch.arange(80) % 4
    noise = torch.randn(2, 80, 16, generator=generator) * spread[y][:, None]
    x, queries = centres[y] + noise
    decided = frozen_predictions(x, y, queries, 4)
    for estimator, accuracies in frozen_accuracy(decided, y).items():
        for rule in REALIZATIONS:
            q, guesses = naive_scores(x, y, queries, estimator, rule), decided[estimator][rule]
            second, best = np.sort(q, axis=1)[:, -2:].T
            # At most one query is undecided in float32.
            sure = best - second >= 1e-6 * abs(best)
            assert sure.sum() >= 79 and (q.argmax(1) == guesses.numpy())[sure].all()
            assert accuracies[rule] == float((guesses == y).double().mean())
        assert len(set(accuracies.values())) >= 3


def train_once(data: ImageSplits, out: Path) -> Trained:
    """Train a small network on images for an epoch of few steps."""
    settings: dict[str, Any] = SMALL | {"batch_size": 4, "epochs": 1}
    config = preset("images", mean=(0.5,) * 3, std=(0.5,) * 3, **settings)
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
    (record,) = evaluate(train_once(data, tmp_path), data, PROBES, workers=0)
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
        for factor in evaluation.RATES:
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
    (record,) = evaluate(trained, alone, PROBES, workers=0)
    assert record["held_out"] == "val" and "chosen" not in record
    assert record["probes"]["long_tail"]["encoder"]["learning_rate"] == PROBES.learning_rate
    assert record["frozen"]["encoder"]["proco"].keys() == set(REALIZATIONS)
    with pytest.raises(ValueError, match="to evaluate on, got only training images"):
        evaluate(trained, ImageSplits(data.train), PROBES)


@pytest.mark.slow
def test_a_long_tailed_subset_has_two_pools(data: ImageSplits, tmp_path: Path) -> None:
    """The features of the subset are those of its images among all."""
    rows = [3, 30, 1, 9, 34, 25]
    subset = replace(data, train=data.train.select(rows), balanced=data.train)
    trained = train_once(subset, tmp_path)
    features = evaluation.network_features(trained, subset, workers=0)
    assert features.balanced is not None and len(features.balanced.labels) == len(data.train)
    alone = evaluation.network_features(trained, replace(subset, balanced=None), workers=0).train
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
    trained = train_once(splits, tmp_path)
    assert trained.job.class_names == ("cat", "dog")
    assert np.isfinite(trained.metrics["native-seed0"]["loss"])
