"""Files and folders of every kind as feature stores; broken files are refused."""

from __future__ import annotations

import itertools
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from embedding_files import NAMES, ORDER, T, X, Y, Z, write_parquet
from resultant.features import rows as rows_module
from resultant.features.partition import open_store
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
    monkeypatch.setattr(rows_module, "SharedFile", denied)
    with pytest.raises(ValueError, match=r"a\.safetensors to be .* Permission denied"):
        FeatureStore.open(tmp_path / "a.safetensors")
    # Nor is a folder empty that cannot be listed.
    monkeypatch.setattr("os.scandir", denied)
    with pytest.raises(ValueError, match=f"{tmp_path} to be readable, got: Permission denied"):
        FeatureStore.open(tmp_path)


def test_metadata_must_be_json(tmp_path: Path) -> None:
    save_file(arrays(), tmp_path / "a.safetensors", {"metadata": '{"loss": NaN}'})
    with pytest.raises(
        ValueError, match=r"metadata of .*a\.safetensors as JSON, got: Out of range"
    ):
        FeatureStore.open(tmp_path / "a.safetensors")


def header(entries: dict[str, Any], data: bytes = b"") -> bytes:
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(shape: list[int], end: int, dtype: str = "F32", start: int = 0) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


SAFETENSORS = [
    b"",
    b"\x00" * 7,
    struct.pack("<Q", 2**63) + b"{}",
    struct.pack("<Q", 10**9) + b"{}",
    header({}),
    header({"train/encoder": entry([2**40, 2**20], 16)}, b"\x00" * 16),
    header({"train/encoder": entry([2**63, 4], 16)}, b"\x00" * 16),
    header({"train/encoder": entry([2**40], 2**42)}, b"\x00" * 16),
    header({"train/encoder": entry([2, 2], 16, start=2**60)}, b"\x00" * 16),
    header({"train/encoder": entry([-1, 2], 16)}, b"\x00" * 16),
    header({"train/encoder": entry([2, 2], 16, dtype="O")}, b"\x00" * 16),
    header({"train/encoder": entry([2, 2], 4, dtype="F8_E4M3")}, b"\x00" * 4),
    header({"__metadata__": {"format": "other"}, "x": entry([2, 2], 16)}, b"\x00" * 16),
    header({"__metadata__": {"metadata": "{"}, "x": entry([2, 2], 16)}, b"\x00" * 16),
    header({"__metadata__": {"metadata": "[1]"}, "x": entry([2, 2], 16)}, b"\x00" * 16),
    header({"__metadata__": {"metadata": "[" * 10**5}, "x": entry([2, 2], 16)}, b"\x00" * 16),
    header({"__metadata__": {"metadata": '{"num_classes": true}'}, "x": entry([1, 1], 4)}, b"abcd"),
]


@pytest.mark.parametrize("data", SAFETENSORS)
def test_broken_safetensors_are_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"a\.safetensors"):
        FeatureStore.open(path)


def test_every_truncation_is_noticed(tmp_path: Path) -> None:
    write_store(tmp_path / "a.safetensors", arrays())
    np.savez(tmp_path / "a.npz", **{"train/encoder": np.ones((4, 3)), "labels": np.arange(4)})
    np.save(tmp_path / "a.npy", np.ones((4, 3)))
    for name in ("a.safetensors", "a.npz", "a.npy"):
        whole = (tmp_path / name).read_bytes()
        path = tmp_path / f"cut.{name.partition('.')[2]}"
        given: Any = {"features": path} if path.suffix == ".npy" else path
        for cut in [*range(0, len(whole), 37), len(whole) - 1]:
            path.write_bytes(whole[:cut])
            with pytest.raises(ValueError, match=r"cut\."):
                FeatureStore.open(given)


@pytest.mark.slow
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(place=st.integers(0, 2000), value=st.integers(0, 255), suffix=st.sampled_from(["npz", "s"]))
def test_a_changed_byte_is_an_error_or_other_values(
    place: int, value: int, suffix: str, tmp_path: Path
) -> None:
    """Never another exception, whatever byte of the file is wrong."""
    path = tmp_path / ("a.npz" if suffix == "npz" else "a.safetensors")
    given = {"train/encoder": np.ones((4, 3)), "train/labels": np.arange(4)}
    if suffix == "npz":
        np.savez(path, **given)
    else:
        write_store(path, given, {"num_classes": 4})
    data = bytearray(path.read_bytes())
    data[place % len(data)] = value
    path.write_bytes(data)
    message = str(path)
    try:
        result = FeatureStore.open(path)
        for name in result:
            list(result.chunks(name))
    except ValueError as error:
        message = str(error)
    assert str(path) in message


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
    stores = [FeatureStore.open(tmp_path)]
    stores += [open_store(tmp_path)] if kind == "parquet" else []
    for result in stores:
        assert (result["train/X"].numpy() == X).all() and (result["test/X"].numpy() == Z).all()
        assert (result["train/labels"].numpy() == ORDER[Y]).all()
        assert (result["test/labels"].numpy() == ORDER[T]).all()
