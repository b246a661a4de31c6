"""``resultant import-proco``, and the features of an imported network."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from cli.conftest import call, write_cifar
from plain_resnet import PlainResNet32
from proco_alike import C, P, loss_modules, saved
from resultant.features.store import FeatureStore
from resultant.images.longtail import long_tail_counts
from resultant.training.checkpoints import load_network

pytestmark = pytest.mark.slow

Shown = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _loss_module(monkeypatch: pytest.MonkeyPatch, all_blocks: None) -> None:
    for name, module in loss_modules().items():
        monkeypatch.setitem(sys.modules, name, module)


# Images of CIFAR-10 by class; those that fill no batch are left out.
TEN = long_tail_counts(5000, C, 10.0)
TEN[0] -= TEN.sum() % 256


@pytest.mark.parametrize(
    ("count", "imbalance"), [(2 * TEN, 10.0), (torch.full((C,), 700), None), (None, None)]
)
def test_the_subset_is_of_the_bank_or_of_an_option(
    count: torch.Tensor | None, imbalance: float | None, tmp_path: Path, capsys: Shown
) -> None:
    """Without a bank, or with counts that fit no subset, extract and compare need an option."""
    torch.manual_seed(0)
    loss, banks = sys.modules["loss.proco"].ProCoLoss(), {}
    if count is not None:
        loss.estimator.Amount = count.float()
        banks = {"criterion_scl": loss}
    path = saved(tmp_path, PlainResNet32(P, C, cosine=True), **banks)
    network, store = Path("new/a.safetensors"), Path("x.safetensors")
    convert = f"import-proco {path} {network}"
    assert call(convert) == 0
    unknown = "unknown; extract needs --imbalance or --balanced"
    shown = capsys.readouterr().out
    assert "cifar10" in shown
    assert ("10, from the counts of a bank" if imbalance else unknown) in shown
    # Given again, the conversion is done already.
    assert call(convert) == 0
    assert capsys.readouterr().out == f"already converted: {network}\n"
    loaded = load_network(network)
    assert loaded.imbalance == imbalance and imbalance in (None, loaded.config.imbalance)
    data = f"--data {write_cifar(tmp_path, 10)} --device cpu"
    extract = f"extract {network} --out {store} {data}"
    if imbalance is None:
        for words in (extract, f"compare {network} {network} --out c {data}"):
            assert call(words) == 2
            message = "expected the imbalance of the training images of cifar10, got a checkpoint"
            assert message in capsys.readouterr().err and not store.exists()
    subsets = [("", imbalance), ("--imbalance 2", 2.0), ("--balanced", 1.0)]
    for options, subset in subsets if imbalance else subsets[1:]:
        assert call(f"{extract} {options}") == 0
        opened = FeatureStore.open(store)
        assert opened.label_counts().tolist() == long_tail_counts(10, C, subset).tolist()
        assert opened.metadata["imbalance"] == subset
        assert imbalance in (None, opened.metadata["config"]["imbalance"])
        assert opened.metadata["proco"]["classifier"] == "cosine"
