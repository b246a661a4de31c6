"""How ``resultant probe`` takes Encoder features."""

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


def test_encoder_features_of_listed_images_are_probed_as_units(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """tab:frozen-hyperparameters, beside rows that are divided by their lengths here."""
    generator, arrays = torch.Generator().manual_seed(1), {}
    for split, n in (("train", 60), ("test", 30)):
        y = torch.randint(3, (n,), generator=generator)
        x = torch.randn(n, 4, generator=generator) + torch.eye(3, 4)[y]
        # Lengths that have nothing to do with the classes.
        arrays[f"{split}/encoder"] = x * torch.rand(n, 1, generator=generator).mul(4).exp()
        arrays |= {f"{split}/projection": x, f"{split}/labels": y}
    arrays["train/labels"][:3] = torch.arange(3)

    def probed(dataset: str | None, *words: str) -> dict[str, Any]:
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
        found = probed(dataset, *words)
        assert found["encoder"] == form
        assert found["probe"] == {**asdict(ProbeConfig()), "epochs": 5, "batch_size": 8}
        assert found["per_class"] == (unit if form == "unit" else raw)
    for split in ("train", "test"):
        del arrays[f"{split}/encoder"]
    assert probed("imagenet-lt")["encoder"] is None
    assert cli.main(["probe", str(tmp_path / "a.safetensors"), "--encoder", "unit"]) == 2
    assert "features encoder for --encoder unit, got projection in" in capsys.readouterr().err
    path = str(tmp_path / "a.safetensors")
    assert cli.main(["probe", path, "--device", "cpu", "--learning-rate", "1e38"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("resultant: expected logits below 8.4e+06 after training")
    assert line.endswith("got weights that are not finite in probe projection")
    # Finite, but of no digit.
    call = ["probe", path, "--device", "cpu", "--learning-rate", "1e20", "--epochs", "1"]
    assert cli.main(call) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("e+20 in probe projection")


def test_a_name_may_have_the_split_in_it(tmp_path: Path) -> None:
    path, out = tmp_path / "a.safetensors", tmp_path / "probes.json"
    write_store(path, small_features(names=("pretrain/x", "y")))
    call = ["probe", str(path), "--device", "cpu", "--epochs", "1", "--out", str(out)]
    assert cli.main(call) == 0
    assert json.loads(out.read_text())["features"] == ["pretrain/x", "y"]
