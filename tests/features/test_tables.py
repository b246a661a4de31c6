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

from resultant._core import chunks
from resultant.features import FeatureStore, csv_files
from resultant.features.naming import split_of
from resultant.features.partition import open_store
from resultant.features.prepare import prepare

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 12)).astype(np.float32)
Y = np.arange(40) % 4
WORDS = np.array(["ant", "bee", "cat", "dog"])[Y]


def wide(stem: str = "f", **more: Any) -> pa.Table:
    columns = {f"{stem}{i}": X[:, i] for i in reversed(range(12))}
    return pa.table(columns | {"label": Y} | more)


def write_csv(path: Path, table: pa.Table) -> Path:
    names = table.column_names
    lines = [",".join(names)]
    lines += [",".join(str(row[n]) for n in names) for row in table.to_pylist()]
    path.write_text("\n".join(lines) + "\n")
    return path


def write_kind(path: Path, table: pa.Table) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=7)
    elif path.suffix == ".csv":
        write_csv(path, table)
    else:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=9)
    return path


KINDS = (".parquet", ".csv", ".arrow")


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
    with pytest.raises(ValueError, match="no column 'other' among"):
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
    if kind == ".csv":
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


def test_csv_beyond_the_memory_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_csv(tmp_path / "a.csv", wide())
    whole = FeatureStore.open(path)["train/f"]
    monkeypatch.setattr(chunks, "HELD_BYTES", 100)
    # Batches of a few rows.
    monkeypatch.setattr(chunks, "TEXT_BYTES", 1000)
    store = FeatureStore.open(path)
    assert store.copied_bytes("train/f") == 40 * 12 * 8
    assert torch.equal(store.rows("train/f").read(33, 40), whole[33:])
    assert torch.equal(torch.cat([piece for _, piece in store.chunks("train/f", 7)]), whole)
    assert torch.equal(store["train/f"], whole)


def test_csv_that_is_shorter_than_before_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_csv(tmp_path / "a.csv", wide())
    monkeypatch.setattr(chunks, "HELD_BYTES", 100)
    store = FeatureStore.open(path)
    write_csv(path, wide().slice(0, 30))
    with pytest.raises(ValueError, match=r"expected 40 rows in .*a\.csv, got 30"):
        _ = store["train/f"]


def test_csv_of_too_many_columns_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_files, "MAX_WIDTH", 12)
    with pytest.raises(ValueError, match=r"a\.csv .* got: 13 columns"):
        FeatureStore.open(write_csv(tmp_path / "a.csv", wide()))


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


def test_pattern_of_wide_parquet_for_workers(tmp_path: Path) -> None:
    for split in ("train", "test"):
        write_kind(tmp_path / f"{split}.parquet", wide())
    store = open_store(str(tmp_path / "*.parquet"))
    np.testing.assert_array_equal(store["test/f"].numpy(), X)


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


def test_arrow_files_with_footers_are_read(tmp_path: Path) -> None:
    table = pa.table({"z": list(X), "y": Y})
    with (
        pa.OSFile(str(tmp_path / "a.arrow"), "wb") as sink,
        pa.ipc.new_file(sink, table.schema) as writer,
    ):
        writer.write_table(table)
    np.testing.assert_array_equal(FeatureStore.open(tmp_path / "a.arrow")["train/z"].numpy(), X)


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


def test_arrow_files_without_an_end_are_refused(tmp_path: Path) -> None:
    path, table = tmp_path / "a.arrow", pa.table({"z": list(X), "y": Y})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(ValueError, match="whole Arrow file of features, got: no end"):
        FeatureStore.open(path)


@pytest.mark.parametrize(
    ("columns", "match"),
    [
        ({"z": [[]] * 40, "y": Y}, "0 numbers in the first row of 'z'"),
        ({"z": list(X), "y": [[1]] * 40}, "labels 'y' of list<.*, not integers or strings"),
    ],
)
def test_arrow_columns_that_do_not_fit(columns: Any, match: str, tmp_path: Path) -> None:
    columns = {
        n: pa.array(a, pa.list_(pa.float32())) if n == "z" else a for n, a in columns.items()
    }
    path = write_kind(tmp_path / "a.arrow", pa.table(columns))
    with pytest.raises(ValueError, match=match):
        FeatureStore.open(path, features="z", labels="y")


@pytest.mark.parametrize("kind", [".parquet", ".arrow"])
def test_dictionaries_of_integers_are_labels(kind: str, tmp_path: Path) -> None:
    labels = pa.array(Y + 3).dictionary_encode()
    path = write_kind(tmp_path / f"a{kind}", pa.table({"z": list(X), "label": labels}))
    assert FeatureStore.open(path)["train/labels"].tolist() == (Y + 3).tolist()
