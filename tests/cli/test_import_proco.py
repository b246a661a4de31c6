"""``resultant import-proco``, and the features and the report of an imported network."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from listed import NUM_CLASSES, SIZES, four_classes, scaled, write_images
from plain_resnet import PlainResNet32
from proco_alike import C, P, full_size, loss_modules, saved
from resultant.cli import main as cli
from resultant.features.store import FeatureStore
from resultant.images.evaluation_view import EvaluationView
from resultant.images.longtail import long_tail_counts
from resultant.images.opening import PUBLISHED
from resultant.training.config import PRESETS, preset
from resultant.training.image_sets import open_dataset
from resultant.training.loading import load_network
from resultant.training.proco_recipes import RECIPES
from tiny_cifar import tiny_cifar

pytestmark = pytest.mark.slow

Shown = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _loss_module(monkeypatch: pytest.MonkeyPatch, all_blocks: None) -> None:
    for name, module in loss_modules().items():
        monkeypatch.setitem(sys.modules, name, module)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """CIFAR-10 of 100 training and 50 test images, as an .npz."""
    folder = tmp_path_factory.mktemp("data")
    data = tiny_cifar(C, 10, 5)
    names = ("train_images", "train_labels", "test_images", "test_labels")
    np.savez(folder / "cifar10.npz", **{name: getattr(data, name).numpy() for name in names})
    return folder


def with_bank(folder: Path, count: torch.Tensor, *, cosine: bool = False) -> Path:
    """Write a small network for CIFAR-10 whose last bank has these counts."""
    torch.manual_seed(0)
    loss = sys.modules["loss.proco"].ProCoLoss()
    loss.estimator.Amount = count.float()
    return saved(folder, PlainResNet32(P, C, cosine=cosine), criterion_scl=loss)


@pytest.mark.usefixtures("brief")
def test_the_bank_gives_the_subset(tmp_path: Path, root: Path, capsys: Shown) -> None:
    """The imbalance is that of the run and not of the preset, in features and report."""
    count = long_tail_counts(5000, C, 10.0)
    # Images that fill no batch are left out.
    count[0] -= count.sum() % 256
    path, network = with_bank(tmp_path, 2 * count, cosine=True), tmp_path / "new" / "a.safetensors"
    assert cli.main(["import-proco", str(path), str(network)]) == 0
    assert "10, from the counts of a bank" in capsys.readouterr().out
    # Given again, the conversion is done already.
    assert cli.main(["import-proco", str(path), str(network)]) == 0
    assert capsys.readouterr().out == f"already converted: {network}\n"
    loaded = load_network(network)
    assert loaded.imbalance == loaded.config.imbalance == 10.0
    store, out = tmp_path / "x.safetensors", tmp_path / "out"
    words = ["--data", str(root), "--out", str(store), "--device", "cpu"]
    assert cli.main(["extract", str(network), *words]) == 0
    opened = FeatureStore.open(store)
    assert opened.label_counts().tolist() == long_tail_counts(10, C, 10.0).tolist()
    assert opened.metadata["imbalance"] == opened.metadata["config"]["imbalance"] == 10.0
    assert cli.main(["analyze", str(store), "--features", "projection", "--out", str(out)]) == 0
    results = json.loads((out / "results.json").read_text())
    # The classes of two images or more.
    (feature,) = results["features"]
    assert feature["data"]["train_count"][:7] == [10, 7, 5, 4, 3, 2, 2]
    assert opened.metadata["proco"]["classifier"] == "cosine"


def test_an_unknown_subset_is_never_guessed(tmp_path: Path, root: Path, capsys: Shown) -> None:
    """Without a bank, or with counts that fit no subset, extract and compare need an option."""
    store = tmp_path / "x.safetensors"
    for count in (None, torch.full((C,), 700)):
        path = saved(tmp_path, PlainResNet32(P, C)) if count is None else with_bank(tmp_path, count)
        out = tmp_path / f"{count is None}.safetensors"
        assert cli.main(["import-proco", str(path), str(out)]) == 0
        shown = capsys.readouterr().out
        assert "cifar10" in shown and "unknown; extract needs --imbalance or --balanced" in shown
        assert load_network(out).imbalance is None
    call = ["extract", str(out), "--data", str(root), "--out", str(store), "--device", "cpu"]
    compare = ["compare", str(out), str(out), "--data", str(root), "--out", str(tmp_path / "c")]
    for words in (call, compare):
        assert cli.main(words) == 2
        message = "expected the imbalance of the training images of cifar10, got a checkpoint"
        assert message in capsys.readouterr().err and not store.exists()
    for words, imbalance in ((["--imbalance", "2"], 2.0), (["--balanced"], 1.0)):
        assert cli.main([*call, *words]) == 0
        opened = FeatureStore.open(store)
        assert opened.label_counts().tolist() == long_tail_counts(10, C, imbalance).tolist()
        assert opened.metadata["imbalance"] == imbalance


def test_refusals(tmp_path: Path, root: Path, capsys: Shown) -> None:
    """Nothing that is needed is overwritten, and nothing is written from another file."""
    saved(tmp_path, PlainResNet32(8, C), best_acc1=85.93)
    network, source = tmp_path / "n.safetensors", tmp_path / "ckpt.pth.tar"
    assert cli.main(["import-proco", str(source), str(network)]) == 0
    shown = capsys.readouterr().out
    assert "resnet32, linear classifier" in shown and "85.93 %" in shown
    other = root / "cifar10.npz"
    for path, name, message in (
        (other, "n.safetensors", f"--out that is not a network, got the network {network}"),
        (network, "n.safetensors", f"--out to differ from the input, got {network} for both"),
        (source, "x.npz", "a name that ends in .safetensors, got "),
        (other, "new.safetensors", "to be a whole file of torch.save, got: "),
    ):
        before = {file: file.read_bytes() for file in tmp_path.iterdir()}
        assert cli.main(["import-proco", str(path), str(tmp_path / name)]) == 2
        assert message in capsys.readouterr().err
        assert before == {file: file.read_bytes() for file in tmp_path.iterdir()}
    # Given again, the conversion is done already.
    assert cli.main(["import-proco", str(source), str(network)]) == 0
    assert capsys.readouterr().out == f"already converted: {network}\n"


def test_features_of_listed_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Shown
) -> None:
    """ImageNet-LT of four classes and small images, with the accuracy of the classifier."""
    monkeypatch.setitem(PUBLISHED, "imagenet-lt", PUBLISHED["imagenet-lt"])
    four_classes()
    monkeypatch.setitem(RECIPES, NUM_CLASSES, RECIPES[1000])
    monkeypatch.setitem(PRESETS, "imagenet-lt", preset("imagenet-lt", size=32))
    write_images(tmp_path)
    path = saved(tmp_path, full_size("resnet50", NUM_CLASSES, cosine=True))
    network, store = tmp_path / "proco.safetensors", tmp_path / "x.safetensors"
    assert cli.main(["import-proco", str(path), str(network)]) == 0
    words = ["--data", str(tmp_path), "--out", str(store), "--device", "cpu", "--workers", "0"]
    assert cli.main(["extract", str(network), *words]) == 0
    opened = FeatureStore.open(store)
    reached = opened.metadata["classifier"]["accuracy"]
    accuracy = f"classifier of the network on test: accuracy {100 * reached:.3f} %, "
    assert accuracy in capsys.readouterr().out
    loaded = load_network(network)
    test, view = open_dataset(loaded.config, tmp_path).test, EvaluationView(32)
    assert test is not None
    right = [
        int(loaded.network(scaled(view(test.read(i))[None], loaded.config)).logits.argmax())
        == test.labels[i]
        for i in range(len(test))
    ]
    assert reached == pytest.approx(sum(right) / len(right))
    assert opened["train/encoder"].shape == (sum(SIZES["train"]), 2048)
    assert opened["test/projection"].shape == (sum(SIZES["test"]), 8)
