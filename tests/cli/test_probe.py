"""``resultant probe``."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import normalize

from resultant.cli import main as cli
from resultant.features.store import write_store
from resultant.training.probe import ProbeConfig, linear_probes
from small_features import small_features

Shown = pytest.CaptureFixture[str]

CONFIG = ProbeConfig(epochs=2)


def probe(folder: Path, arrays: Any, metadata: dict[str, Any], *words: str) -> Any:
    path, out = folder / "a.safetensors", folder / "probes.json"
    write_store(path, arrays, metadata)
    call = ["probe", str(path), "--device", "cpu", "--epochs", "2", "--out", str(out), *words]
    assert cli.main(call) == 0
    return json.loads(out.read_text())


def test_accuracies_are_those_of_linear_probes(
    tmp_path: Path, capsys: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table on standard output, progress on standard error; encoder features raw or of unit
    length, as in the paper (tab:frozen-hyperparameters)."""
    monkeypatch.setattr("resultant.cli.progress.SILENCE", -1.0)
    arrays = small_features(names=("encoder", "pretrain/x"))
    # Lengths that are independent of the classes.
    for name in ("train/encoder", "test/encoder"):
        arrays[name] = arrays[name] * torch.linspace(0, 4, len(arrays[name])).exp()[:, None]

    def expected(unit: bool) -> Any:
        x, q = ([arrays[f"{s}/{n}"] for n in ("encoder", "pretrain/x")] for s in ("train", "test"))
        if unit:
            x[0], q[0] = normalize(x[0], dim=-1), normalize(q[0], dim=-1)
        return linear_probes(x, arrays["train/labels"], q, arrays["test/labels"], 6, CONFIG)

    raw, unit = expected(False), expected(True)
    assert raw.per_class.tolist()[0] != unit.per_class.tolist()[0]
    for dataset, words, form in (
        (None, [], "raw"),
        ("imagenet-lt", [], "unit"),
        ("imagenet-lt", ["--encoder", "raw"], "raw"),
        ("cifar100", ["--encoder", "unit"], "unit"),
    ):
        result = probe(tmp_path, arrays, {"dataset": dataset}, *words)
        shown = capsys.readouterr()
        assert shown.err == "probes: 50.0 %\nprobes: 100.0 %\n"
        assert shown.out.startswith("┏") and "pretrain/x" in shown.out
        right = unit if form == "unit" else raw
        assert result["encoder"] == form and result["features"] == ["encoder", "pretrain/x"]
        assert result["accuracy"] == right.accuracy.tolist()
        assert result["per_class"] == right.per_class.tolist()
        assert result["probe"] == asdict(CONFIG) and result["metadata"]["dataset"] == dataset
    other = small_features(names=("projection",))
    assert probe(tmp_path, other, {"dataset": "imagenet-lt"})["encoder"] is None
