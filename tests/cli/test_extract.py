"""``resultant extract``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from resultant.cli import main as cli
from resultant.cli.arguments import DATA_VARIABLE
from resultant.features.store import FeatureStore
from resultant.training.evaluation import frozen_accuracy, frozen_predictions

Shown = pytest.CaptureFixture[str]


@pytest.mark.slow
def test_features_are_those_of_the_evaluation(
    cifar: Path, trained: Path, tmp_path: Path, capsys: Shown
) -> None:
    out = tmp_path / "x.safetensors"
    network = trained / "angular-beta0-seed0.safetensors"
    words = ["--data", str(cifar), "--out", str(out), "--device", "cpu", "--dtype", "float32"]
    assert cli.main(["extract", str(network), *words]) == 0
    shown = capsys.readouterr().out
    assert "train/encoder" in shown and "33 x 64" in shown
    record = json.loads((trained / "records.jsonl").read_text().splitlines()[1])
    accuracy = f"{100 * record['last']['accuracy']:.3f} %"
    assert f"classifier of the network on test: accuracy {accuracy}" in shown
    store = FeatureStore.open(out)
    assert store["train/encoder"].shape == (33, 64) and store["test/projection"].shape == (30, 8)
    assert store.metadata["run"]["realization"] == "angular"
    # Equal to the evaluation at the end of training, but for a query between two classes.
    for name in ("encoder", "projection"):
        x, y = store[f"train/{name}"], store["train/labels"]
        again = frozen_accuracy(
            frozen_predictions(x, y, store[f"test/{name}"], 10), store["test/labels"]
        )
        for estimator, accuracies in record["frozen"][name].items():
            assert again[estimator] == pytest.approx(accuracies, abs=0.034)


def test_refuses(
    cifar: Path, tmp_path: Path, capsys: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The network is looked at first, and then the dataset."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    words = ["--out", str(tmp_path / "x.safetensors")]
    for data in ([], ["--data", str(cifar)], ["--data", str(tmp_path / "nowhere")]):
        assert cli.main(["extract", str(tmp_path / "none"), *words, *data]) == 2
        assert f"no file at {tmp_path / 'none'}" in capsys.readouterr().err
