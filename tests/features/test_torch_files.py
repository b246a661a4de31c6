"""Features in .pt files: tensors, and nothing that a pickle could execute."""

from __future__ import annotations

import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from resultant._core import chunks
from resultant.features import FeatureStore, torch_files
from resultant.features.prepare import prepare
from resultant.features.rows import MappedRows
from resultant.features.torch_files import read_torch

Z = torch.randn(30, 5, generator=torch.Generator().manual_seed(0))
Y = (torch.arange(30) % 3).to(torch.int32)


class Executes:
    """An object whose pickle makes a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)

    def __reduce__(self) -> Any:
        return os.mkdir, (self.folder,)


@pytest.mark.parametrize(
    "content",
    [
        {"train": {"z": Z, "labels": Y}, "test": {"z": Z[:6], "labels": Y[:6]}},
        {"z_train": Z, "y_train": Y, "z_test": Z[:6], "y_test": Y[:6]},
    ],
)
def test_dictionaries_of_tensors(tmp_path: Path, content: dict[str, Any]) -> None:
    torch.save(content, tmp_path / "a.pt")
    store = FeatureStore.open(tmp_path / "a.pt")
    assert torch.equal(store["train/z"], Z) and torch.equal(store["test/z"], Z[:6])
    assert store["train/labels"].tolist() == Y.tolist()


def test_pairs_of_features_and_labels(tmp_path: Path) -> None:
    torch.save((Z.bfloat16(), Y.tolist()), tmp_path / "a.pt")
    store = FeatureStore.open(tmp_path / "a.pt")
    assert store.dtype("train/features") == torch.bfloat16
    assert store["train/labels"].tolist() == Y.tolist()


def test_strings_are_labels_and_identities(tmp_path: Path) -> None:
    words = [("ant", "bee", "cat")[c] for c in Y.tolist()]
    ids = [f"row {i}" for i in range(30)]
    torch.save({"z": Z, "labels": words, "ids": ids, "epoch": 7}, tmp_path / "a.pt")
    store = FeatureStore.open(tmp_path / "a.pt")
    assert store.metadata["class_names"] == ["ant", "bee", "cat"]
    assert len(store["train/identities"].unique()) == 30


def test_other_objects_are_never_loaded(tmp_path: Path) -> None:
    target = tmp_path / "made"
    torch.save({"z": Z, "labels": Y, "more": Executes(target)}, tmp_path / "a.pt")
    with pytest.raises(ValueError, match=r"a\.pt .* got: other objects .*, which are never loaded"):
        FeatureStore.open(tmp_path / "a.pt")
    (tmp_path / "b.pt").write_bytes(pickle.dumps(Executes(target)))
    with pytest.raises(ValueError, match=r"b\.pt to be a whole \.pt file of tensors"):
        FeatureStore.open(tmp_path / "b.pt")
    assert not target.exists()


def test_expanded_tensors_are_refused(tmp_path: Path) -> None:
    torch.save({"z": torch.zeros(1, 1).expand(1 << 20, 1 << 20), "labels": Y}, tmp_path / "a.pt")
    with pytest.raises(ValueError, match="not stored as it is"):
        FeatureStore.open(tmp_path / "a.pt")


def test_compressed_archives_are_refused(tmp_path: Path) -> None:
    torch.save({"z": Z, "labels": Y}, tmp_path / "a.pt")
    with (
        zipfile.ZipFile(tmp_path / "a.pt") as source,
        zipfile.ZipFile(tmp_path / "b.pt", "w", zipfile.ZIP_DEFLATED) as target,
    ):
        for name in source.namelist():
            target.writestr(name, source.read(name))
    with pytest.raises(ValueError, match="got: a compressed member"):
        FeatureStore.open(tmp_path / "b.pt")


@pytest.mark.parametrize("cut", [0, 100, 700])
def test_truncated_files_are_refused_in_one_line(tmp_path: Path, cut: int) -> None:
    torch.save({"z": Z, "labels": Y}, tmp_path / "a.pt")
    data = (tmp_path / "a.pt").read_bytes()
    (tmp_path / "a.pt").write_bytes(data[:cut])
    with pytest.raises(ValueError, match=r"a\.pt") as caught:
        FeatureStore.open(tmp_path / "a.pt").check()
    assert "\n" not in str(caught.value)


def test_large_tensors_stay_in_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is truncated meanwhile is an error, where a map would end the process."""
    path = tmp_path / "a.pt"
    torch.save({"train": {"z": Z, "labels": Y}, "test": {"z": Z[4:9], "labels": Y[4:9]}}, path)
    monkeypatch.setattr(chunks, "HELD_BYTES", 100)
    store = FeatureStore.open(path)
    assert torch.equal(store["train/z"], Z) and torch.equal(store["test/z"], Z[4:9])
    rows = store.vectors("train/z")
    assert isinstance(rows, MappedRows) and torch.equal(rows[3:7], Z[3:7])
    os.truncate(path, 500)
    with pytest.raises(ValueError, match=r"a\.pt, got \d+: the file became shorter"):
        rows[3:7]


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ([Z, Y, Y], "got list; save a dictionary of tensors"),
        ({"epoch": 7, "path": [1, "a"]}, "got 0 tensors; save a dictionary of tensors"),
        ({"a": Z, "b": Z, "labels": Y}, "got 3 tensors; save a dictionary of tensors"),
        (Z, r"train/labels in .* got train/features"),
    ],
)
def test_other_contents_are_refused(
    content: Any, match: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch_files, "MOST", 2)
    torch.save(content, tmp_path / "a.pt")
    with pytest.raises(ValueError, match=match):
        prepare(FeatureStore.open(tmp_path / "a.pt"))
    with pytest.raises(ValueError, match=r"b\.pt to be a whole \.pt file of tensors, got no such"):
        read_torch(tmp_path / "b.pt")


def test_large_tensors_in_another_order_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.save({"z": Z.T.contiguous().T, "labels": Y}, tmp_path / "a.pt")
    assert torch.equal(FeatureStore.open(tmp_path / "a.pt")["train/z"], Z)
    monkeypatch.setattr(chunks, "HELD_BYTES", 100)
    with pytest.raises(ValueError, match="large tensor that is not contiguous"):
        FeatureStore.open(tmp_path / "a.pt")
