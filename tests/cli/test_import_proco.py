"""``resultant import-proco``, and the features and the report of an imported network."""

from __future__ import annotations

import json
import platform
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from listed import NUM_CLASSES, SIZES, four_classes, scaled, write_images
from plain_resnet import PlainResNet32
from proco_alike import C, P, converted, full_size, loss_modules, saved
from resultant._core import tensor_files
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


@pytest.mark.slow
@pytest.mark.usefixtures("brief")
def test_the_bank_gives_the_subset(tmp_path: Path, root: Path, capsys: Shown) -> None:
    """The imbalance is that of the run and not of the preset, in features and report."""
    count = long_tail_counts(5000, C, 10.0)
    # Images that fill no batch are left out.
    count[0] -= count.sum() % 256
    path, network = with_bank(tmp_path, 2 * count, cosine=True), tmp_path / "a.safetensors"
    assert cli.main(["import-proco", str(path), str(network)]) == 0
    assert "10, from the counts of a bank" in capsys.readouterr().out
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


@pytest.mark.slow
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
    assert cli.main(call) == 2
    message = "expected the imbalance of the training images of cifar10, got a checkpoint"
    error = capsys.readouterr().err
    assert message in error and "extract takes --imbalance, or --balanced" in error
    assert not store.exists()
    other = ["compare", str(out), str(out), "--data", str(root), "--out", str(tmp_path / "c")]
    assert cli.main(other) == 2
    assert message in capsys.readouterr().err
    assert cli.main([*call, "--imbalance", "2"]) == 0
    opened = FeatureStore.open(store)
    assert opened.label_counts().tolist() == long_tail_counts(10, C, 2.0).tolist()
    assert opened.metadata["imbalance"] == opened.metadata["config"]["imbalance"] == 2.0
    assert cli.main([*call, "--balanced"]) == 0
    about = FeatureStore.open(store).metadata
    assert (about["imbalance"], about["config"]["imbalance"]) == (1.0, None)


def test_facts_and_refusals(tmp_path: Path, root: Path, capsys: Shown) -> None:
    path, out = tmp_path / "ckpt.pth.tar", tmp_path / "proco.safetensors"
    saved(tmp_path, PlainResNet32(8, C), best_acc1=85.93)
    assert cli.main(["import-proco", str(path), str(out)]) == 0
    shown = capsys.readouterr().out
    assert "resnet32, linear classifier" in shown and "85.93 %" in shown
    assert cli.main(["import-proco", str(path), str(tmp_path / "x.npz")]) == 2
    assert "a name that ends in .safetensors, got " in capsys.readouterr().err
    call = ["import-proco", str(root / "cifar10.npz"), str(tmp_path / "new.safetensors")]
    assert cli.main(call) == 2
    assert "to be a whole file of torch.save, got: " in capsys.readouterr().err
    assert not (tmp_path / "new.safetensors").exists()


def test_nothing_needed_is_overwritten(tmp_path: Path, capsys: Shown) -> None:
    """Neither the input, nor a network, nor a file in place of a folder."""
    network = converted(tmp_path, PlainResNet32(8, C))
    source = tmp_path / "source.safetensors"
    # Another checkpoint of the same content.
    source.write_bytes((tmp_path / "ckpt.pth.tar").read_bytes())
    with zipfile.ZipFile(source, "a") as archive:
        archive.comment = b"other"
    (tmp_path / "link.safetensors").symlink_to(source)
    files = {path: path.read_bytes() for path in (network, source)}
    for name, message in (
        ("proco.safetensors", f"expected --out that is not a network, got the network {network}"),
        ("source.safetensors", f"expected --out to differ from the input, got {source} for both"),
        ("link.safetensors", "expected --out to differ from the input, got "),
        ("source.safetensors/x.safetensors", f"to be a folder, got a file: {source}"),
    ):
        assert cli.main(["import-proco", str(source), str(tmp_path / name)]) == 2
        assert message in capsys.readouterr().err
    assert files == {path: path.read_bytes() for path in files}
    # Folders are created.
    out = tmp_path / "new" / "folder" / "x.safetensors"
    assert cli.main(["import-proco", str(source), str(out)]) == 0
    (left, _), (right, _) = (tensor_files.load(path) for path in (out, network))
    assert left.keys() == right.keys() and all(torch.equal(left[n], right[n]) for n in left)
    # Given again, the conversion is done already.
    capsys.readouterr()
    before = out.read_bytes()
    # A process was killed after the file had its name.
    left_over = out.parent / f".{out.name}.{platform.node()}-{2**22 + 1}-abc.tmp"
    left_over.mkdir()
    assert cli.main(["import-proco", str(source), str(out)]) == 0
    assert capsys.readouterr().out == f"already converted: {out}\n" and out.read_bytes() == before
    assert list(out.parent.iterdir()) == [out]


@pytest.mark.slow
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
    assert (
        f"classifier of the network on test: accuracy {100 * reached:.3f} %, "
        in capsys.readouterr().out
    )
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
    assert opened.metadata["imbalance"] is None
