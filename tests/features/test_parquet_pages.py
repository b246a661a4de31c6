"""Sizes of Parquet pages against those of Arrow, and files whose headers lie."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embedding_files import write_parquet
from resultant._core import chunks
from resultant.features.parquet_pages import Column, Compact, read_columns, read_pages
from resultant.features.store import FeatureStore

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

MiB = 1 << 20


@pytest.mark.parametrize(
    "options",
    [
        {"data_page_version": "1.0"},
        {"data_page_version": "2.0", "compression": "zstd"},
        {"use_dictionary": False, "column_encoding": {"name": "DELTA_BYTE_ARRAY"}},
    ],
)
def test_sizes_are_those_of_arrow(options: dict[str, Any], tmp_path: Path) -> None:
    path, number = tmp_path / "a.parquet", 3000
    rng = np.random.default_rng(1)
    names = [f"a name {i}" for i in range(number)]
    columns = {"x": list(rng.normal(size=(number, 4))), "name": names}
    table = pa.table(columns)
    pq.write_table(table, path, row_group_size=1100, data_page_size=4096, **options)
    metadata = pq.read_metadata(path)
    with pa.OSFile(str(path)) as source:
        groups = read_columns(source, metadata.num_row_groups, metadata.num_columns)
        assert [rows for rows, _ in groups] == [1100, 1100, 800]
        for g, (_, found) in enumerate(groups):
            for c, column in enumerate(found):
                expected = metadata.row_group(g).column(c)
                assert column.values == expected.num_values
                assert column.length == expected.total_compressed_size
                pages = read_pages(source, column)
                # Arrow counts the headers too.
                assert 0 < expected.total_uncompressed_size - pages.decoded < 0.1 * pages.decoded
                assert pages.prefixes == ("DELTA_BYTE_ARRAY" in expected.encodings)


def test_a_page_that_lies_about_its_size(tmp_path: Path) -> None:
    path, number = tmp_path / "a.parquet", 1 << 18
    table = pa.table(
        {"x0": np.zeros(number), "x1": np.zeros(number), "label": np.arange(number) % 2}
    )
    pq.write_table(
        table, path, use_dictionary=False, data_page_size=4 * MiB, max_rows_per_page=number
    )
    data = bytearray(path.read_bytes())
    # Kind 0; then the size, whose number has four bytes: 2 MiB become 128.
    assert data[4:7] == b"\x15\x00\x15" and data[10] < 128 <= data[9]
    data[7:11] = b"\xfe\xff\xff\x7f"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"a\.parquet.*decodes to 134,217,727 bytes or more"):
        FeatureStore.open(path)


PREFIXES = {"use_dictionary": False, "column_encoding": {"label": "DELTA_BYTE_ARRAY"}}


@pytest.fixture
def pool() -> Iterator[Any]:
    """The memory of Arrow, counted from here on."""
    before = pa.default_memory_pool()
    counted = pa.proxy_memory_pool(before)
    pa.set_memory_pool(counted)
    yield counted
    pa.set_memory_pool(before)


@pytest.mark.parametrize(
    ("options", "column", "limit"), [({}, "split", 4 * MiB), (PREFIXES, "label", 256 * MiB)]
)
def test_strings_that_repeat_take_bounded_memory(
    options: dict[str, Any], column: str, limit: int, pool: Any, tmp_path: Path
) -> None:
    """A hundred megabytes of strings in a small file."""
    path, number, long = tmp_path / "a.parquet", 2000, 50_000 * "x"
    strings = [long + str(i) for i in range(number)] if options else [long] * number
    columns: dict[str, Any] = {"x": [[0.5, 2.0]] * number, "label": ["a", "b"] * (number // 2)}
    pq.write_table(pa.table({**columns, column: strings}), path, **options)
    assert path.stat().st_size < MiB // 4
    pool = pa.proxy_memory_pool(pool)
    pa.set_memory_pool(pool)
    with pytest.raises(ValueError, match=r"a\.parquet.*(beyond the limit|the split)"):
        FeatureStore.open(path)
    assert pool.max_memory() < limit


def test_labels_that_share_beginnings(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(chunks, "READ_BYTES", 1 << 10)
    x, y = np.random.default_rng(1).normal(size=(90, 3)), np.arange(90) % 4
    columns = {"x": list(x), "label": [f"class {i}" for i in y]}
    write_parquet(tmp_path / "a.parquet", columns, **PREFIXES)
    assert (FeatureStore.open(tmp_path / "a.parquet")["train/labels"].numpy() == y).all()


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"\x15" + b"\xff" * 10, "more than 64 bits"),
        (b"\x19\xfc\xff\xff\xff\xff\x0f", "longer than the metadata"),
        (b"\x1c" * 100, "nested too deeply"),
        (b"\x1d\x00", "kind 13"),
    ],
)
def test_broken_metadata(data: bytes, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        Compact(data).structure({})


def test_maps_and_far_fields_are_passed_over() -> None:
    """A map of numbers to bytes, an empty map, and a field whose number is written out."""
    #                field 1: a map of two; field 2: an empty map; field 300: the number 7; the end
    data = b"\x1b\x02\x58\x02\x01a\x04\x02bc" + b"\x1b\x00" + b"\x05\xd8\x04\x0e" + b"\x00"
    assert Compact(data).structure({300: {}}) == {300: 7}


@pytest.mark.parametrize(
    ("column", "match"),
    [
        (Column(5, 1, 0, 10), "a column at bytes 0 to 10 of 100"),
        (Column(5, 1, 90, 20), "a column at bytes 90 to 110 of 100"),
        (Column(-5, 1, 10, 20), "a column at bytes 10 to 30"),
        (Column(5, 1, 10, 0), "0 values in the pages of a column of 5"),
        (Column(5, 1, 10, 20), "a page without its sizes"),
    ],
)
def test_broken_columns(column: Column, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        read_pages(pa.BufferReader(bytes(100)), column)


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"PAR1", "no footer"),
        (b"PAR1\x00\x04\x00\x00\x00PARE", "no footer without encryption"),
        (b"PAR1\x15\x15\x01\x00\x00\x00PAR1", "a broken footer"),
        (b"PAR1\x00\x01\x00\x00\x00PAR1", "a footer that contradicts itself"),
    ],
)
def test_broken_footers(data: bytes, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        read_columns(pa.BufferReader(data), 1, 1)
