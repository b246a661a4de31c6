"""Arrays of .npy, .npz, .safetensors and .pt files."""

from __future__ import annotations

import os
import pickle
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

Z = torch.from_numpy(X)
LABELS = torch.from_numpy(Y).to(torch.int32)


class Trap:
    """An object whose pickle makes a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)

    def __reduce__(self) -> Any:
        return os.mkdir, (self.folder,)


def test_npy_files_by_name(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", Y)
    names = {"features": tmp_path / "x.npy", "labels": tmp_path / "y.npy"}
    result = FeatureStore.open(names)
    assert torch.equal(result["train/features"], Z) and result.num_classes == 5
    with pytest.raises(ValueError, match=r"arrays of different names in .* got"):
        FeatureStore.open(names | {"train_features": tmp_path / "x.npy"})


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
    assert memory.total_memory() == 4096


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
            with pytest.raises(ValueError, match="got object"):
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


WORDS = [("ant", "bee", "cat", "dog", "emu")[c] for c in Y.tolist()]
NESTED = {"train": {"z": Z, "labels": LABELS}, "test": {"z": Z[:6], "labels": LABELS[:6]}}
CONTENTS = {
    "nested": NESTED,
    "flat": {"z_train": Z, "y_train": LABELS, "z_test": Z[:6], "y_test": LABELS[:6]},
    "pair": (Z.bfloat16(), Y.tolist()),
    "strings": {"z": Z.T.contiguous().T, "labels": WORDS, "ids": WORDS, "epoch": 7},
}


@pytest.mark.parametrize("archive", [True, False])
@pytest.mark.parametrize("case", CONTENTS)
def test_files_of_torch(tmp_path: Path, case: str, archive: bool) -> None:
    torch.save(CONTENTS[case], tmp_path / "a.pt", _use_new_zipfile_serialization=archive)
    store = FeatureStore.open(tmp_path / "a.pt")
    features = next(name for name in store.features if name.startswith("train/"))
    assert torch.equal(store[features], Z.to(store.dtype(features)))
    assert store["train/labels"].tolist() == Y.tolist()
    if case in ("nested", "flat"):
        assert torch.equal(store["test/z"], Z[:6])
    if case == "strings":
        assert store.metadata["class_names"] == sorted(set(WORDS))
        assert len(store["train/identities"].unique()) == 5
