"""Tables of every kind: Parquet, Arrow files and streams, Feather, CSV, TSV, and AnnData files."""

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse
import torch

from embedding_files import HELD, SPLIT, N, refused, write, write_parquet
from resultant._core import memory
from resultant.features import FeatureStore, declared, delimited
from resultant.features.naming import TABLES
from resultant.features.prepare import prepare

X = np.random.default_rng(0).normal(size=(N, 12)).astype(np.float32)
Y = np.arange(N) % 4
WORDS = np.array(["ant", "bee", "cat", "dog"])
FILES = np.array([f"img-{i}.png" for i in range(N)])
LISTS = pa.array(list(X))


def wide(stem: str = "f", x: Any = X, **more: Any) -> dict[str, Any]:
    return {f"{stem}{i}": x[:, i] for i in reversed(range(12))} | {"label": Y} | more


LISTS_OF = {"list": pa.list_, "large": pa.large_list, "fixed": lambda kind: pa.list_(kind, 5)}


def vectors(a: np.ndarray, kind: str = "list") -> Any:
    """Rows as a column of lists, as Hugging Face datasets writes it, or of a fixed size."""
    return pa.array(list(a), LISTS_OF[kind](pa.from_numpy_dtype(a.dtype)))


INTEGERS = (100 * X).astype(np.int16)
# Columns, options of `open`, names and values of the features, columns that are left out.
CASES: dict[str, tuple[dict[str, Any], dict[str, str], dict[str, Any], tuple[str, ...]]] = {
    "numbers": (wide(age=np.arange(N) / 2), {}, {"f": X}, ("age",)),
    "two numbers": (wide("pixel_0_"), {}, {"pixel": X}, ()),
    "points": (wide("emb."), {}, {"emb": X}, ()),
    "two vectors": (wide("e_", p_0=X[:, 0], p_1=X[:, 1]), {}, {"e": X, "p": X[:, :2]}, ()),
    "chosen": (wide("e_", p_0=X[:, 0], p_1=X[:, 1]), {"features": "p"}, {"p": X[:, :2]},
               tuple(f"e_{i}" for i in reversed(range(12)))),
    "integers": (wide("f", INTEGERS), {}, {"f": INTEGERS}, ()),
    # Its text has no point in a CSV.
    "one integer": (wide(f3=INTEGERS[:, 3]), {}, {"f": np.where(np.arange(12) == 3, INTEGERS, X)},
                    ()),
    "words": ({"wide": X[:, 0], "long": X[:, 1], "index": Y, "label": Y}, {},
              {"features": X[:, :2]}, ("index",)),
    "mixed words": ({"wide": X[:, 0], "visits": Y + 7, "long": X[:, 1], "user_id": Y,
                     "label": Y}, {}, {"features": np.stack([X[:, 0], Y + 7, X[:, 1]], 1)}, ()),
    "groups": ({"wide": X[:, 0], "writer": Y, "long": X[:, 1], "label": Y}, {"groups": "writer"},
               {"features": X[:, :2]}, ()),
    "integer words": ({"wide": Y, "long": 2 * Y, "label": Y}, {},
                      {"features": np.stack([Y, 2 * Y], 1)}, ()),
    # As data frames make them of integers with missing values.
    "floats named id": ({"wide": X[:, 0], "long": X[:, 1], "id": Y + 0.5, "label": Y}, {},
                        {"features": X[:, :2]}, ("id",)),
}  # fmt: skip


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("case", CASES)
def test_columns_of_numbers(tmp_path: Path, kind: str, case: str) -> None:
    options: Any
    columns, options, expected, left_out = CASES[case]
    store = FeatureStore.open(write(tmp_path / f"a{kind}", columns), **options)
    assert store.features == tuple(f"train/{name}" for name in expected)
    assert store["train/labels"].tolist() == Y.tolist() and store.left_out == left_out
    for name, values in expected.items():
        rows = store.rows(f"train/{name}")
        # Read in pieces and out of order.
        for part in (slice(30, 40), slice(0, 3), slice(3, 11), slice(None)):
            np.testing.assert_allclose(rows[part].numpy(), values[part], rtol=1e-6)


@pytest.mark.parametrize("kind", TABLES)
def test_splits_identities_and_class_names(tmp_path: Path, kind: str) -> None:
    store = FeatureStore.open(write(tmp_path / f"a{kind}", wide(split=SPLIT, id=FILES)))
    np.testing.assert_allclose(store["test/f"].numpy(), X[HELD], rtol=1e-6)
    assert len(store["train/identities"].unique()) == (~HELD).sum()
    columns = wide(split=SPLIT, file=FILES) | {"label": WORDS[Y]}
    other = FeatureStore.open(write(tmp_path / f"b{kind}", columns))
    assert "train/identities" not in other and prepare(other).names == tuple(WORDS)
    named = FeatureStore.open(tmp_path / f"b{kind}", identities="file")
    assert torch.equal(named["test/identities"], store["test/identities"])


STRINGS = pa.array(WORDS[Y].tolist())
LABELS = {
    **{np.dtype(t).name: (pa.array(Y.astype(t)), Y) for t in (np.int8, np.uint16, np.float32)},
    "string": (STRINGS, Y),
    "large_string": (STRINGS.cast(pa.large_string()), Y),
    "categories": (STRINGS.dictionary_encode(), Y),
    "integer categories": (pa.array(Y).dictionary_encode(), Y),
    "bool": (pa.array(Y > 2), Y > 2),
}


@pytest.mark.parametrize("kind", [".parquet", ".arrow", ".feather"])
@pytest.mark.parametrize("label", LABELS)
def test_labels_of_every_type(tmp_path: Path, kind: str, label: str) -> None:
    given, expected = LABELS[label]
    columns = {"z": LISTS, "Label": given, "split": SPLIT, "path": ["a"] * N}
    store = FeatureStore.open(write(tmp_path / f"a{kind}", columns))
    assert (store["train/labels"].numpy() == expected[~HELD]).all()
    assert (store["test/labels"].numpy() == expected[HELD]).all()
    assert ("class_names" in store.metadata) == (label in ("string", "large_string", "categories"))
    assert store.left_out == () and "path" in store.origins["train"].columns


@pytest.mark.parametrize(
    ("labels", "expected", "names"),
    [
        (["0.0", "1.0", "10.0", "2.0"], [0, 1, 10, 2], None),
        (["0", "1", "10", "2"], [0, 1, 10, 2], None),
        (["true", "false", "false", "true"], [1, 0, 0, 1], ["false", "true"]),
        (["2024-01-02", "2024-01-01"] * 2, [1, 0, 1, 0], ["2024-01-01", "2024-01-02"]),
    ],
)
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_labels_in_csv(labels: Any, expected: Any, names: Any, mark: str, tmp_path: Path) -> None:
    rows = [f"{label},{i}.5,{i}" for i, label in enumerate(labels)]
    text = "\n".join([f"{mark}label,f0,f1", *rows])
    (tmp_path / "a.csv").write_text(text, encoding="utf-8")
    store = FeatureStore.open(tmp_path / "a.csv")
    assert store["train/labels"].tolist() == expected
    assert store.metadata.get("class_names") == names


@pytest.mark.parametrize("kind", ["list", "large", "fixed"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int64])
def test_lists_of_every_kind(kind: str, dtype: Any, tmp_path: Path, monkeypatch: Any) -> None:
    x = (20 * X[:23, :5]).astype(dtype)
    columns = {"z": vectors(x, kind), "tokens": list(Y[:23, None]), "label": Y[:23]}
    columns["split"] = np.where(HELD, "validation", "train")[:23]
    # Pieces that end neither with a row group nor with a batch.
    monkeypatch.setattr(memory, "MATRIX_BYTES", 4 * 5 * x.itemsize)
    for suffix in (".parquet", ".arrow", ".feather"):
        store = FeatureStore.open(write(tmp_path / f"a{suffix}", columns), features="z")
        assert store.splits == ("train", "val") and store.num_classes == 4
        for name, rows in (("train", ~HELD[:23]), ("val", HELD[:23])):
            for height in (1, 2, 5, 100):
                pieces = [piece for _, piece in store.chunks(f"{name}/z", height)]
                assert (torch.cat(pieces).numpy() == x[rows]).all()
    whole = FeatureStore.open(tmp_path / "a.parquet")
    assert ("train/tokens" in whole) == (dtype is np.int64)


@pytest.mark.parametrize("splits", [["."], ["train", "validation", "test"]])
def test_folder_of_a_hugging_face_dataset(tmp_path: Path, splits: list[str]) -> None:
    """As ``datasets.Dataset.save_to_disk`` writes it."""
    features = {"label": {"names": WORDS.tolist(), "_type": "ClassLabel"}}
    metadata = {b"huggingface": json.dumps({"info": {"features": features}}).encode()}
    table = pa.table({"embedding": LISTS, "label": Y, "text": FILES})
    table = table.replace_schema_metadata(metadata)
    for folder in (tmp_path / split for split in splits):
        folder.mkdir(exist_ok=True)
        for i in (0, 1):
            write(folder / f"data-0000{i}-of-00002.arrow", table.slice(20 * i, 20))
        (folder / "cache-12ab.arrow").write_bytes(b"another dataset")
        (folder / "dataset_info.json").write_text("{}")
    store = FeatureStore.open(tmp_path)
    assert store.metadata["class_names"] == WORDS.tolist()
    assert len(store.splits) == len(splits)
    for split in store.splits:
        np.testing.assert_array_equal(store[f"{split}/embedding"].numpy(), X)
        assert store[f"{split}/labels"].tolist() == Y.tolist()


def test_names_with_dots(tmp_path: Path) -> None:
    columns = {"z.v1": LISTS, "z": vectors(X[:, :2]), "label.v1": Y + 1, "label": Y}
    store = FeatureStore.open(write(tmp_path / "a.parquet", columns))
    assert torch.equal(store["train/z.v1"], torch.from_numpy(X))
    assert torch.equal(store["train/z"], torch.from_numpy(X[:, :2]))
    assert store["train/labels"].tolist() == Y.tolist()


def test_declared_sizes_are_compared_with_the_memory(tmp_path: Path, monkeypatch: Any) -> None:
    columns = {"x": vectors(np.ones((1000, 100))), "y": np.arange(1000)}
    write_parquet(tmp_path / "a.parquet", columns)
    monkeypatch.setattr(declared, "total_memory", lambda: 1 << 20)
    refused(tmp_path / "a.parquet", "800,000 bytes of x, beyond")
    # Row groups are read one after the other, labels as a whole.
    write_parquet(tmp_path / "a.parquet", columns, row_group_size=100)
    FeatureStore.open(tmp_path / "a.parquet").check()
    monkeypatch.setattr(declared, "total_memory", lambda: 1 << 12)
    refused(tmp_path / "a.parquet", "9,830 bytes of y, beyond")


def test_a_csv_may_be_larger_than_half_of_the_memory(tmp_path: Path, monkeypatch: Any) -> None:
    """Its columns are bounded. Types are those of all blocks, not of the first alone."""
    labels, floats = ["1"] * 30 + ["one"], ["7"] * 20 + ["0.123456789012345"] * 11
    lines = [f"{x},0.250000000000000,{y}\n" for x, y in zip(floats, labels, strict=True)]
    (tmp_path / "a.csv").write_text("f0,f1,label\n" + "".join(lines) + "\n")
    monkeypatch.setattr(delimited, "BLOCK", 64)
    monkeypatch.setattr(declared, "total_memory", lambda: 1000)
    assert (tmp_path / "a.csv").stat().st_size > 700
    store = FeatureStore.open(tmp_path / "a.csv")
    expected = torch.tensor([[float(x), 0.25] for x in floats])
    assert store.dtype("train/f") == torch.float32 and torch.equal(store["train/f"], expected)
    assert store.metadata["class_names"] == ["1", "one"]
    monkeypatch.setattr(declared, "total_memory", lambda: 500)
    refused(tmp_path / "a.csv", "bytes of columns, beyond half of the memory")


ONES = vectors(np.ones((6, 2), np.float32))
NULLS = ["train", None, "test", "test", None, "train"]
TEXT = pa.array(["=cmd()", *X[1:, 9].astype(str)])
HOLE = pa.array([None if i == 17 else float(v) for i, v in enumerate(X[:, 3])])
REFUSALS: list[tuple[dict[str, Any], dict[str, str], str]] = [
    ({"x": pa.array([[1.0], [1.0, 2.0]])}, {}, "got: 2 numbers in row 1 of 'x', and 1 before"),
    ({"x": pa.array([[1.0, 2.0], [1.0, 3.0], None])}, {}, "got: a null in row 2 of 'x'"),
    ({"x": pa.array([[1.0, 2.0], [1.0, None]])}, {}, "got: a null in row 1 of 'x'"),
    ({"x": pa.array([[]] * 3, pa.list_(pa.float32()))}, {}, "no numbers in the first row of 'x'"),
    ({"x": ONES, "label": [1, 2, None, 1, 1, 1]}, {}, "label of .*, got nothing in row 2; fill in"),
    ({"x": ONES, "label": [[1]] * 6}, {}, r"label of .* integers or strings, got list"),
    ({"x": ONES, "label": np.arange(6).astype("M8[s]")}, {}, "strings, got timestamp"),
    ({"x": ONES, "label": [0, 1, 2.5, 0, 1, 2]}, {}, "label of .* whole .* got 2.5 in row 2"),
    ({"x": ONES, "split": NULLS}, {}, "splits in split of .* got: the split ''"),
    ({"x": ONES, "split": ["train"] * 5 + ["dev"]}, {}, "split 'dev', none of train"),
    ({"x": [1.0, 2.0]}, {}, r"expected features .* got train/x \(torch.float64 \(2,\)\)"),
    ({"x": vectors(np.full((6, 2), np.nan))}, {}, "finite, got nan in row 0"),
    (wide(f9=TEXT), {}, "column 'f9' of string among the numbers of f0, f1"),
    (wide(f3=HOLE), {}, "a null in row 17 of 'f3'"),
    ({"x": ONES, "kind": range(6)}, {"features": "nope"}, "expected 'nope' among .* got kind, x"),
    ({"x": ONES, "kind": range(6)}, {"labels": "knd"}, r"got kind, x; did you mean 'kind'\?"),
    ({"x": ONES, "kind": range(6)}, {"identities": "kid"}, "expected 'kid' among the names"),
    ({"x": ONES, "kind": range(6)}, {"features": "kind"}, r"\[N, d\] floats, got torch.int64"),
    ({"x": ONES, "b": ONES}, {"labels": "x"}, "integers or strings, got list"),
    ({"x": ONES.slice(0, 0)}, {}, "no rows"),
    (pa.table([LISTS, LISTS, Y], names=["z", "z", "y"]), {}, r"train/z \(2 columns of one name"),
]


@pytest.mark.parametrize("kind", [".parquet", ".arrow"])
@pytest.mark.parametrize("case", range(len(REFUSALS)))
def test_columns_that_do_not_fit(case: int, kind: str, tmp_path: Path) -> None:
    columns, options, message = REFUSALS[case]
    refused(write(tmp_path / f"a{kind}", columns), message, **options)


@pytest.mark.parametrize("kind", [".csv", ".tsv"])
def test_texts_that_do_not_fit(kind: str, tmp_path: Path) -> None:
    path, comma = tmp_path / f"a{kind}", "," if kind == ".csv" else "\t"
    texts = {"": "", "a,b,label\n": "no rows", "0.5,1.5,2\n0.25,1,3\n": "numbers in the first line"}
    for text, message in texts.items():
        path.write_text(text.replace(",", comma))
        refused(path, rf"{kind} .*{message}")
    words = pa.array(["=cmd()", "b", "c", *X[3:, 9].astype(str)])
    for columns, message in (
        (wide(f9=TEXT), "in row 0 of 'f9', where 39 rows have numbers"),
        (wide(f9=words), "column 'f9' of string"),
        (wide(f3=HOLE), "row 17"),
    ):
        refused(write(path, columns), rf"{kind} .*{message}")


CELLS = np.random.default_rng(0).normal(size=(30, 7)).astype(np.float32)
TYPES = np.arange(30) % 3
STRING = h5py.string_dtype()


def write_cells(path: Path, *, sparse: bool = False, **obs: Any) -> Path:
    """Write X, obsm/X_pca, and obs with categories, an index and more columns."""
    with h5py.File(path, "w") as file:
        if sparse:
            matrix, group = scipy.sparse.csr_matrix(CELLS), file.create_group("X")
            group.attrs["encoding-type"], group.attrs["shape"] = "csr_matrix", CELLS.shape
            for name in ("data", "indices", "indptr"):
                group[name] = getattr(matrix, name)
        else:
            file["X"] = CELLS
        file["obsm/X_pca"] = CELLS[:, :3].astype(np.float64)
        table = file.create_group("obs")
        table.attrs["_index"] = "_index"
        table["_index"] = np.array([f"cell-{i}" for i in range(30)], dtype=STRING)
        table["cell_type/categories"] = np.array(["B", "NK", "T"], dtype=STRING)
        table["cell_type/codes"] = TYPES.astype(np.int8)
        for name, values in obs.items():
            table[name] = values
    return path


@pytest.mark.parametrize("sparse", [False, True])
def test_anndata(tmp_path: Path, sparse: bool) -> None:
    split = np.array(["train"] * 20 + ["test"] * 10, dtype=STRING)
    path = write_cells(tmp_path / "a.h5ad", sparse=sparse, leiden=(TYPES == 0).astype(np.int32))
    store = FeatureStore.open(path)
    np.testing.assert_array_equal(store["train/X_pca"].numpy(), CELLS[:, :3])
    for rows in (slice(None), slice(11, 19), slice(29, 3, -5), slice(5, 5)):
        np.testing.assert_array_equal(store.rows("train/X")[rows].numpy(), CELLS[rows])
    assert store["train/labels"].tolist() == TYPES.tolist() and store.left_out == ("leiden",)
    assert store.metadata["class_names"] == ["B", "NK", "T"]
    assert len(store["train/identities"].unique()) == 30
    with h5py.File(path, "a") as file:
        file["obs/split"] = split
    store = FeatureStore.open(path, labels="leiden", features="X_pca")
    assert store.shape("test/X_pca") == (10, 3)
    assert store["train/labels"].tolist() == (TYPES == 0)[:20].astype(int).tolist()


def test_other_members_of_anndata(tmp_path: Path) -> None:
    """Cubes, matrices by columns and tables without codes; categories may be numbers."""
    path = write_cells(tmp_path / "a.h5ad", pairs=np.ones((30, 2)), complex=np.ones(30, complex))
    with h5py.File(path, "a") as file:
        file["obsm/cube"] = np.ones((30, 2, 2))
        file["obsm/columns/data"] = np.ones(3)
        file["obsm/columns"].attrs["encoding-type"] = "csc_matrix"
        file["obs/table/a"] = np.ones(30)
        file["obs/halves/codes"], file["obs/halves/categories"] = np.full(30, 0.5), np.ones(2)
        file["obs/year/codes"], file["obs/year/categories"] = TYPES, np.array([2001, 2004, 2002])
    store = FeatureStore.open(path, labels="year")
    assert set(store.features) == {"train/X", "train/X_pca"}
    assert store.metadata["class_names"] == ["2001", "2002", "2004"]
    assert store["train/labels"].tolist() == np.array([0, 2, 1])[TYPES].tolist()
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


DAMAGES = [
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


@pytest.mark.parametrize(("damage", "message"), DAMAGES)
def test_damaged_anndata(
    tmp_path: Path, damage: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_cells(tmp_path / "a.h5ad", sparse=True)
    with h5py.File(path, "a") as file:
        damage(file)
    monkeypatch.setattr(declared, "total_memory", lambda: 1 << 22)
    with pytest.raises(ValueError, match=rf"a\.h5ad.*, got.*{message}") as caught:
        FeatureStore.open(path).rows("train/X").read(0, 30)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("words", [np.array(["a", "b", "c"], dtype=STRING), np.arange(3)])
def test_missing_categories_matter_to_their_column_alone(tmp_path: Path, words: Any) -> None:
    path = write_cells(tmp_path / "a.h5ad")
    with h5py.File(path, "a") as file:
        file["obs/batch/codes"] = np.where(np.arange(30) > 27, -1, TYPES).astype(np.int8)
        file["obs/batch/categories"] = words
    assert FeatureStore.open(path)["train/labels"].tolist() == TYPES.tolist()
    rule = r"a category in every row of batch of .* got 2 rows without one, .* row 28; leave"
    refused(path, rule, labels="batch")
