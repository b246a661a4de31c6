"""Tables with one column per feature, CSV files and folders of Hugging Face datasets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from pyarrow import feather

from embedding_files import write_parquet
from resultant._core import chunks, memory
from resultant.features import FeatureStore
from resultant.features.naming import split_of
from resultant.features.prepare import prepare

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 12)).astype(np.float32)
Y = np.arange(40) % 4
WORDS = np.array(["ant", "bee", "cat", "dog"])[Y]


def wide(stem: str = "f", **more: Any) -> pa.Table:
    columns = {f"{stem}{i}": X[:, i] for i in reversed(range(12))}
    return pa.table(columns | {"label": Y} | more)


def write_csv(path: Path, table: pa.Table) -> Path:
    names, comma = table.column_names, "\t" if path.suffix == ".tsv" else ","
    lines = [comma.join(names)]
    lines += [comma.join(str(row[n]) for n in names) for row in table.to_pylist()]
    path.write_text("\n".join(lines) + "\n")
    return path


def write_kind(path: Path, table: pa.Table) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=7)
    elif path.suffix in (".csv", ".tsv"):
        write_csv(path, table)
    elif path.suffix == ".feather":
        feather.write_feather(table, str(path), compression="zstd", chunksize=9)
    else:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=9)
    return path


KINDS = (".parquet", ".csv", ".tsv", ".arrow", ".feather")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stem", ["f", "pixel_", "emb."])
def test_columns_with_numbers_are_one_vector(tmp_path: Path, kind: str, stem: str) -> None:
    path = write_kind(tmp_path / f"a{kind}", wide(stem, age=np.arange(40) / 2))
    store = FeatureStore.open(path)
    (name,) = store.features
    np.testing.assert_allclose(store[name].numpy(), X, rtol=1e-6)
    assert store["train/labels"].tolist() == Y.tolist()
    assert store.left_out == ("age",)
    # Read again, in pieces and out of order.
    rows = store.rows(name)
    for start, stop in ((30, 40), (0, 3), (3, 11), (11, 30)):
        np.testing.assert_allclose(rows.read(start, stop).numpy(), X[start:stop], rtol=1e-6)
    assert prepare(store).store.num_classes == 4


@pytest.mark.parametrize("kind", KINDS)
def test_columns_without_numbers_are_one_vector(tmp_path: Path, kind: str) -> None:
    table = pa.table({"wide": X[:, 0], "long": X[:, 1], "index": np.arange(40), "class": WORDS})
    store = FeatureStore.open(write_kind(tmp_path / f"a{kind}", table))
    np.testing.assert_allclose(store["train/features"].numpy(), X[:, :2], rtol=1e-6)
    assert store.metadata["class_names"] == ["ant", "bee", "cat", "dog"]


@pytest.mark.parametrize("kind", KINDS)
def test_vectors_are_chosen_by_the_name_before_the_numbers(tmp_path: Path, kind: str) -> None:
    table = wide("enc_", proj_0=X[:, 0], proj_1=X[:, 1])
    path = write_kind(tmp_path / f"a{kind}", table)
    assert FeatureStore.open(path).features == ("train/enc", "train/proj")
    assert FeatureStore.open(path, features="proj").shape("train/proj") == (40, 2)
    with pytest.raises(ValueError, match="no array or column 'other' among"):
        FeatureStore.open(path, features="other")


def test_names_of_many_digits(tmp_path: Path) -> None:
    """They take no longer than other names."""
    names = ["1" * 60 + "a", "1-" * 30_000 + "a", "x1", "x_2"]
    table = pa.table({name: [0.5, 1.5] for name in names} | {"label": [0, 1]})
    pq.write_table(table, tmp_path / "a.parquet")
    assert FeatureStore.open(tmp_path / "a.parquet").shape("train/x") == (2, 2)
    digits = "7" * 60_000
    assert split_of(f"{digits}b_test") == split_of(f"a_test{digits}") == "test"


@pytest.mark.parametrize("kind", KINDS)
def test_integers_can_be_features(tmp_path: Path, kind: str) -> None:
    values = (100 * X).astype(np.int16)
    table = pa.table({f"pixel_0_{i}": values[:, i] for i in range(12)} | {"label": Y})
    store = FeatureStore.open(write_kind(tmp_path / f"a{kind}", table))
    assert (store[store.features[0]].numpy() == values).all()


@pytest.mark.parametrize("kind", KINDS)
def test_splits_and_identities_are_columns(tmp_path: Path, kind: str) -> None:
    split = np.where(np.arange(40) < 30, "train", "test")
    names = np.array([f"img-{i}.png" for i in range(40)])
    path = write_kind(tmp_path / f"a{kind}", wide(split=split, id=names))
    store = FeatureStore.open(path)
    assert store.shape("train/f") == (30, 12) and store.shape("test/f") == (10, 12)
    assert len(store["train/identities"].unique()) == 30
    other = FeatureStore.open(write_kind(tmp_path / f"b{kind}", wide(split=split, file=names)))
    assert "train/identities" not in other
    named = FeatureStore.open(tmp_path / f"b{kind}", identities="file")
    assert torch.equal(named["test/identities"], store["test/identities"])


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.uint8, np.uint16])
def test_small_integers_are_labels(tmp_path: Path, dtype: Any) -> None:
    table = wide().set_column(12, "label", pa.array(Y.astype(dtype)))
    for kind in (".parquet", ".arrow"):
        store = FeatureStore.open(write_kind(tmp_path / f"a{kind}", table))
        assert store["train/labels"].dtype == torch.int64
        assert store["train/labels"].tolist() == Y.tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_missing_numbers_are_refused(tmp_path: Path, kind: str) -> None:
    values: list[Any] = X[:, 3].tolist()
    values[17] = None
    table = wide().set_column(8, "f3", pa.array(values, pa.float32()))
    path = write_kind(tmp_path / f"a{kind}", table)
    if kind in (".csv", ".tsv"):
        path.write_text(path.read_text().replace("None", ""))
    with pytest.raises(ValueError, match="a null in row 17") as caught:
        FeatureStore.open(path).check()
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cut", [0, 3, 50, 400])
def test_truncated_files_are_refused_in_one_line(tmp_path: Path, kind: str, cut: int) -> None:
    path = write_kind(tmp_path / f"a{kind}", wide())
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(ValueError, match=rf"a\{kind}") as caught:
        FeatureStore.open(path).check()
    assert "\n" not in str(caught.value)


def test_a_column_of_zeros_is_a_feature(tmp_path: Path) -> None:
    """Its text has no point, so pyarrow reads integers."""
    x = np.where(np.arange(12) == 3, 0, np.abs(X[:5]))
    lines = [",".join([*(f"{a:g}" for a in row), str(c % 2)]) for c, row in enumerate(x)]
    head = ",".join([*(f"f{i}" for i in range(12)), "label"])
    (tmp_path / "a.csv").write_text("\n".join([head, *lines]))
    store = FeatureStore.open(tmp_path / "a.csv")
    np.testing.assert_allclose(store["train/f"].numpy(), x, rtol=1e-4)


def test_csv_without_a_header_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("0.5,1.5,2\n0.25,1,3\n")
    with pytest.raises(ValueError, match="with a header line, got: numbers in the first line"):
        FeatureStore.open(tmp_path / "a.csv")


def test_csv_with_text_among_numbers_is_refused(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", wide())
    lines = path.read_text().splitlines()
    lines[30] = lines[30].replace(lines[30].split(",")[2], "=cmd()")
    path.write_text("\n".join(lines))
    with pytest.raises(ValueError, match="column 'f9' of string among the numbers of f0, f1"):
        FeatureStore.open(path)


# Hugging Face datasets


def dataset(folder: Path, label: Any = Y) -> None:
    """Write a folder as ``datasets.Dataset.save_to_disk`` does, in two files."""
    folder.mkdir(parents=True)
    features = {"label": {"names": ["ant", "bee", "cat", "dog"], "_type": "ClassLabel"}}
    metadata = {b"huggingface": json.dumps({"info": {"features": features}}).encode()}
    table = pa.table({"embedding": list(X), "label": label, "text": ["x"] * 40})
    table = table.replace_schema_metadata(metadata)
    files = [f"data-0000{i}-of-00002.arrow" for i in (0, 1)]
    for i, name in enumerate(files):
        write_kind(folder / name, table.slice(20 * i, 20))
    (folder / "cache-12ab.arrow").write_bytes(b"another dataset")
    (folder / "dataset_info.json").write_text("{}")
    (folder / "state.json").write_text(
        json.dumps({"_data_files": [{"filename": n} for n in files]})
    )


def test_folder_of_a_hugging_face_dataset(tmp_path: Path) -> None:
    dataset(tmp_path / "set")
    store = FeatureStore.open(tmp_path / "set")
    np.testing.assert_array_equal(store["train/embedding"].numpy(), X)
    assert store["train/labels"].tolist() == Y.tolist()
    assert store.metadata["class_names"] == ["ant", "bee", "cat", "dog"]


def test_folder_of_a_hugging_face_dataset_with_splits(tmp_path: Path) -> None:
    for split in ("train", "validation", "test"):
        dataset(tmp_path / "set" / split)
    (tmp_path / "set" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    store = FeatureStore.open(tmp_path / "set")
    assert set(store.splits) == {"train", "val", "test"}
    assert store.shape("val/embedding") == (40, 12)


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
@pytest.mark.parametrize("make", [pa.ipc.new_file, pa.ipc.new_stream])
def test_arrow_files_and_streams(make: Any, compression: str | None, tmp_path: Path) -> None:
    labels = pa.array(WORDS).dictionary_encode()
    table = pa.table({"z": list(X), "label": labels})
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with make(str(tmp_path / "a.arrow"), table.schema, options=options) as writer:
        writer.write_table(table, 7)
    store = FeatureStore.open(tmp_path / "a.arrow")
    np.testing.assert_array_equal(store["train/z"].numpy(), X)
    assert store["train/labels"].tolist() == Y.tolist()


@pytest.mark.parametrize("seed", range(8))
def test_damaged_arrow_files_are_errors_or_values(tmp_path: Path, seed: int) -> None:
    path = write_kind(tmp_path / "a.arrow", pa.table({"z": list(X), "y": Y}))
    data = bytearray(path.read_bytes())
    for at in np.random.default_rng(seed).integers(0, len(data), 6):
        data[at] ^= 0xFF
    path.write_bytes(bytes(data))
    said = ""
    try:
        FeatureStore.open(path).check()
    except ValueError as error:
        said = str(error)
    assert "\n" not in said


@pytest.mark.parametrize("kind", KINDS)
def test_empty_tables_are_refused(kind: str, tmp_path: Path) -> None:
    path = write_kind(tmp_path / f"a{kind}", wide().slice(0, 0))
    with pytest.raises(ValueError, match="no rows"):
        FeatureStore.open(path)


def vectors(a: np.ndarray, kind: str = "list") -> Any:
    """Rows as a column of lists, as Hugging Face datasets writes it, or of a fixed size."""
    values = pa.array(a.ravel())
    if kind == "fixed":
        return pa.FixedSizeListArray.from_arrays(values, a.shape[1])
    make = pa.LargeListArray if kind == "large" else pa.ListArray
    offsets = pa.array(np.arange(len(a) + 1) * a.shape[1], type=pa.int64())
    return make.from_arrays(offsets if kind == "large" else offsets.cast(pa.int32()), values)


@pytest.mark.parametrize("kind", ["list", "large", "fixed"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_lists_of_every_kind(kind: str, dtype: Any, tmp_path: Path, monkeypatch: Any) -> None:
    x = np.random.default_rng(1).normal(size=(23, 5)).astype(dtype)
    y = np.arange(23) % 3
    split = ["train" if i % 4 else "validation" for i in range(23)]
    columns = {"id": np.arange(23), "embedding": vectors(x, kind), "label": y, "split": split}
    write_parquet(tmp_path / "a.parquet", columns, row_group_size=6)
    # Batches that end neither with a row group nor with a piece.
    monkeypatch.setattr(chunks, "MATRIX_BYTES", 4 * 5 * dtype().itemsize)
    result = FeatureStore.open(tmp_path / "a.parquet")
    assert result.splits == ("train", "val") and result.num_classes == 3
    of_train = np.array([s == "train" for s in split])
    for name, rows in (("train", of_train), ("val", ~of_train)):
        assert (result[f"{name}/embedding"].numpy() == x[rows]).all()
        assert (result[f"{name}/labels"].numpy() == y[rows]).all()
        for height in (1, 2, 5, 100):
            pieces = [piece for _, piece in result.chunks(f"{name}/embedding", height)]
            assert max(map(len, pieces)) <= height
            assert (torch.cat(pieces).numpy() == x[rows]).all()


def test_named_columns(tmp_path: Path) -> None:
    x = np.ones((6, 2), np.float32)
    columns = {"a": vectors(x), "b": vectors(2 * x), "kind": np.arange(6), "text": list("abcdef")}
    path = tmp_path / "a.parquet"
    write_parquet(path, columns)
    assert FeatureStore.open(path).features == ("train/a", "train/b")
    result = FeatureStore.open(path, features="b", labels="kind")
    assert result.features == ("train/b",) and result.num_classes == 6
    for named, message in (
        ({"features": "nope"}, r"a\.parquet, got no array or column 'nope' among a, b, kind, text"),
        ({"labels": "knd"}, r"no array or column 'knd' among .*; did you mean 'kind'\?"),
        ({"identities": "txt"}, r"no array or column 'txt' .*; did you mean 'text'\?"),
        ({"features": "kind"}, r"kind of .* \[N, d\] floats, got torch.int64 \(6,\)"),
        ({"labels": "a"}, r"a of .* \[N\] integers or strings, got dtype list"),
    ):
        with pytest.raises(ValueError, match=message):
            FeatureStore.open(path, **named)


def test_names_with_dots(tmp_path: Path) -> None:
    columns = {"z.v1": vectors(X), "z": vectors(X[:, :2]), "label.v1": Y + 1, "label": Y}
    write_parquet(tmp_path / "a.parquet", columns)
    result = FeatureStore.open(tmp_path / "a.parquet")
    assert torch.equal(result["train/z.v1"], torch.from_numpy(X))
    assert torch.equal(result["train/z"], torch.from_numpy(X[:, :2]))
    assert result["train/labels"].tolist() == Y.tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_floats_are_no_identities(kind: str, tmp_path: Path) -> None:
    """As data frames make them of integers with missing values."""
    path = write_kind(tmp_path / f"a{kind}", wide(id=np.arange(40) + 0.5))
    store = FeatureStore.open(path)
    assert "train/identities" not in store and store.left_out == ("id",)
    table = pa.table({"wide": X[:, 0], "long": X[:, 1], "id": np.arange(40) + 0.5, "class": WORDS})
    assert FeatureStore.open(write_kind(path, table)).shape("train/features") == (40, 2)


def test_one_hot_rows_are_no_bomb(tmp_path: Path) -> None:
    labels = np.arange(20_000) % 1500
    write_parquet(tmp_path / "a.parquet", {"x": vectors(np.eye(1500)[labels]), "y": labels})
    assert (tmp_path / "a.parquet").stat().st_size < 1 << 20
    store = FeatureStore.open(tmp_path / "a.parquet")
    for rows, piece in store.chunks("train/x"):
        assert torch.equal(piece.argmax(1), store["train/labels"][rows])


def test_declared_sizes_are_compared_with_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.parquet"
    write_parquet(path, {"x": vectors(np.ones((1000, 100))), "y": np.arange(1000)})
    monkeypatch.setattr(memory, "total_memory", lambda: 1 << 20)
    with pytest.raises(ValueError, match=r"a\.parquet .* 800,000 bytes of x, beyond"):
        FeatureStore.open(path).check()
    # Row groups are read one after the other, labels as a whole.
    columns = {"x": vectors(np.ones((1000, 100))), "y": np.arange(1000)}
    write_parquet(path, columns, row_group_size=100)
    FeatureStore.open(path).check()
    monkeypatch.setattr(memory, "total_memory", lambda: 1 << 12)
    with pytest.raises(ValueError, match="9,830 bytes of y, beyond"):
        FeatureStore.open(path)


NULLS = pa.array(["train", None, "test", "test", None, "train"])
ONES = vectors(np.ones((6, 2), np.float32))
REFUSALS: list[tuple[dict[str, Any], str]] = [
    ({"x": pa.array([[1.0], [1.0, 2.0]])}, "got: 2 numbers in row 1 of 'x', and 1 before"),
    ({"x": pa.array([[1.0, 2.0], [1.0, 3.0], None])}, "got: a null in row 2 of 'x'"),
    ({"x": pa.array([[1.0, 2.0], [1.0, None]])}, "got: a null in row 1 of 'x'"),
    ({"x": pa.array([[]] * 3, pa.list_(pa.float32()))}, "0 numbers in the first row of 'x'"),
    ({"x": ONES, "label": [1, 2, None, 1, 1, 1]}, "a null in row 2 of 'label'$"),
    ({"x": ONES, "label": [[1]] * 6}, r"label of .* \[N\] integers or strings, got dtype list"),
    ({"x": ONES, "label": np.arange(6).astype("M8[s]")}, "strings, got dtype timestamp"),
    ({"x": ONES, "label": [0, 1, 2.5, 0, 1, 2]}, "label of .* whole numbers, got 2.5 in row 2"),
    ({"x": ONES, "split": NULLS}, "a null in row 1 of 'split', the first of 2$"),
    ({"x": ONES, "split": ["train"] * 5 + ["dev"]}, "split 'dev', none of train"),
    ({"x": [1.0, 2.0]}, r"expected features .* got train/x \(torch.float64 \[2\]\)"),
    ({"x": vectors(np.full((6, 2), np.nan))}, "finite, got nan in row 0"),
]


@pytest.mark.parametrize("kind", [".parquet", ".arrow"])
@pytest.mark.parametrize(("columns", "message"), REFUSALS)
def test_columns_that_do_not_fit(columns: Any, message: str, kind: str, tmp_path: Path) -> None:
    path = write_kind(tmp_path / f"a{kind}", pa.table(columns))
    with pytest.raises(ValueError, match=message) as caught:
        FeatureStore.open(path).check()
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    table = pa.table([vectors(X), vectors(X), pa.array(Y)], names=["z", "z", "label"])
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"a\.parquet, .* got train/z \(2 columns of one"):
        FeatureStore.open(tmp_path / "a.parquet")


def test_integers_in_lists(tmp_path: Path) -> None:
    x = (100 * X).astype(np.int64)
    write_parquet(tmp_path / "a.parquet", {"emb": list(x), "label": Y})
    assert (FeatureStore.open(tmp_path / "a.parquet")["train/emb"].numpy() == x).all()
    write_parquet(tmp_path / "a.parquet", {"emb": list(X), "tokens": list(x), "label": Y})
    assert FeatureStore.open(tmp_path / "a.parquet").features == ("train/emb",)
