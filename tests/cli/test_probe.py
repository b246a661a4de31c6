"""``resultant probe``."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch

from resultant.cli import main as cli
from resultant.features.store import write_store
from resultant.training.probe import ProbeConfig, linear_probes
from small_features import small_features

Shown = pytest.CaptureFixture[str]


@pytest.mark.slow
def test_encoder_features_raw_or_of_unit_length(tmp_path: Path, capsys: Shown) -> None:
    """As in the paper (tab:frozen-hyperparameters), against rows normalized here."""
    generator, arrays = torch.Generator().manual_seed(1), {}
    for split, n in (("train", 60), ("test", 30)):
        y = torch.randint(3, (n,), generator=generator)
        x = torch.randn(n, 4, generator=generator) + torch.eye(3, 4)[y]
        # Lengths that are independent of the classes.
        arrays[f"{split}/encoder"] = x * torch.rand(n, 1, generator=generator).mul(4).exp()
        arrays |= {f"{split}/projection": x, f"{split}/labels": y}
    arrays["train/labels"][:3] = torch.arange(3)

    def probe(dataset: str | None, *words: str) -> dict[str, Any]:
        path, out = tmp_path / "a.safetensors", tmp_path / "probes.json"
        write_store(path, arrays, {"num_classes": 3, "dataset": dataset})
        call = ["probe", str(path), "--device", "cpu", "--epochs", "5", "--batch-size", "8"]
        assert cli.main([*call, "--out", str(out), *words]) == 0
        return json.loads(out.read_text())

    def expected(divided: bool) -> list[Any]:
        both = []
        for split in ("train", "test"):
            x = arrays[f"{split}/encoder"]
            x = torch.stack([row / row.square().sum().sqrt() for row in x]) if divided else x
            both.append([x, arrays[f"{split}/projection"]])
        y, y_test = (arrays[f"{split}/labels"] for split in ("train", "test"))
        config = ProbeConfig(epochs=5, batch_size=8)
        return linear_probes(both[0], y, both[1], y_test, 3, config).per_class.tolist()

    raw, unit = expected(False), expected(True)
    assert raw[0] != unit[0] and raw[1] == unit[1]
    for dataset, words, form in (
        ("imagenet-lt", [], "unit"),
        ("inaturalist18", [], "unit"),
        ("imagenet-lt", ["--encoder", "raw"], "raw"),
        ("cifar100", [], "raw"),
        ("cifar100", ["--encoder", "unit"], "unit"),
        (None, [], "raw"),
    ):
        result = probe(dataset, *words)
        assert result["encoder"] == form
        assert result["probe"] == {**asdict(ProbeConfig()), "epochs": 5, "batch_size": 8}
        assert result["per_class"] == (unit if form == "unit" else raw)
    for split in ("train", "test"):
        del arrays[f"{split}/encoder"]
    assert probe("imagenet-lt")["encoder"] is None
    assert cli.main(["probe", str(tmp_path / "a.safetensors"), "--encoder", "unit"]) == 2
    assert (
        "features called encoder for --encoder unit, got projection in" in capsys.readouterr().err
    )


def test_accuracies_are_those_of_linear_probes(tmp_path: Path, capsys: Shown) -> None:
    """The table on standard output, progress on standard error; as the paper fits by default."""
    path, out = tmp_path / "z.safetensors", tmp_path / "probes.json"
    store = small_features(names=("encoder", "pretrain/x"))
    write_store(path, store, {"run": {"realization": "angular"}})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("resultant.cli.progress.SILENCE", -1.0)
        call = ["probe", str(path), "--device", "cpu", "--out", str(out)]
        assert cli.main([*call, "--epochs", "2"]) == 0
    shown = capsys.readouterr()
    assert shown.err == "probes: 50.0 %\nprobes: 100.0 %\n"
    assert shown.out.startswith("┏") and "probes" not in shown.out and "pretrain/x" in shown.out
    result = json.loads(out.read_text())
    x, q = ([store[f"{split}/{n}"] for n in result["features"]] for split in ("train", "test"))
    y, y_test = store["train/labels"], store["test/labels"]
    expected = linear_probes(x, y, q, y_test, 6, ProbeConfig(epochs=2))
    assert result["features"] == ["encoder", "pretrain/x"]
    assert result["accuracy"] == expected.accuracy.tolist()
    assert result["metadata"]["run"]["realization"] == "angular"
    assert result["probe"] == {**asdict(ProbeConfig()), "epochs": 2}


def test_refuses_incomplete_stores(tmp_path: Path, capsys: Shown) -> None:
    path = tmp_path / "a.safetensors"
    write_store(path, {"train/encoder": torch.ones(3, 2), "train/labels": torch.arange(3)})
    assert cli.main(["probe", str(path)]) == 2
    assert "expected features and labels of train and test" in capsys.readouterr().err
