"""Feature stores of files, folders, patterns and URLs: the layout, rows that are indexed as NumPy
arrays are, and errors that name the file and the row."""

import itertools
import os
import resource
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from embedding_files import NAMES, ORDER, refused, write, write_parquet
from resultant._core import memory
from resultant.features import FeatureStore, store, write_store
from resultant.features.prepare import check_features, prepare
from resultant.features.rows import ConcatRows, Rows, TensorRows

N, M, D, P, ROWS, WIDTH = 11, 5, 6, 3, 60, 8
X = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(1))
Y = torch.arange(ROWS) % 5
COLUMNS = {"z": X.numpy(), "labels": Y.numpy()}
METADATA = {"num_classes": 4, "network": "resnet32", "epochs": [1, 2], "nested": {"tau": 0.1}}


def arrays() -> dict[str, torch.Tensor]:
    torch.manual_seed(2)
    return {
        "train/encoder": torch.randn(N, D),
        "train/projection": torch.randn(N, P, dtype=torch.float64),
        "train/labels": torch.arange(N) % 4,
        "train/identities": torch.arange(N).flip(0),
        "test/encoder": torch.randn(M, D).bfloat16(),
        "test/labels": torch.arange(M, dtype=torch.int32) % 4,
    }


def test_written_stores_are_read_back(tmp_path: Path) -> None:
    path, given = tmp_path / "a.safetensors", arrays()
    # Strided memory, and memory of two names.
    whole = torch.randn(N, 2 * D)
    given |= {"train/strided": whole[:, ::2], "train/whole": whole, "train/again": whole}
    write_store(path, given, METADATA)
    result = FeatureStore.open(path)
    assert set(result) == set(given) and result.metadata == METADATA
    for name, array in given.items():
        assert torch.equal(result[name], array.long() if "labels" in name else array)
        assert name in result
    assert result.dtype("test/encoder") == torch.bfloat16
    assert result["test/labels"].dtype == torch.int64
    assert result.splits == ("test", "train") and result.num_classes == 4
    names = ("again", "encoder", "projection", "strided", "whole")
    assert result.features == ("test/encoder", *(f"train/{name}" for name in names))
    assert [p.name for p in tmp_path.iterdir()] == ["a.safetensors"]
    assert "train/projection [11, 3]" in repr(result)
    with pytest.raises(KeyError, match=r"expected one of test/encoder.*got 'train/nothing'"):
        result["train/nothing"]


@pytest.mark.parametrize("rows", [1, 4, N, 100, None])
def test_chunks_cover_all_rows_once(rows: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MATRIX_BYTES", 3 * 8 * P)
    result = FeatureStore("memory", arrays())
    for name in ("train/projection", "train/labels"):
        pieces = list(result.chunks(name, rows))
        assert torch.equal(torch.cat([piece for _, piece in pieces]), result[name])
        assert [i for s, _ in pieces for i in range(s.start, s.stop)] == list(range(N))
    if rows is None:
        assert [len(piece) for _, piece in result.chunks("train/projection")] == [3, 3, 3, 2]
    with pytest.raises(ValueError, match="rows >= 1, got 0"):
        next(result.chunks("train/labels", 0))


def test_counts_of_labels() -> None:
    given = {"features": torch.ones(5, 2), "labels": torch.tensor([0, 4, 4, 2, 0])}
    for metadata, count in (({}, [2, 0, 1, 0, 2]), ({"num_classes": 6}, [2, 0, 1, 0, 2, 0])):
        result = FeatureStore("memory", given, metadata)
        assert result.label_counts().tolist() == count


def at_7(value: float) -> dict[str, torch.Tensor]:
    rows = arrays()["train/projection"]
    return arrays() | {"train/projection": rows.index_fill(0, torch.tensor([7, 10]), value)}


# Arrays that other programs write and `write_store` refuses.
READ: list[tuple[dict[str, Any], str]] = [
    ({"train/identities": torch.zeros(N).bool()}, r"\[N\] integers, got torch.bool"),
    ({"train/labels": torch.zeros(N)}, r"train/labels .* \[N\] integers, got torch.float32"),
    ({"train/labels": torch.zeros(N, 1).long()}, r"\[N\] integers, got torch.int64 \(11, 1\)"),
    ({"train/encoder": torch.ones(N, D).long()}, r"\[N, d\] floats, got torch.int64"),
]
# Arrays that are refused in files too.
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"train/labels": torch.zeros(N, 2).long()}, r"\[N\] integers, got torch.int64 \(11, 2\)"),
    ({"train/labels": torch.zeros(3).long()}, "11 rows in train/labels .* as in train/enc.*got 3"),
    ({"train/encoder": torch.zeros(N)}, r"\[N, d\] floats, got torch.float32 \(11,\)"),
    ({"train/encoder": torch.zeros(N, 0)}, r"not empty, got \(11, 0\)"),
    ({"encoder": torch.ones(N, D)}, "one train/encoder in .* another"),
    ({"extra/encoder": torch.ones(N, D)}, "SPLIT in train, val, test, got 'extra/encoder'"),
    ({"train/": torch.ones(N, D)}, "got 'train/'"),
    ({"train/labels": torch.full((N,), -1)}, r"in \[0, 4194304\), got -1 at row 0"),
    ({"test/labels": torch.tensor([0, 1, 2, 2**62, 1])}, r"got 4611686018427387904 at row 3"),
]
# Name, arrays and metadata that are not written.
UNWRITTEN: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("a.safetensors", at_7(-torch.inf), {}, "projection of .* finite, got -inf in row 7"),
    ("a.safetensors", at_7(0), {}, "without zero vectors, got 2 of 11 rows, the first in row 7"),
    ("a.safetensors", arrays(), {"num_classes": 3}, r"labels of .* in \[0, 3\), got 3 at row 3"),
    ("a.safetensors", arrays(), {"num_classes": "4"}, "num_classes of .* to be an integer"),
    ("a.safetensors", arrays(), {"num_classes": 10**12}, "num_classes of .* to be an integer"),
    ("a.safetensors", arrays(), {"a": {1, 2}}, "metadata of .* as JSON"),
    ("a.safetensors", arrays(), {"a": torch.nan}, "metadata of .* as JSON"),
    ("a.npz", arrays(), {}, r"ends in \.safetensors, got .*a\.npz"),
    ("a.safetensors", {}, {}, "expected arrays such as .* got none"),
    ("a.safetensors", {"x": np.array([["a"]])}, {}, r"x of .* be numbers, got <U1 \(1, 1\)"),
    *(("a.safetensors", arrays() | arrays_, {}, message) for arrays_, message in READ + REFUSED),
]


def test_layout_and_metadata_are_checked(tmp_path: Path) -> None:
    for name, given, metadata, message in UNWRITTEN:
        with pytest.raises(ValueError, match=message):
            write_store(tmp_path / name, given, metadata)
    assert not list(tmp_path.iterdir())
    path = tmp_path / "b.safetensors"
    for change, _ in READ:
        save_file(arrays() | change, path)
        FeatureStore.open(path).check()
    for change, message in REFUSED:
        save_file(arrays() | change, path)
        refused(path, message)


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing fits in memory, and pieces are of a few rows."""
    monkeypatch.setattr(store, "total_memory", lambda: 0)
    monkeypatch.setattr(memory, "MATRIX_BYTES", 4 * WIDTH * 5)


def rows_of(kind: str, folder: Path) -> Any:
    """Write the rows in a kind and open them."""
    path = folder / f"a{kind}"
    if kind == "selected":
        parts = [TensorRows(part) for part in torch.cat([X[40:], X[:40]]).split(7)]
        joined = ConcatRows(parts, [str(i) for i in range(len(parts))])
        return joined.select(torch.cat([torch.arange(20, 60), torch.arange(20)]))
    if kind == "fortran":
        path = write(folder / "a.npz", COLUMNS | {"z": np.asfortranarray(X.numpy().astype(">f4"))})
    elif kind == "packed":
        path = folder / "a.npz"
        np.savez_compressed(path, z=X.numpy(), labels=Y.numpy())
    elif kind == "shards":
        path = folder
        for i, part in enumerate((slice(0, 20), slice(20, 23), slice(23, 60))):
            write(folder / f"train-{i}.safetensors", {n: a[part] for n, a in COLUMNS.items()})
    elif kind == ".h5ad":
        with h5py.File(path, "w") as file:
            file["obsm/z"], file["obs/label"] = X.numpy(), Y.numpy()
    elif kind == ".csv":
        numbers = {f"z{i}": X.numpy()[:, i].astype(float) for i in range(WIDTH)}
        write(path, numbers | {"y": Y.numpy()})
    else:
        write(path, COLUMNS)
    return FeatureStore.open(folder if kind == ".npy" else path).vectors("train/z")


KEYS = [
    *(0, 7, -1, -ROWS, np.int32(3)),
    *(slice(None), slice(0, 7), slice(5, 5), slice(30, 1000), slice(-9, None), slice(9, 3)),
    *(slice(None, None, 2), slice(50, 3, -7), slice(None, None, -1), slice(1, -1, 13)),
    *([3, 59, 0, 3], [-1, -60, 30], [], np.array([4, 2], np.uint8), torch.arange(ROWS)),
    *([[1, 2]], None, True, (np.arange(60) > 50).tolist()),
    *(np.arange(ROWS) % 3 == 0, torch.zeros(ROWS, dtype=torch.bool)),
]
REFUSED_KEYS = [60, -61, [0, 99], 1.5, [0.5], np.ones(59, bool), np.ones((60, 2), bool), "z"]
KINDS = [".npy", "fortran", "packed", "shards", ".parquet", ".csv", ".h5ad", "selected"]


@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_indexed_as_arrays(kind: str, tmp_path: Path) -> None:
    rows = rows_of(kind, tmp_path)
    assert isinstance(rows, Rows) and rows.shape == X.shape
    for key in KEYS:
        expected = X.numpy()[key.numpy() if isinstance(key, torch.Tensor) else key]
        assert rows[key].shape == expected.shape
        assert (rows[key].numpy() == expected).all(), key
    for key in REFUSED_KEYS:
        for array in (rows, X.numpy()):
            with pytest.raises(IndexError):
                array[key]
    # Nothing is written to a file.
    rows[:].zero_()
    assert torch.equal(rows[:].to(X.dtype), X)
    assert isinstance(rows_of(".safetensors", tmp_path), torch.Tensor)


@pytest.mark.usefixtures("_small")
def test_rows_that_fit_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = prepare(FeatureStore.open(write(tmp_path / "a.parquet", COLUMNS)))
    monkeypatch.setattr(store, "total_memory", lambda: 8 * X.nbytes)
    check_features(prepared)
    (tmp_path / "a.parquet").unlink()
    parts = [prepared.store.vectors(f"{split}/z") for split in ("train", "test")]
    assert all(isinstance(part, torch.Tensor) for part in parts)
    assert torch.equal(torch.cat([part[:] for part in parts]).sort(0).values, X.sort(0).values)


@pytest.mark.usefixtures("_small")
def test_a_changed_file_is_noticed(tmp_path: Path) -> None:
    rows = rows_of(".npy", tmp_path)
    np.save(tmp_path / "z.npy", X.numpy()[:50])
    with pytest.raises(ValueError, match=r"z\.npy to be a file of arrays as it was when"):
        rows[3:7]
    table = FeatureStore.open(write(tmp_path / "a.parquet", COLUMNS))
    write(tmp_path / "a.parquet", {n: a[:59] for n, a in COLUMNS.items()})
    with pytest.raises(ValueError, match="fewer rows than before; the file has changed"):
        table["train/z"]


def test_a_bad_row_is_named_with_its_file(tmp_path: Path) -> None:
    """By file and row, for rows that are joined and held out."""
    x = torch.ones(3, 40, 4)
    for value, message in ((torch.nan, "finite, got nan in"), (0, "zero vectors, got one in")):
        x[1, 17] = value
        for i in range(3):
            save_file({"z": x[i], "labels": torch.arange(40) % 2}, tmp_path / f"{i}.safetensors")
        rule = rf"z of {tmp_path} .*{message} row 17 of {tmp_path / '1.safetensors'}\b"
        refused(tmp_path, f"{rule}$")
        with pytest.raises(ValueError, match=rule):
            check_features(prepare(FeatureStore.open(tmp_path)))


def test_thousands_of_shards_need_no_open_files(tmp_path: Path) -> None:
    for i in range(60):
        write(tmp_path / f"train-{i:03}.npz", {n: a[i : i + 1] for n, a in COLUMNS.items()})
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    open_now = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_now + 30, hard))
    try:
        assert torch.equal(FeatureStore.open(tmp_path)["train/z"], X)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


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
    np.save(path, X.numpy())
    refused(path, r"together with one of labels.* alone; give the folder")
    np.save(tmp_path / f"{labels}.npy", NAMES[Y.numpy()])
    for result in (FeatureStore.open(path), FeatureStore.open(path, labels=labels)):
        (name,) = result.features
        assert torch.equal(result[name], X)
        assert (result[f"{split}/labels"].numpy() == ORDER[Y.numpy()]).all()
    if split == "train":
        assert any(f"{labels}.npy" in note for note in prepare(result).notes)


@pytest.mark.parametrize("kind", ["safetensors", "npy"])
@pytest.mark.parametrize("nested", [False, True])
def test_folders_of_shards(kind: str, nested: bool, tmp_path: Path) -> None:
    for split, edges in (("train", (0, 9, 10, 20)), ("test", (20, 30))):
        for i, (low, high) in enumerate(itertools.pairwise(edges)):
            whole: dict[str, Any] = {"features": X[low:high], "labels": Y[low:high]}
            base = tmp_path / (f"{split}/part-{i:05}" if nested else f"{split}_{i:05}-of-00003")
            base.parent.mkdir(exist_ok=True)
            if kind == "safetensors":
                save_file(whole, f"{base}.safetensors")
                continue
            for n, a in whole.items():
                np.save(tmp_path / f"{split}{'/' if nested else '_'}{n}-{i:05}.npy", a)
    (tmp_path / ".hidden.npy").write_bytes(b"")
    result = FeatureStore.open(tmp_path)
    assert torch.equal(result["train/features"], X[:20])
    assert torch.equal(result["test/features"], X[20:30])
    assert torch.equal(result["train/labels"], Y[:20])


def test_patterns_and_urls(tmp_path: Path) -> None:
    """Splits are in names below the fixed part of the pattern."""
    rows = {"train": slice(45), "test": slice(47, None)}
    for split, part in rows.items():
        (tmp_path / split).mkdir()
        columns = {"X": list(X[part].numpy()), "y": Y[part].numpy()}
        write_parquet(tmp_path / split / "0.parquet", columns, row_group_size=7)
        (tmp_path / split / ".hidden.parquet").touch()
    url = tmp_path.as_uri()
    np.savez(tmp_path / "my_test.npz", X=X, y=Y, X_test=X[:7], y_test=Y[:7])
    # Splits in names of arrays precede the name of the file.
    assert len(FeatureStore.open(tmp_path / "my_t*.npz")["train/labels"]) == len(Y)
    (tmp_path / "my_test.npz").unlink()
    for name in [url, f"{url}/*/*.parquet", f"{url}/t*/0.parquet", f"{tmp_path}/*/*.parquet"]:
        store = FeatureStore.open(name)
        assert all(torch.equal(store[f"{split}/X"], X[part]) for split, part in rows.items())
        assert store.where == name
    for name in (f"{url}/test/0.parquet", tmp_path / "test" / "*.parquet"):
        assert torch.equal(FeatureStore.open(name)["train/labels"], Y[47:])
    for name, message in (
        (f"{url}/none", "Parquet files, got"),
        (f"{url}/*.parquet", "got none"),
        (tmp_path / "*.npz", r"\*\.npz to exist, got no such file"),
    ):
        refused(name, message)


def test_folders_and_files_that_are_refused(tmp_path: Path, monkeypatch: Any) -> None:
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
