"""Arrays of .npy, .npz, .safetensors and .pt files."""

from __future__ import annotations

import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from embedding_files import N, Save, X, Y, opened
from resultant._core import memory
from resultant.features import FeatureStore
from resultant.features.arrays import load_npz
from resultant.features.prepare import prepare
from small_store import arrays

Z = torch.from_numpy(X)
LABELS = torch.from_numpy(Y).to(torch.int32)


class Trap:
    """An object whose pickle makes a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)

    def __reduce__(self) -> Any:
        return os.mkdir, (self.folder,)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_of_an_npz(save: Any, tmp_path: Path) -> None:
    given = {n: a.numpy() for n, a in arrays().items() if a.dtype != torch.bfloat16}
    given["train/fortran"] = np.asfortranarray(given["train/encoder"])
    given["test/labels"] = given["test/labels"].astype(np.uint16)
    save(tmp_path / "a.npz", **given)
    result = FeatureStore.open(tmp_path / "a.npz")
    assert set(result) == set(given)
    assert all((result[n].numpy() == a).all() for n, a in given.items())
    assert all((a == given[n]).all() for n, a in load_npz(tmp_path / "a.npz").items())


def test_npy_files_by_name(tmp_path: Path) -> None:
    x, y = np.random.default_rng(0).normal(size=(11, 6)), np.arange(11) % 3
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    names = {"features": tmp_path / "x.npy", "labels": tmp_path / "y.npy"}
    result = FeatureStore.open(names)
    assert (result["train/features"].numpy() == x).all() and result.num_classes == 3
    result["train/features"].zero_()
    assert (np.load(tmp_path / "x.npy") == x).all()
    with pytest.raises(ValueError, match=r"expected one train/features in .* got another"):
        FeatureStore.open({**names, "train_features": tmp_path / "x.npy"})
    np.save(tmp_path / "y.npy", y[:-1])
    with pytest.raises(ValueError, match=r"11 rows in train/labels .* got 10"):
        FeatureStore.open(names)
    np.save(tmp_path / "y.npy", np.array([None] * 11))
    with pytest.raises(ValueError, match=r"y\.npy to be .* dtype object, which is never unpickled"):
        FeatureStore.open(names)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed, np.save])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<f2", ">f4", "<f8", "u1", ">i4", "<i8"])
def test_dtypes_and_orders(dtype: str, order: Any, save: Save, tmp_path: Path) -> None:
    numbers = np.abs(20 * X) if dtype == "u1" else 20 * X
    x = np.array(numbers, dtype=dtype, order=order)
    x[0, 0] = 100
    if save is np.save:
        np.save(tmp_path / "X.npy", x)
        np.save(tmp_path / "y.npy", Y)
        result = FeatureStore.open(tmp_path)
    else:
        result = opened(tmp_path, save, X=x, y=Y)
    assert (result["train/X"].double().numpy() == x).all()
    assert result.dtype("train/X").is_floating_point
    for rows in (1, 7, N):
        pieces = [piece for _, piece in result.chunks("train/X", rows, zero=True)]
        assert (torch.cat(pieces).double().numpy() == x).all()


def test_one_hot_rows_are_no_bomb(tmp_path: Path) -> None:
    """240 MB in less than 1 MB."""
    labels = np.arange(20_000) % 1500
    np.savez_compressed(tmp_path / "a.npz", X=np.eye(1500)[labels], y=labels)
    assert (tmp_path / "a.npz").stat().st_size < 1 << 20
    store = FeatureStore.open(tmp_path / "a.npz")
    assert torch.equal(store["train/X"].argmax(1), store["train/labels"])


def test_declared_sizes_are_compared_with_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez_compressed(tmp_path / "a.npz", X=X, y=Y)
    np.savez(tmp_path / "b.npz", X=X, y=Y)
    torch.save({"X": Z, "y": LABELS}, tmp_path / "a.pt", _use_new_zipfile_serialization=False)
    monkeypatch.setattr(memory, "total_memory", lambda: 600)
    for name, message in (
        ("a.npz", r"a\.npz .* got: \d+ bytes of y\.npy, decompressed, beyond half of the memory"),
        ("a.pt", r"a\.pt .* bytes of tensors in the format before torch 1\.6"),
    ):
        with pytest.raises(ValueError, match=message):
            FeatureStore.open(tmp_path / name)
    # Mapped arrays take no memory.
    assert torch.equal(FeatureStore.open(tmp_path / "b.npz")["train/X"], Z)
    with pytest.raises(ValueError, match=r"b\.npz .* bytes of arrays, beyond"):
        load_npz(tmp_path / "b.npz")


def test_the_memory_is_that_of_the_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = memory.total_memory()
    (tmp_path / "max").write_text("max\n")
    (tmp_path / "small").write_text("4096\n")
    limits = [str(tmp_path / name) for name in ("none", "max")]
    monkeypatch.setattr(memory, "LIMITS", limits)
    assert memory.total_memory() >= machine
    monkeypatch.setattr(memory, "LIMITS", [*limits, str(tmp_path / "small")])
    assert memory.total_memory() == 4096 and memory.content_limit() == 2048


def test_objects_are_never_unpickled(tmp_path: Path) -> None:
    target = tmp_path / "trapped"
    np.savez(tmp_path / "a.npz", X=X, y=Y, objects=np.array([Trap(target)] * N))
    (tmp_path / "d").mkdir()
    for name, array in (("X", X), ("y", Y), ("objects", np.array([Trap(target)] * N))):
        np.save(tmp_path / "d" / f"{name}.npy", array)
    for path in ("a.npz", "d"):
        result = FeatureStore.open(tmp_path / path)
        prepare(result)
        assert result.left_out == ("objects",)
        for asked in ({"features": "objects"}, {"labels": "objects"}):
            with pytest.raises(ValueError, match=r"got (dtype )?object"):
                FeatureStore.open(tmp_path / path, **asked)
    with pytest.raises(ValueError, match=r"a\.npz"):
        load_npz(tmp_path / "a.npz")
    torch.save({"z": Z, "labels": LABELS, "more": Trap(target)}, tmp_path / "a.pt")
    with pytest.raises(ValueError, match=r"a\.pt .* got: other objects, which are never loaded"):
        FeatureStore.open(tmp_path / "a.pt")
    (tmp_path / "b.pt").write_bytes(pickle.dumps(Trap(target), 2))
    with pytest.raises(ValueError, match=r"b\.pt to be a whole \.pt file of tensors"):
        FeatureStore.open(tmp_path / "b.pt")
    assert not target.exists()


def test_other_members_and_longer_headers(tmp_path: Path) -> None:
    """An .npz that another program wrote."""
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("README.txt", "features")
        for name, array in (("x", X), ("y", Y)):
            with archive.open(f"{name}.npy", "w") as file:
                np.lib.format.write_array(file, array, version=(2, 0))
    store = FeatureStore.open(tmp_path / "a.npz")
    assert torch.equal(store["train/x"], Z) and store["train/labels"].tolist() == Y.tolist()


@pytest.mark.parametrize("archive", [True, False])
@pytest.mark.parametrize(
    "content",
    [
        {"train": {"z": Z, "labels": LABELS}, "test": {"z": Z[:6], "labels": LABELS[:6]}},
        {"z_train": Z, "y_train": LABELS, "z_test": Z[:6], "y_test": LABELS[:6]},
    ],
)
def test_dictionaries_of_tensors(tmp_path: Path, content: dict[str, Any], archive: bool) -> None:
    torch.save(content, tmp_path / "a.pt", _use_new_zipfile_serialization=archive)
    store = FeatureStore.open(tmp_path / "a.pt")
    assert torch.equal(store["train/z"], Z) and torch.equal(store["test/z"], Z[:6])
    assert store["train/labels"].tolist() == Y.tolist()


def test_pairs_of_features_and_labels(tmp_path: Path) -> None:
    torch.save((Z.bfloat16(), Y.tolist()), tmp_path / "a.pt")
    store = FeatureStore.open(tmp_path / "a.pt")
    assert store.dtype("train/features") == torch.bfloat16
    assert store["train/labels"].tolist() == Y.tolist()


def test_strings_are_labels_and_identities(tmp_path: Path) -> None:
    words = [("ant", "bee", "cat", "dog", "emu")[c] for c in Y.tolist()]
    ids = [f"row {i}" for i in range(N)]
    columns = Z.T.contiguous().T
    torch.save({"z": columns, "labels": words, "ids": ids, "epoch": 7}, tmp_path / "a.pt")
    store = FeatureStore.open(tmp_path / "a.pt")
    assert torch.equal(store["train/z"], Z)
    assert store.metadata["class_names"] == ["ant", "bee", "cat", "dog", "emu"]
    assert len(store["train/identities"].unique()) == N
