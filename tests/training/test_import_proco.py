"""A checkpoint of ProCo's authors on its way: imported, loaded, its features, their report."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from listed import NUM_CLASSES, SIZES, four_classes, scaled, write_images
from plain_resnet import PlainNetwork, PlainResNet32
from proco_alike import C, P, loss_modules
from resultant._core import tensor_files
from resultant.cli import main as cli
from resultant.features.store import FeatureStore
from resultant.images.augment import normalize
from resultant.images.lists import DATASETS
from resultant.images.loader import ViewDataset, evaluation_view
from resultant.images.longtail import long_tail_counts
from resultant.networks.stacked_resnet import patches
from resultant.training.config import PRESETS, preset
from resultant.training.extract import extract
from resultant.training.image_sets import load_images
from resultant.training.loading import load_network
from resultant.training.proco_checkpoint import RECIPES, convert
from tiny_cifar import tiny_cifar

Shown = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _loss_module(monkeypatch: pytest.MonkeyPatch) -> None:
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


def saved(path: Path, network: nn.Module, **facts: Any) -> Path:
    """A checkpoint of weights alone."""
    state = {f"module.{name}": a for name, a in network.state_dict().items()}
    torch.save({"epoch": 200, "state_dict": state, **facts}, path / "ckpt.pth.tar")
    return path / "ckpt.pth.tar"


def converted(path: Path, network: nn.Module) -> Path:
    convert(saved(path, network), path / "proco.safetensors")
    return path / "proco.safetensors"


def with_bank(path: Path, count: torch.Tensor, *, cosine: bool = False) -> Path:
    """A small one for CIFAR-10, whose last bank has these counts."""
    torch.manual_seed(0)
    loss = sys.modules["loss.proco"].ProCoLoss()
    loss.estimator.Amount = count.float()
    return saved(path, PlainResNet32(P, C, cosine=cosine), criterion_scl=loss)


@pytest.mark.parametrize("cosine", [False, True])
def test_a_small_one_comes_back(tmp_path: Path, cosine: bool) -> None:
    """Beside a plain ResNet-32 of their layout, with moments that matter."""
    torch.manual_seed(3)
    plain = PlainResNet32(16, 100, cosine=cosine)
    x = normalize(tiny_cifar().train_images.float())
    plain(x)
    plain.eval()
    loaded = load_network(converted(tmp_path, plain))
    assert (loaded.run, loaded.banks, loaded.num_classes) == (None, {}, 100)
    config = loaded.config
    assert (config.dataset, config.dim, config.objective) == ("cifar100", 16, "joint")
    with torch.no_grad():
        expected = plain(x)
        found = loaded.network(patches(x[None]))
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a[0], b, rtol=1e-4, atol=1e-5)


def large(name: str, cosine: bool, num_classes: int) -> PlainNetwork:
    """Torchvision's own encoder with their heads."""
    import torchvision

    torch.manual_seed(1)
    encoder = getattr(torchvision.models, name)()
    encoder.fc = nn.Identity()
    plain = PlainNetwork(encoder, 2048, 2048, 8, num_classes, cosine=cosine)
    with torch.no_grad():
        for module in plain.modules():
            if isinstance(module, nn.BatchNorm2d | nn.BatchNorm1d):
                module.running_mean.normal_(0, 0.1)  # type: ignore[union-attr]
                module.running_var.uniform_(0.5, 2)  # type: ignore[union-attr]
    return plain.eval()


@pytest.mark.parametrize(
    ("name", "cosine"),
    [("resnet50", True), ("resnet50", False), ("resnext50_32x4d", True)],
)
def test_a_large_one_comes_back(tmp_path: Path, name: str, cosine: bool) -> None:
    plain = large(name, cosine, 365)
    loaded = load_network(converted(tmp_path, plain))
    config = loaded.config
    assert (config.dataset, config.architecture, config.dim) == ("places-lt", name, 8)
    assert loaded.imbalance is None
    x = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        expected, found = plain(x), loaded.network(x)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a[0], b, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("views", [1, 2])
def test_the_bank_tells_the_subset(tmp_path: Path, root: Path, capsys: Shown, views: int) -> None:
    """The imbalance of the run, not of the preset; with images left out that fill no batch."""
    count = long_tail_counts(5000, C, 10.0)
    count[0] -= count.sum() % 256
    count *= views
    path, out = with_bank(tmp_path, count), tmp_path / "a.safetensors"
    assert cli.main(["import-proco", str(path), str(out)]) == 0
    assert "10, by the counts of a bank" in capsys.readouterr().out
    loaded = load_network(out)
    assert loaded.imbalance == loaded.config.imbalance == 10.0
    store = tmp_path / "x.safetensors"
    words = ["--data", str(root), "--out", str(store), "--device", "cpu"]
    assert cli.main(["extract", str(out), *words]) == 0
    opened = FeatureStore.open(store)
    assert opened.label_counts().tolist() == long_tail_counts(10, C, 10.0).tolist()
    assert opened.metadata["imbalance"] == opened.metadata["config"]["imbalance"] == 10.0


@pytest.mark.parametrize("count", [None, torch.full((C,), 700)])
def test_a_bank_that_does_not_tell(
    tmp_path: Path, root: Path, capsys: Shown, count: torch.Tensor | None
) -> None:
    """The subset is asked for, by extract and by compare, and never guessed."""
    path = saved(tmp_path, PlainResNet32(P, C)) if count is None else with_bank(tmp_path, count)
    out, store = tmp_path / "a.safetensors", tmp_path / "x.safetensors"
    assert cli.main(["import-proco", str(path), str(out)]) == 0
    shown = capsys.readouterr().out
    assert "cifar10" in shown and "unknown: to extract, give --imbalance or --balanced" in shown
    assert load_network(out).imbalance is None
    call = ["extract", str(out), "--data", str(root), "--out", str(store), "--device", "cpu"]
    assert cli.main(call) == 2
    message = "expected the imbalance of the training images of cifar10, got a checkpoint"
    told = capsys.readouterr().err
    assert message in told and "extract takes --imbalance, or --balanced" in told
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


def test_import_tells_and_refuses(tmp_path: Path, root: Path, capsys: Shown) -> None:
    path, out = tmp_path / "ckpt.pth.tar", tmp_path / "proco.safetensors"
    saved(tmp_path, PlainResNet32(8, C), best_acc1=85.93)
    assert cli.main(["import-proco", str(path), str(out)]) == 0
    shown = capsys.readouterr().out
    assert "resnet32, linear classifier" in shown and "85.93 %" in shown
    assert cli.main(["import-proco", str(path), str(tmp_path / "x.npz")]) == 2
    assert "a name that ends in .safetensors, got " in capsys.readouterr().err
    call = ["import-proco", str(root / "cifar10.npz"), str(tmp_path / "new.safetensors")]
    assert cli.main(call) == 2
    assert "expected one data.pkl, got 0" in capsys.readouterr().err
    assert not (tmp_path / "new.safetensors").exists()


def test_import_overwrites_nothing_that_is_needed(tmp_path: Path, capsys: Shown) -> None:
    """By the rules of extract and probe: not what is read, no network, and below a folder."""
    network = converted(tmp_path, PlainResNet32(8, C))
    source = tmp_path / "source.safetensors"
    shutil.copy(tmp_path / "ckpt.pth.tar", source)
    (tmp_path / "link.safetensors").symlink_to(source)
    files = {path: path.read_bytes() for path in (network, source)}
    for name, message in (
        ("proco.safetensors", f"expected --out that is no network, got one: {network}"),
        ("source.safetensors", f"expected --out apart from what is read, got {source} for both"),
        ("link.safetensors", "expected --out apart from what is read, got "),
        ("source.safetensors/x.safetensors", f"to be a folder, got a file: {source}"),
    ):
        assert cli.main(["import-proco", str(source), str(tmp_path / name)]) == 2
        assert message in capsys.readouterr().err
    assert files == {path: path.read_bytes() for path in files}
    # Folders are made.
    out = tmp_path / "new" / "folder" / "x.safetensors"
    assert cli.main(["import-proco", str(source), str(out)]) == 0
    assert out.read_bytes() == files[network]


def test_to_a_report(tmp_path: Path, root: Path) -> None:
    path = with_bank(tmp_path, 2 * long_tail_counts(5000, C, 10.0), cosine=True)
    network, store, out = (tmp_path / name for name in ("a.safetensors", "x.safetensors", "out"))
    assert cli.main(["import-proco", str(path), str(network)]) == 0
    words = ["--data", str(root), "--out", str(store), "--device", "cpu"]
    assert cli.main(["extract", str(network), *words]) == 0
    assert cli.main(["analyze", str(store), "--features", "projection", "--out", str(out)]) == 0
    told = json.loads((out / "results.json").read_text())
    # The classes of two images or more.
    assert told["features"]["projection"]["gains"]["count"] == [10, 7, 5, 4, 3, 2, 2]
    assert told["metadata"]["proco"]["classifier"] == "cosine"


@pytest.mark.parametrize("name", ["resnet50", "resnext50_32x4d"])
def test_features_of_listed_images(
    tmp_path: Path,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """ImageNet-LT of four classes, and of small images; what the released classifier reaches."""
    monkeypatch.setitem(DATASETS, "imagenet-lt", DATASETS["imagenet-lt"])
    four_classes()
    monkeypatch.setitem(RECIPES, NUM_CLASSES, RECIPES[1000])
    monkeypatch.setitem(PRESETS, "imagenet-lt", preset("imagenet-lt", size=32))
    write_images(tmp_path)
    path = saved(tmp_path, large(name, True, NUM_CLASSES))
    network, store = tmp_path / "proco.safetensors", tmp_path / "x.safetensors"
    assert cli.main(["import-proco", str(path), str(network)]) == 0
    words = ["--data", str(tmp_path), "--out", str(store), "--device", "cpu", "--workers", "0"]
    assert cli.main(["extract", str(network), *words]) == 0
    opened = FeatureStore.open(store)
    reached = opened.metadata["classifier"]["accuracy"]
    assert f"its classifier on test: accuracy {100 * reached:.3f} %, " in capsys.readouterr().out
    loaded, images = load_network(network), load_images("imagenet-lt", tmp_path, tmp_path)
    listed = ViewDataset(images.test, [evaluation_view(32)])
    right = [
        int(loaded.network(scaled(view, DATASETS["imagenet-lt"])).logits.argmax()) == label
        for view, label, _ in (listed[i] for i in range(len(listed)))
    ]
    assert reached == pytest.approx(sum(right) / len(right))
    assert opened["train/encoder"].shape == (sum(SIZES["train"]), 2048)
    assert opened["test/projection"].shape == (sum(SIZES["test"]), 8)
    assert opened.metadata["imbalance"] is None


def test_files_of_other_facts_are_refused(tmp_path: Path) -> None:
    """As an earlier import or another hand may have written them."""
    tensors, about = tensor_files.load(converted(tmp_path, PlainResNet32(8, C)))
    path = tmp_path / "a.safetensors"
    for facts, message in (
        ({"num_classes": 7}, "a number of classes among .*, got 7 in "),
        ({"proco": about["proco"] | {"arch": "resnet50"}}, "expected resnet32 for the 10 classes"),
        ({"proco": {"arch": "resnet32"}}, "expected the facts of a run in "),
        ({"proco": about["proco"] | {"classifier": "cosine"}}, "the tensors of resnet32 in "),
    ):
        tensor_files.save(path, tensors, about | facts)
        with pytest.raises(ValueError, match=message) as caught:
            load_network(path)
        assert str(path) in str(caught.value)
    with pytest.raises(ValueError, match="the imbalance of the training images of cifar10"):
        extract(load_network(tmp_path / "proco.safetensors"), tiny_cifar(C), path)
