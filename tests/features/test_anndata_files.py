"""Features in AnnData files, written as the AnnData format has them."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from resultant._core import chunks
from resultant.features import FeatureStore, anndata_files, anndata_program
from torture import KEPT

h5py = pytest.importorskip("h5py")

X = np.random.default_rng(0).normal(size=(30, 7)).astype(np.float32)
Y = np.arange(30) % 3


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
        table["_index"] = np.array([f"cell-{i}" for i in range(30)], dtype=h5py.string_dtype())
        table["cell_type/categories"] = np.array(["B", "NK", "T"], dtype=h5py.string_dtype())
        table["cell_type/codes"] = Y.astype(np.int8)
        for name, values in obs.items():
            table[name] = values
    return path


def ask_here(path: Path, into: np.ndarray | None = None, **call: Any) -> list[Any]:
    """Answer a request without the program."""
    try:
        entries = anndata_program._answer(str(path), anndata_files.MAX_WIDTH, **call)
    except Exception as error:
        raise ValueError(f"{anndata_files._rule(path)}, got: {error}") from None
    if into is not None:
        ((_, rows),) = entries
        assert rows is not None
        into[:] = rows
    return entries


@pytest.fixture(params=["program", "function"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program, then its function in this process."""
    if request.param == "function":
        monkeypatch.setattr(anndata_files._program, "ask", ask_here)


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize("sparse", [False, True])
def test_features_labels_and_identities(tmp_path: Path, sparse: bool) -> None:
    store = FeatureStore.open(write(tmp_path / "a.h5ad", sparse=sparse, n_genes=np.arange(30)))
    np.testing.assert_allclose(store["train/X"].numpy(), X, rtol=1e-6)
    np.testing.assert_array_equal(store["train/X_pca"].numpy(), X[:, :3])
    np.testing.assert_array_equal(store.rows("train/X").read(11, 19).numpy(), X[11:19])
    assert store["train/labels"].tolist() == Y.tolist()
    assert store.metadata["class_names"] == ["B", "NK", "T"]
    assert len(store["train/identities"].unique()) == 30


def test_splits_and_other_labels(tmp_path: Path) -> None:
    split = np.array(["train"] * 20 + ["test"] * 10, dtype=h5py.string_dtype())
    path = write(tmp_path / "a.h5ad", split=split, leiden=(Y == 0).astype(np.int32))
    store = FeatureStore.open(path, labels="leiden", features="X_pca")
    assert store.shape("test/X_pca") == (10, 3)
    assert store["train/labels"].tolist() == (Y == 0)[:20].astype(int).tolist()


@pytest.mark.usefixtures("reader")
def test_links_to_other_files_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "a.h5ad")
    path = write(tmp_path / "b.h5ad")
    with h5py.File(path, "a") as file:
        del file["X"]
        file["X"] = h5py.ExternalLink(str(tmp_path / "a.h5ad"), "X")
    with pytest.raises(ValueError, match=r"b\.h5ad .* got: a link to another place for 'X'"):
        FeatureStore.open(path)
    (tmp_path / "raw").write_bytes(bytes(840))
    with h5py.File(path, "a") as file:
        del file["X"]
        file.create_dataset("X", (30, 7), "f4", external=[(str(tmp_path / "raw"), 0, 840)])
    with pytest.raises(ValueError, match="data of another file for 'X'"):
        FeatureStore.open(path)


def test_declared_sizes_are_compared_with_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5ad")
    with h5py.File(path, "a") as file:
        del file["X"]
        file.create_dataset("X", (1 << 32, 1 << 10), "f4", chunks=(1, 1 << 10), compression="gzip")
    with pytest.raises(ValueError, match="decodes to 17,592,186,044,416 bytes"):
        FeatureStore.open(path)


@pytest.mark.parametrize("cut", [0, 100, 3000])
def test_truncated_files_are_refused_in_one_line(tmp_path: Path, cut: int) -> None:
    path = write(tmp_path / "a.h5ad")
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(ValueError, match=r"a\.h5ad to be a whole AnnData file") as caught:
        FeatureStore.open(path)
    assert "\n" not in str(caught.value)


def test_missing_reader_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.h5ad")
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ValueError, match=r"expected h5py .* pip install resultant\[anndata\]"):
        FeatureStore.open(path)


def shortened(file: Any) -> None:
    del file["X/data"]
    file["X/data"] = np.ones(10, np.float32)


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: f["X/indptr"].__setitem__(1, 100), "sparse matrix that do not ascend"),
        (shortened, "too few values of a sparse matrix"),
        (lambda f: f["X/indices"].__setitem__(0, 99), "columns of a sparse matrix out of range"),
        (lambda f: f["X"].attrs.__setitem__("shape", (3, 7)), r"a sparse matrix \(3, 7\) with"),
        (lambda f: f["obs/cell_type/codes"].__setitem__(0, 9), "a missing category in"),
    ],
)
def test_contradictions_are_refused(tmp_path: Path, damage: Any, message: str) -> None:
    path = write(tmp_path / "a.h5ad", sparse=True)
    with h5py.File(path, "a") as file:
        damage(file)
    with pytest.raises(ValueError, match=rf"a\.h5ad .* got: .*{message}"):
        FeatureStore.open(path).rows("train/X").read(0, 30)


@pytest.mark.usefixtures("reader")
def test_what_is_no_feature_is_passed_over(tmp_path: Path) -> None:
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
    assert store["train/labels"].tolist() == np.array([2001, 2004, 2002])[Y].tolist()
    with h5py.File(path, "a") as file:
        del file["obsm"]
    assert FeatureStore.open(path, labels="cell_type").features == ("train/X",)


def test_no_file_and_too_many_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.h5ad")
    monkeypatch.setattr(anndata_files, "MAX_WIDTH", 5)
    with pytest.raises(ValueError, match="7 columns in '/X'"):
        FeatureStore.open(path)
    with pytest.raises(ValueError, match="7 columns in '/X'"):
        ask_here(path)
    with pytest.raises(ValueError, match="got no such file"):
        anndata_files.read_anndata(tmp_path / "b.h5ad")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the limits are those of Linux")
def test_a_file_that_the_library_never_returns_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of the torture; the next file is read by a new program."""
    monkeypatch.setattr(anndata_files, "SECONDS", 1)
    with pytest.raises(ValueError, match="got: over 1 s of work of the HDF5 library"):
        FeatureStore.open(KEPT / "h5ad" / "535c43d5" / "a.h5ad")
    assert anndata_files._program.process is None


@pytest.mark.skipif(sys.platform != "linux", reason="the limits are those of Linux")
def test_memory_of_the_program_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.h5ad")
    with h5py.File(path, "a") as file:
        file.create_dataset("obs/large", (1 << 25,), "i1", chunks=(1 << 25,), compression="gzip")
    monkeypatch.setattr(chunks, "decoded_limit", lambda size: 1 << 20)
    with pytest.raises(ValueError, match=r"got: .*(allocate|memory)"):
        FeatureStore.open(path)


def test_a_program_that_dies_is_an_error(tmp_path: Path) -> None:
    store = FeatureStore.open(write(tmp_path / "a.h5ad"))
    assert anndata_files._program.process is not None
    anndata_files._program.process.kill()
    with pytest.raises(ValueError, match="got: the end of the HDF5 library with status -9"):
        store.rows("train/X").read(0, 3)
    np.testing.assert_array_equal(store.rows("train/X").read(0, 3).numpy(), X[:3])


def test_forked_processes_have_programs_of_their_own(tmp_path: Path) -> None:
    store = FeatureStore.open(write(tmp_path / "a.h5ad"))
    mine = anndata_files._program.process
    assert mine is not None and mine.stdin is not None
    anndata_files._program.forget()
    np.testing.assert_array_equal(store.rows("train/X").read(0, 30).numpy(), X)
    assert anndata_files._program.process is not mine
    mine.stdin.close()
    assert os.waitpid(mine.pid, 0)[1] == 0
