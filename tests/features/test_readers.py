"""Files, folders, patterns and URLs as feature stores."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from embedding_files import NAMES, ORDER, T, X, Y, Z, write_parquet
from resultant.features.prepare import prepare
from resultant.features.store import FeatureStore, write_store
from small_store import arrays


@pytest.mark.parametrize(
    ("features", "labels", "split"),
    [
        *(("X", "y", "train"), ("train_embeddings", "train_targets", "train")),
        *(("X_test", "y_test", "test"), ("clip", "label", "train"), ("z", "z_labels", "train")),
        ("test_features", "test_labels", "test"),
    ],
)
def test_npy_of_features_with_npy_of_labels(
    features: str, labels: str, split: str, tmp_path: Path
) -> None:
    path = tmp_path / f"{features}.npy"
    np.save(path, X)
    with pytest.raises(ValueError, match=r"together with one of labels.* alone; give the folder"):
        FeatureStore.open(path)
    np.save(tmp_path / f"{labels}.npy", NAMES[Y])
    for result in (FeatureStore.open(path), FeatureStore.open(path, labels=labels)):
        (name,) = result.features
        assert (result[name].numpy() == X).all()
        assert (result[f"{split}/labels"].numpy() == ORDER[Y]).all()
    if split == "train":
        assert any(f"{labels}.npy" in note for note in prepare(result).notes)


@pytest.mark.parametrize("kind", ["safetensors", "npy"])
@pytest.mark.parametrize("nested", [False, True])
def test_folders_of_shards(kind: str, nested: bool, tmp_path: Path) -> None:
    x, y = torch.randn(30, 4), torch.arange(30) % 7
    for split, edges in (("train", (0, 9, 10, 20)), ("test", (20, 30))):
        for i, (low, high) in enumerate(itertools.pairwise(edges)):
            whole: dict[str, Any] = {"features": x[low:high], "labels": y[low:high]}
            base = tmp_path / (f"{split}/part-{i:05}" if nested else f"{split}_{i:05}-of-00003")
            base.parent.mkdir(exist_ok=True)
            if kind == "safetensors":
                save_file(whole, f"{base}.safetensors")
                continue
            for n, a in whole.items():
                np.save(tmp_path / f"{split}{'/' if nested else '_'}{n}-{i:05}.npy", a)
    (tmp_path / ".hidden.npy").write_bytes(b"")
    result = FeatureStore.open(tmp_path)
    assert torch.equal(result["train/features"], x[:20])
    assert torch.equal(result["test/features"], x[20:])
    assert torch.equal(result["train/labels"], y[:20])


def test_patterns_and_urls(tmp_path: Path) -> None:
    """Splits are in names below the fixed part of the pattern."""
    for split, a, b in (("train", X, Y), ("test", Z, T)):
        (tmp_path / split).mkdir()
        write_parquet(tmp_path / split / "0.parquet", {"X": list(a), "y": b}, row_group_size=7)
        (tmp_path / split / ".hidden.parquet").touch()
    url = tmp_path.as_uri()
    np.savez(tmp_path / "my_test.npz", X=X, y=Y, X_test=Z, y_test=T)
    # Splits in names of arrays precede the name of the file.
    assert len(FeatureStore.open(tmp_path / "my_t*.npz")["train/labels"]) == len(Y)
    (tmp_path / "my_test.npz").unlink()
    names = [url, f"{url}/*/*.parquet", f"{url}/t*/0.parquet", f"{tmp_path}/*/*.parquet"]
    for name in names:
        store = FeatureStore.open(name)
        assert (store["train/X"].numpy() == X).all() and (store["test/X"].numpy() == Z).all()
        assert store.where == name
    for name in (f"{url}/test/0.parquet", tmp_path / "test" / "*.parquet"):
        assert (FeatureStore.open(name)["train/labels"].numpy() == T).all()
    for name, message in (
        (f"{url}/none", "Parquet files, got"),
        (f"{url}/*.parquet", "got none"),
        (tmp_path / "*.npz", r"\*\.npz to exist, got no such file"),
    ):
        with pytest.raises(ValueError, match=message):
            FeatureStore.open(name)


def test_folders_and_files_that_are_refused(tmp_path: Path, monkeypatch: Any) -> None:
    def refused(path: Path, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            FeatureStore.open(path)

    for name in ("a.safetensors", "a.npz", "a"):
        refused(tmp_path / name, f"{tmp_path / name} .* got no such file")
    refused(tmp_path, rf"{tmp_path} to be a folder of feature files of one kind .* got none")
    (tmp_path / "z.mat").write_text("1,2")
    refused(tmp_path / "z.mat", r"\(\.safetensors, .*\), got another: \.mat is not read; save .*")
    for i, width in enumerate((4, 5)):
        given = {"features": torch.ones(3, width), "labels": torch.arange(3)}
        save_file(given, tmp_path / f"train-{i}.safetensors")
    refused(tmp_path, r"\[N, 4\] as in .*-0.*got torch.float32 \[N, 5\].*-1")
    save_file({"features": torch.ones(3, 4)}, tmp_path / "train-1.safetensors")
    refused(tmp_path, r"expected 6 rows in train/labels .* got 3")
    np.save(tmp_path / "train-2.npy", np.ones(3))
    refused(tmp_path, r"got \.npy and \.safetensors")
    save_file(arrays(), tmp_path / "b.safetensors", {"metadata": '{"loss": NaN}'})
    refused(tmp_path / "b.safetensors", r"metadata of .*b\.safetensors as JSON, got: Out of")

    def denied(name: Any, *_: Any, **__: Any) -> Any:
        raise PermissionError(13, "Permission denied", name)

    # A right that is missing is not a file that is missing.
    write_store(tmp_path / "a.safetensors", arrays())
    monkeypatch.setattr("resultant.features.arrays.safe_open", denied)
    refused(tmp_path / "a.safetensors", r"a\.safetensors to be .* Permission denied")
    monkeypatch.setattr("os.scandir", denied)
    refused(tmp_path, f"{tmp_path} to be readable, got: Permission denied")
