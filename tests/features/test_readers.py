"""Files and folders of every kind as feature stores; broken files are refused."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from embedding_files import NAMES, ORDER, T, X, Y, Z, write_parquet
from resultant.features.store import FeatureStore, write_store
from small_store import arrays


def test_missing_files_are_named(tmp_path: Path) -> None:
    for name in ("a.safetensors", "a.npz", "a"):
        with pytest.raises(ValueError, match=f"{tmp_path / name} .* got no such file"):
            FeatureStore.open(tmp_path / name)
    with pytest.raises(ValueError, match=f"expected {tmp_path} to be"):
        FeatureStore.open(tmp_path)


def test_other_kinds_of_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "z.mat").write_text("1,2")
    rule = r"z\.mat to be a folder or a file of features \(\.safetensors, .*\), got another"
    with pytest.raises(ValueError, match=rf"{rule}: \.mat is not read; save .* by numpy\.savez"):
        FeatureStore.open(tmp_path / "z.mat")


def test_missing_permission_is_not_a_missing_file(tmp_path: Path, monkeypatch: Any) -> None:
    """A right that is missing is not a file that is missing."""

    def denied(name: Any, *_: Any, **__: Any) -> Any:
        raise PermissionError(13, "Permission denied", name)

    write_store(tmp_path / "a.safetensors", arrays())
    monkeypatch.setattr("resultant.features.arrays.safe_open", denied)
    with pytest.raises(ValueError, match=r"a\.safetensors to be .* Permission denied"):
        FeatureStore.open(tmp_path / "a.safetensors")
    # Nor is a folder empty that cannot be listed.
    monkeypatch.setattr("os.scandir", denied)
    with pytest.raises(ValueError, match=f"{tmp_path} to be readable, got: Permission denied"):
        FeatureStore.open(tmp_path)


def test_metadata_must_be_json(tmp_path: Path) -> None:
    save_file(arrays(), tmp_path / "a.safetensors", {"metadata": '{"loss": NaN}'})
    with pytest.raises(ValueError, match=r"metadata of .*a\.safetensors as JSON, got: Out of"):
        FeatureStore.open(tmp_path / "a.safetensors")


def test_npy_of_features_with_npy_of_labels(tmp_path: Path) -> None:
    x, y = np.random.default_rng(0).normal(size=(11, 6)), np.arange(11) % 3
    for features, labels, split in (
        ("test_features", "test_labels", "test"),
        ("z", "z_labels", "train"),
    ):
        np.save(tmp_path / f"{features}.npy", x)
        np.save(tmp_path / f"{labels}.npy", y)
        result = FeatureStore.open(tmp_path / f"{features}.npy")
        (name,) = result.features
        assert (result[name].numpy() == x).all()
        assert (result[f"{split}/labels"].numpy() == y).all()


@pytest.mark.parametrize(
    ("features", "labels"),
    [("X", "y"), ("train_embeddings", "train_targets"), ("X_test", "y_test"), ("clip", "label")],
)
def test_names_of_the_npy_of_labels(features: str, labels: str, tmp_path: Path) -> None:
    path = tmp_path / f"{features}.npy"
    np.save(path, X)
    with pytest.raises(ValueError, match=r"together with one of labels.* alone; give the folder"):
        FeatureStore.open(path)
    np.save(tmp_path / f"{labels}.npy", NAMES[Y])
    result = FeatureStore.open(path)
    (name,) = result.features
    assert (result[name].numpy() == X).all()
    (name,) = (n for n in result if n.endswith("/labels"))
    assert (result[name].numpy() == ORDER[Y]).all()


@pytest.mark.parametrize("kind", ["safetensors", "npz", "npy"])
@pytest.mark.parametrize("nested", [False, True])
def test_folders_of_shards(kind: str, nested: bool, tmp_path: Path) -> None:
    x, y = torch.randn(30, 4), torch.arange(30) % 7
    for split, edges in (("train", (0, 9, 10, 20)), ("test", (20, 30))):
        for i, (low, high) in enumerate(itertools.pairwise(edges)):
            stem = f"{split}/{{}}part-{i:05}" if nested else f"{split}_{{}}{i:05}-of-00003"
            whole: dict[str, Any] = {"features": x[low:high], "labels": y[low:high]}
            base = tmp_path / stem.format("")
            base.parent.mkdir(exist_ok=True)
            if kind == "safetensors":
                save_file(whole, base.with_suffix(".safetensors"))
            elif kind == "npz":
                np.savez(base.with_suffix(".npz"), **{n: a.numpy() for n, a in whole.items()})
            else:
                for n, a in whole.items():
                    stem = f"{split}/{n}-{i:05}" if nested else f"{split}_{n}-{i:05}"
                    np.save(tmp_path / f"{stem}.npy", a.numpy())
    (tmp_path / ".hidden.npy").write_bytes(b"")
    result = FeatureStore.open(tmp_path)
    assert torch.equal(result["train/features"], x[:20])
    assert torch.equal(result["test/features"], x[20:])
    assert torch.equal(result["train/labels"], y[:20])
    for rows in (1, 3, 10, 19):
        pieces = [piece for _, piece in result.chunks("train/features", rows)]
        assert torch.equal(torch.cat(pieces), x[:20])


def test_shards_of_different_arrays_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"folder of feature files of one kind .* got none"):
        FeatureStore.open(tmp_path)
    for i, width in enumerate((4, 5)):
        given = {"features": torch.ones(3, width), "labels": torch.arange(3)}
        save_file(given, tmp_path / f"train-{i}.safetensors")
    with pytest.raises(ValueError, match=r"\[N, 4\] as in .*-0.*got torch.float32 \[N, 5\].*-1"):
        FeatureStore.open(tmp_path)
    save_file({"features": torch.ones(3, 4)}, tmp_path / "train-1.safetensors")
    with pytest.raises(ValueError, match=r"expected 6 rows in train/labels .* got 3"):
        FeatureStore.open(tmp_path)
    np.save(tmp_path / "train-2.npy", np.ones(3))
    with pytest.raises(ValueError, match=r"got \.npy and \.safetensors"):
        FeatureStore.open(tmp_path)


@pytest.mark.parametrize("kind", ["npz", "npy", "parquet"])
def test_splits_at_the_end_of_file_names(kind: str, tmp_path: Path) -> None:
    for split, a, b in (("train", X, Y), ("test", Z, T)):
        if kind == "npz":
            np.savez(tmp_path / f"clip_{split}.npz", X=a, y=NAMES[b])
        elif kind == "npy":
            np.save(tmp_path / f"X_{split}.npy", a)
            np.save(tmp_path / f"y_{split}.npy", NAMES[b])
        else:
            write_parquet(tmp_path / f"clip_{split}.parquet", {"X": list(a), "y": NAMES[b]})
    stores = [FeatureStore.open(tmp_path), FeatureStore.open(tmp_path / f"*_t*.{kind}")]
    for result in stores:
        assert (result["train/X"].numpy() == X).all() and (result["test/X"].numpy() == Z).all()
        assert (result["train/labels"].numpy() == ORDER[Y]).all()
        assert (result["test/labels"].numpy() == ORDER[T]).all()


def test_parquet_at_a_url(tmp_path: Path) -> None:
    for split, a, b in (("train", X, Y), ("test", Z, T)):
        (tmp_path / split).mkdir()
        write_parquet(tmp_path / split / "0.parquet", {"X": list(a), "y": b}, row_group_size=7)
    url = tmp_path.as_uri()
    for name in (url, f"{url}/*/*.parquet", f"{url}/t*/0.parquet"):
        store = FeatureStore.open(name)
        assert (store["train/X"].numpy() == X).all() and (store["test/X"].numpy() == Z).all()
        assert store.where == name
    assert (FeatureStore.open(f"{url}/test/0.parquet")["train/labels"].numpy() == T).all()
    for name, message in (("none", "Parquet files, got"), ("*.parquet", "got none")):
        with pytest.raises(ValueError, match=message):
            FeatureStore.open(f"{url}/{name}")


def test_patterns_of_files(tmp_path: Path) -> None:
    """Splits are in names below the fixed part of the pattern."""
    for split, a, b in (("train", X, Y), ("test", Z, T)):
        (tmp_path / split).mkdir()
        write_parquet(tmp_path / split / "0.parquet", {"X": list(a), "y": b})
        (tmp_path / split / ".hidden.parquet").touch()
    store = FeatureStore.open(tmp_path / "*" / "*.parquet")
    assert set(store.splits) == {"train", "test"} and len(store["test/X"]) == len(Z)
    assert FeatureStore.open(tmp_path / "test" / "*.parquet").splits == ("train",)
    with pytest.raises(ValueError, match=r"\*\.npz to exist, got no such file"):
        FeatureStore.open(tmp_path / "*.npz")
