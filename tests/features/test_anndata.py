"""Features in AnnData files, written as the AnnData format has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import scipy.sparse

from resultant._core import memory
from resultant.features import FeatureStore

X = np.random.default_rng(0).normal(size=(30, 7)).astype(np.float32)
Y = np.arange(30) % 3
TEXT = h5py.string_dtype()


def write(path: Path, *, sparse: bool = False, **obs: Any) -> Path:
    """Write X, obsm/X_pca, and obs with categories, an index and more columns."""
    with h5py.File(path, "w") as file:
        if sparse:
            matrix, group = scipy.sparse.csr_matrix(X), file.create_group("X")
            group.attrs["encoding-type"], group.attrs["shape"] = "csr_matrix", X.shape
            for name in ("data", "indices", "indptr"):
                group[name] = getattr(matrix, name)
        else:
            file["X"] = X
        file["obsm/X_pca"] = X[:, :3].astype(np.float64)
        table = file.create_group("obs")
        table.attrs["_index"] = "_index"
        table["_index"] = np.array([f"cell-{i}" for i in range(30)], dtype=TEXT)
        table["cell_type/categories"] = np.array(["B", "NK", "T"], dtype=TEXT)
        table["cell_type/codes"] = Y.astype(np.int8)
        for name, values in obs.items():
            table[name] = values
    return path


@pytest.mark.parametrize("sparse", [False, True])
def test_features_labels_and_identities(tmp_path: Path, sparse: bool) -> None:
    split = np.array(["train"] * 20 + ["test"] * 10, dtype=TEXT)
    path = write(tmp_path / "a.h5ad", sparse=sparse, leiden=(Y == 0).astype(np.int32))
    store = FeatureStore.open(path)
    np.testing.assert_array_equal(store["train/X_pca"].numpy(), X[:, :3])
    for rows in (slice(None), slice(11, 19), slice(29, 3, -5), slice(5, 5)):
        np.testing.assert_array_equal(store.rows("train/X")[rows].numpy(), X[rows])
    assert store["train/labels"].tolist() == Y.tolist() and store.left_out == ("leiden",)
    assert store.metadata["class_names"] == ["B", "NK", "T"]
    assert len(store["train/identities"].unique()) == 30
    with h5py.File(path, "a") as file:
        file["obs/split"] = split
    store = FeatureStore.open(path, labels="leiden", features="X_pca")
    assert store.shape("test/X_pca") == (10, 3)
    assert store["train/labels"].tolist() == (Y == 0)[:20].astype(int).tolist()


def test_other_members_are_left_out(tmp_path: Path) -> None:
    """Cubes, matrices by columns and tables without codes; categories may be numbers."""
    path = write(tmp_path / "a.h5ad", pairs=np.ones((30, 2)), complex=np.ones(30, complex))
    with h5py.File(path, "a") as file:
        file["obsm/cube"] = np.ones((30, 2, 2))
        file["obsm/columns/data"] = np.ones(3)
        file["obsm/columns"].attrs["encoding-type"] = "csc_matrix"
        file["obs/table/a"] = np.ones(30)
        file["obs/halves/codes"], file["obs/halves/categories"] = np.full(30, 0.5), np.ones(2)
        file["obs/year/codes"], file["obs/year/categories"] = Y, np.array([2001, 2004, 2002])
    store = FeatureStore.open(path, labels="year")
    assert set(store.features) == {"train/X", "train/X_pca"}
    assert store.metadata["class_names"] == ["2001", "2002", "2004"]
    assert store["train/labels"].tolist() == np.array([0, 2, 1])[Y].tolist()
    with h5py.File(path, "a") as file:
        del file["obsm"]
    assert FeatureStore.open(path, labels="cell_type").features == ("train/X",)


def replaced(**dataset: Any) -> Any:
    def damage(file: Any) -> None:
        del file["X"]
        file.create_dataset("X", **dataset)

    return damage


def linked(file: Any) -> None:
    del file["X"]
    file["X"] = h5py.ExternalLink("b.h5ad", "X")


REFUSALS = [
    (linked, "a link to another place for 'X'"),
    (replaced(shape=(30, 7), dtype="f4", external=[("raw", 0, 840)]), "data of another file"),
    (
        replaced(shape=(1 << 20, 1 << 10), dtype="f4", chunks=(1 << 10, 1 << 10)),
        "4,194,304 bytes of a chunk or row of '/X', beyond half",
    ),
    (replaced(shape=(30, 1 << 20), dtype="f4", chunks=(1, 1 << 10)), "bytes of a chunk or row"),
    (lambda f: f["X"].attrs.__setitem__("shape", (30, 1 << 20)), "bytes of a row of '/X'"),
    (lambda f: f["X"].attrs.__setitem__("shape", (3, 7)), r"a sparse matrix \(3, 7\) with"),
    (lambda f: f["X/indptr"].__setitem__(1, 100), ""),
    (lambda f: f["X/indices"].__setitem__(0, 99), ""),
    (lambda f: f["obs/cell_type/codes"].__setitem__(0, 9), "1 rows without one"),
]


@pytest.mark.parametrize(("damage", "message"), REFUSALS)
def test_damaged_files_are_refused(
    tmp_path: Path, damage: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.h5ad", sparse=True)
    with h5py.File(path, "a") as file:
        damage(file)
    monkeypatch.setattr(memory, "total_memory", lambda: 1 << 22)
    with pytest.raises(ValueError, match=rf"a\.h5ad.*, got.*{message}") as caught:
        FeatureStore.open(path).rows("train/X").read(0, 30)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("words", [np.array(["a", "b", "c"], dtype=TEXT), np.arange(3)])
def test_missing_categories_matter_to_their_column_alone(tmp_path: Path, words: Any) -> None:
    path = write(tmp_path / "a.h5ad")
    with h5py.File(path, "a") as file:
        file["obs/batch/codes"] = np.where(np.arange(30) > 27, -1, Y).astype(np.int8)
        file["obs/batch/categories"] = words
    assert FeatureStore.open(path)["train/labels"].tolist() == Y.tolist()
    rule = r"a category in every row of batch of .* got 2 rows without one, .* row 28; leave"
    with pytest.raises(ValueError, match=rule):
        FeatureStore.open(path, labels="batch")
