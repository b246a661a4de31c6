"""``resultant import-proco``, and the features of an imported network."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from cli.conftest import write_cifar
from plain_resnet import PlainResNet32
from proco_alike import C, P, loss_modules, saved
from resultant.cli import main as cli
from resultant.features.store import FeatureStore
from resultant.images.longtail import long_tail_counts
from resultant.training.checkpoints import load_network

pytestmark = pytest.mark.slow

Shown = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _loss_module(monkeypatch: pytest.MonkeyPatch, all_blocks: None) -> None:
    for name, module in loss_modules().items():
        monkeypatch.setitem(sys.modules, name, module)


def with_bank(folder: Path, count: torch.Tensor) -> Path:
    """Write a small network for CIFAR-10 whose last bank has these counts."""
    torch.manual_seed(0)
    loss = sys.modules["loss.proco"].ProCoLoss()
    loss.estimator.Amount = count.float()
    return saved(folder, PlainResNet32(P, C, cosine=True), criterion_scl=loss)


def test_the_bank_gives_the_subset(tmp_path: Path, capsys: Shown) -> None:
    """The imbalance is that of the run and not of the preset, unless an option changes it."""
    count = long_tail_counts(5000, C, 10.0)
    # Images that fill no batch are left out.
    count[0] -= count.sum() % 256
    path, network = with_bank(tmp_path, 2 * count), tmp_path / "new" / "a.safetensors"
    assert cli.main(["import-proco", str(path), str(network)]) == 0
    assert "10, from the counts of a bank" in capsys.readouterr().out
    # Given again, the conversion is done already.
    assert cli.main(["import-proco", str(path), str(network)]) == 0
    assert capsys.readouterr().out == f"already converted: {network}\n"
    loaded = load_network(network)
    assert loaded.imbalance == loaded.config.imbalance == 10.0
    store = tmp_path / "x.safetensors"
    words = ["--data", str(write_cifar(tmp_path, 10)), "--out", str(store), "--device", "cpu"]
    for options, imbalance in (([], 10.0), (["--imbalance", "2"], 2.0), (["--balanced"], 1.0)):
        assert cli.main(["extract", str(network), *words, *options]) == 0
        opened = FeatureStore.open(store)
        assert opened.label_counts().tolist() == long_tail_counts(10, C, imbalance).tolist()
        assert opened.metadata["imbalance"] == imbalance
        assert opened.metadata["config"]["imbalance"] == 10.0
    assert opened.metadata["proco"]["classifier"] == "cosine"


def test_an_unknown_subset_is_never_guessed(tmp_path: Path, cifar: Path, capsys: Shown) -> None:
    """Without a bank, or with counts that fit no subset, extract and compare need an option."""
    store = tmp_path / "x.safetensors"
    for count in (None, torch.full((C,), 700)):
        path = saved(tmp_path, PlainResNet32(P, C)) if count is None else with_bank(tmp_path, count)
        out = tmp_path / f"{count is None}.safetensors"
        assert cli.main(["import-proco", str(path), str(out)]) == 0
        shown = capsys.readouterr().out
        assert "cifar10" in shown and "unknown; extract needs --imbalance or --balanced" in shown
        assert load_network(out).imbalance is None
    call = ["extract", str(out), "--data", str(cifar), "--out", str(store), "--device", "cpu"]
    compare = ["compare", str(out), str(out), "--data", str(cifar), "--out", str(tmp_path / "c")]
    for words in (call, compare):
        assert cli.main(words) == 2
        message = "expected the imbalance of the training images of cifar10, got a checkpoint"
        assert message in capsys.readouterr().err and not store.exists()
    for words, imbalance in ((["--imbalance", "2"], 2.0), (["--balanced"], 1.0)):
        assert cli.main([*call, *words]) == 0
        opened = FeatureStore.open(store)
        assert opened.label_counts().tolist() == long_tail_counts(6, C, imbalance).tolist()
        assert opened.metadata["imbalance"] == imbalance
